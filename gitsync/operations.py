"""Operations on Git syncs: create, update, delete, and sync now."""

import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from catalog.operations.resources import increment_version
from connectors.models import Connector
from connectors.operations.identifiers import (
    build_identifier_conflict,
    require_valid_identifier,
    validate_name,
)
from connectors.required_access import get_connector_requirements, require_access
from connectors.specs.sites import describe_repository_problem
from delegates.access.site_calls import SiteCaller, open_site_access
from gitsync.models import GitSync, GitSyncHook
from gitsync.proposals.passes import NO_DELEGATES
from gitsync.tasks import request_pass
from guards.limits import GIT_SYNCS
from rbac.audit import record_audit_entry
from rbac.models import Scope, ServiceAccount, User
from rbac.operations.escalation_checks import describe_lending_refusal
from rbac.policy import can, require
from web.clock import get_database_time
from web.http.problems import BadInput, Conflict

VIEW: Final = "core_gitsync_view"
EDIT: Final = "core_gitsync_edit"
DELETE: Final = "core_gitsync_delete"
# Needed to act as a service account, besides the permissions of that account.
ACT_AS: Final = "core_serviceaccount_manageapikey"
_PREFIX: Final = "slp_hook_"
_BRANCH: Final = re.compile(r"[\w][\w./+-]{0,254}\Z", re.ASCII)
_FOLDER: Final = re.compile(r"[^\x00-\x1f\x7f\\]{0,255}\Z")
_FIELDS: Final = (
    "name", "connector", "repository", "branch", "folder", "service_account", "prunes", "edits_branch",
    "is_enabled",
)  # fmt: skip


@dataclass(frozen=True)
class GitSyncSpec:
    """Fields of a Git sync except scope and identifier."""

    name: str
    connector: Connector | None
    service_account: ServiceAccount | None
    branch: str
    repository: str = ""
    folder: str = ""
    prunes: bool = False
    edits_branch: str = ""
    is_enabled: bool = True


def list_git_syncs() -> "QuerySet[GitSync]":
    """Return the syncs with the relations for permission checks."""
    return GitSync.objects.select_related("scope", "connector__scope", "service_account__scope")


def create_git_sync(*, actor: User, scope: Scope, identifier: str, spec: GitSyncSpec) -> GitSync:
    """Create a Git sync; its first pass begins at once.

    Raises `BadInput`, or `Conflict` for a used identifier or too many syncs.
    """
    require(actor, EDIT, scope)
    require_valid_identifier(identifier)
    sync = GitSync(scope=scope, identifier=identifier)
    _apply_spec(sync, spec, actor)
    if GitSync.objects.filter(scope=scope).count() >= GIT_SYNCS:
        raise Conflict(f"A scope can have {GIT_SYNCS}. Delete one that is no longer needed.")
    try:
        with transaction.atomic():
            sync.save()
            record_audit_entry(
                actor=actor, action="gitsync.create", thing=sync, after=build_audit_values(sync)
            )
    except IntegrityError as exc:
        raise build_identifier_conflict("Git sync", identifier) from exc
    _wake(sync)
    return sync


def update_git_sync(*, actor: User, sync: GitSync, spec: GitSyncSpec, version: int | None = None) -> GitSync:
    """Replace all fields of a Git sync except its identifier; the next pass begins at once.

    Raises `BadInput`, and `VersionConflict` if `version` is given and outdated.
    """
    require(actor, EDIT, sync)
    before = build_audit_values(sync)
    _apply_spec(sync, spec, actor)
    with transaction.atomic():
        increment_version(sync, version)
        # A pass that is under way has read the fields from before: it stores nothing any more.
        sync.fence, sync.lease_expires_at, sync.lookup = sync.fence + 1, None, None
        claim = ("fence", "lease_expires_at", "lookup")
        sync.save(update_fields=[*_FIELDS, *claim, "due_at", "cause", "applied_commit", "updated_at"])
        record_audit_entry(
            actor=actor, action="gitsync.update", thing=sync, before=before, after=build_audit_values(sync)
        )
    _wake(sync)
    return sync


def request_sync(*, actor: User, sync: GitSync) -> None:
    """Have the newest commit applied now, also if it was applied before. Raises `Conflict` if disabled."""
    require(actor, EDIT, sync)
    with transaction.atomic():
        enabled = GitSync.objects.filter(pk=sync.pk, is_enabled=True)
        # A fetch that is under way may have read an earlier commit.
        due = {"due_at": get_database_time(), "cause": GitSync.Cause.PERSON, "lookup": None}
        if not enabled.update(**due, is_requested=True, requested_by=actor):
            raise Conflict("The Git sync is disabled. Enable it first.")
        record_audit_entry(actor=actor, action="gitsync.request", thing=sync)
    _wake(sync)


def set_up_hook(*, actor: User, sync: GitSync, provider: str) -> tuple[GitSyncHook, str]:
    """Create the webhook of a sync, or replace its provider and secret; the secret is never returned again.

    Raises `BadInput` for an unknown provider.
    """
    require(actor, EDIT, sync)
    if provider not in GitSyncHook.Provider.values:
        message = f"Use one of {', '.join(GitSyncHook.Provider.values)}."
        raise BadInput("The webhook is not valid.", errors=[{"path": "provider", "message": message}])
    secret = f"{_PREFIX}{secrets.token_urlsafe(32)}"
    with transaction.atomic():
        hook = GitSyncHook.objects.filter(sync=sync).first() or GitSyncHook(sync=sync)
        hook.provider, hook.secret = provider, secret
        hook.save()
        record_audit_entry(
            actor=actor, action="gitsync.set_up_hook", thing=sync, after={"provider": provider}
        )
    return hook, secret


def delete_git_sync(*, actor: User, sync: GitSync) -> None:
    """Delete a Git sync with its runs; the resources stay, and can be edited again."""
    require(actor, DELETE, sync)
    with transaction.atomic():
        record_audit_entry(actor=actor, action="gitsync.delete", thing=sync, before=build_audit_values(sync))
        sync.delete()


def build_audit_values(sync: GitSync) -> dict[str, Any]:
    """Return the audited values of a Git sync."""
    account, connector = sync.service_account, sync.connector
    return {
        "identifier": sync.identifier,
        **{name: getattr(sync, name) for name in ("name", "repository", "branch", "folder", "edits_branch")},
        "connector": f"{connector.scope.path}/{connector.identifier}" if connector else None,
        "service_account": f"{account.scope.path}/{account.identifier}" if account else None,
        "prunes": sync.prunes,
        "is_enabled": sync.is_enabled,
    }


def _wake(sync: GitSync) -> None:
    if sync.is_enabled:
        transaction.on_commit(lambda: request_pass(sync.pk), robust=True)


def _apply_spec(sync: GitSync, spec: GitSyncSpec, actor: User) -> None:
    folder = spec.folder.strip().strip("/")
    if errors := list(_list_errors(sync, spec, folder, actor)):
        raise BadInput("The Git sync is not valid.", errors=errors)
    if spec.connector is not None:
        require_access(actor, get_connector_requirements(spec.connector, path="connector"))
    location = (sync.connector_id, sync.repository, sync.branch, sync.folder)
    sync.name = validate_name(spec.name)
    sync.connector, sync.service_account = spec.connector, spec.service_account
    sync.repository, sync.branch, sync.folder = spec.repository.strip(), spec.branch.strip(), folder
    sync.prunes, sync.is_enabled = spec.prunes, spec.is_enabled
    sync.edits_branch = spec.edits_branch.strip()
    if location != (sync.connector_id, sync.repository, sync.branch, sync.folder):
        # Another folder of the same commit was never applied.
        sync.applied_commit = ""
    sync.due_at = get_database_time() if spec.is_enabled else None
    sync.cause = GitSync.Cause.PERSON


def _list_errors(sync: GitSync, spec: GitSyncSpec, folder: str, actor: User) -> Iterator[dict[str, str]]:
    scope = sync.scope
    repository, branch = spec.repository.strip(), spec.branch.strip()
    connector = _get_usable_connector(scope, spec.connector)
    if connector is None:
        yield {"path": "connector", "message": "Select a connector to Git of this scope or above."}
    if repository and (problem := describe_repository_problem(repository)):
        yield {"path": "repository", "message": f"This {problem}."}
    if not _is_branch(branch):
        yield {"path": "branch", "message": "Enter the name of a branch, such as main."}
    yield from _list_edit_errors(spec.edits_branch.strip(), connector)
    if not _FOLDER.match(folder) or ".." in folder.split("/"):
        yield {"path": "folder", "message": "Enter a path in the repository, such as deploy/slipway."}
    if spec.is_enabled and (other := _find_sync_of_same_folder(sync, connector, repository, branch, folder)):
        message = f"The Git sync {other.name} reads this folder already, and a resource can have only one."
        yield {"path": "folder", "message": message}
    yield from _list_account_errors(scope, spec.service_account, actor)


def _list_account_errors(
    scope: Scope, account: ServiceAccount | None, actor: User
) -> Iterator[dict[str, str]]:
    """Yield the errors of the account, also of an unchanged one: another repository would have its rights."""
    if account is None or account.scope.path not in scope.ancestor_paths():
        yield {"path": "service_account", "message": "Select the service account whose rights it has."}
    elif not can(actor, ACT_AS, account):
        message = f"You need the permission {ACT_AS} on this service account."
        yield {"path": "service_account", "message": message}
    elif refusal := describe_lending_refusal(actor, account):
        yield {"path": "service_account", "message": refusal}


def _find_sync_of_same_folder(
    sync: GitSync, connector: Connector | None, repository: str, branch: str, folder: str
) -> GitSync | None:
    """Return another sync of the scope that reads a folder; in other scopes its resources are others."""
    place = {
        "is_enabled": True,
        "connector": connector,
        "repository": repository,
        "branch": branch,
        "folder": folder,
    }
    others = GitSync.objects.filter(scope=sync.scope, **place).exclude(pk=sync.pk)
    return others.order_by("pk").first()


def _get_usable_connector(scope: Scope, connector: Connector | None) -> Connector | None:
    """Return a connector to Git of a scope or above; any other one, whoever may see it, counts as none."""
    if connector is None or connector.kind != Connector.Kind.GIT:
        return None
    return connector if connector.scope.path in scope.ancestor_paths() else None


def _list_edit_errors(branch: str, connector: Connector | None) -> Iterator[dict[str, str]]:
    """Yield the errors of the branch that edits are committed to."""
    if branch and not _is_branch(branch.removesuffix("/")):
        message = "Enter the name of a branch, or a prefix that ends with a slash, such as slipway/."
        yield {"path": "edits_branch", "message": message}
    elif branch and connector and not isinstance(open_site_access(connector), SiteCaller):
        yield {"path": "edits_branch", "message": NO_DELEGATES}


def _is_branch(name: str) -> bool:
    """Return whether git accepts a name for a branch."""
    is_clean = not any(part in name for part in ("..", "//", "/."))
    return bool(_BRANCH.match(name)) and is_clean and not name.endswith(("/", ".", ".lock"))
