"""Recording of edits of managed resources: checked as a save is, stored as a proposal, never applied."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from django.db import transaction
from django.db.models import Model

from cli.errors import CliError
from cli.resources.kinds import INFRASTRUCTURE, KINDS, Spec
from cli.resources.plans import is_same_value
from cli.resources.stored import Key, StoredResource, is_same_connector, read_resource
from gitsync.editing import build_resource_key, find_managed_row
from gitsync.local_api import LocalApiClient
from gitsync.models import GitSyncProposal, GitSyncResource
from gitsync.proposals.document_edits import build_difference
from gitsync.proposals.links import build_link
from gitsync.proposals.passes import LIVE_SOURCE
from gitsync.proposals.tasks import request_push
from guards.limits import GIT_SYNC_RUNS
from rbac.audit import record_audit_entry
from rbac.models import User
from web.clock import get_database_time
from web.http.problems import BadInput, Conflict
from web.live import publish_change_on_commit
from web.managed_resources import Perform, act_as_manager

UNNAMEABLE_CONNECTOR: Final = (
    "In Git, {} stands for the present connector, so the infrastructure cannot move to the connector of the "
    "project with that identifier. Create one with another identifier and select it."
)
_IDENTIFIER_CHARACTERS: Final = 8


def prepare_proposal(resource: Model, actor: User, perform: Perform) -> Callable[[], Mapping[str, Any]]:
    """Make a change on trial with all of its checks, undo it, and return what stores it as a proposal.

    Raises what the change raises, and `BadInput` if it changes nothing, or to a connector that no document
    can name.
    """
    key = build_resource_key(resource)
    row = find_managed_row(key)
    if row is None:
        raise Conflict("The resource is no longer managed by a Git sync. Save it again.")
    client, stored = LocalApiClient(actor), StoredResource(key, _build_path(key, resource), {})
    try:
        with transaction.atomic():
            present = read_resource(client, stored)[0]
            with act_as_manager():
                perform()
            changed = read_resource(client, stored)[0]
            transaction.set_rollback(True)
    except CliError as error:
        raise Conflict(f"{error.message} {error.next_step}".strip()) from error
    before, after = _build_specs(present, changed)
    if is_same_value(before, after):
        raise BadInput("Nothing was changed, so there is nothing to commit.")
    return lambda: _store(row, key, actor, before, after)


def build_document(proposal: GitSyncProposal) -> dict[str, Any]:
    """Return the facts of a proposal for the API."""
    return {
        "id": proposal.pk,
        "git_sync": proposal.sync_id,
        "kind": proposal.kind,
        "scope": proposal.place,
        "parent_identifier": proposal.parent,
        "identifier": proposal.resource,
        "file": proposal.path,
        "branch": proposal.branch,
        "state": proposal.state,
        "commit": proposal.commit,
        "reason": proposal.reason,
        "link": build_link(proposal),
        "proposed_by": proposal.proposed_by_id,
        "created_at": proposal.created_at,
        "ended_at": proposal.ended_at,
    }


def _build_specs(present: StoredResource, changed: StoredResource) -> tuple[Spec, Spec]:
    """Return the specs before and after a change; both name the connector so that it is found again.

    Raises `BadInput` for a connector that no document can name.
    """
    before, after = present.spec, changed.spec
    if present.key.kind != INFRASTRUCTURE.name:
        return before, after
    reference = before["connector"] = present.connector_reference
    if is_same_connector(after["connector"], reference):
        after["connector"] = changed.connector_reference
    if after["connector"] != reference and is_same_connector(after["connector"], reference):
        message = UNNAMEABLE_CONNECTOR.format(after["connector"])
        raise BadInput(message, errors=[{"path": "connector", "message": message}])
    return before, after


def _build_path(key: Key, resource: Any) -> str:
    """Return the path of a resource in the API."""
    if key.kind == "Infrastructure":
        return f"environments/{resource.environment_id}/infrastructures/{resource.pk}"
    return f"{KINDS[key.kind].collection}/{resource.pk}"


def _store(row: GitSyncResource, key: Key, actor: User, before: Spec, after: Spec) -> Mapping[str, Any]:
    now = get_database_time()
    proposal = GitSyncProposal(
        sync=row.sync,
        kind=key.kind,
        place=key.scope,
        parent=key.parent,
        resource=key.identifier,
        path=row.path,
        proposed_by=actor,
        before=before,
        after=after,
        difference=build_difference(before, after),
        created_at=now,
        due_at=now,
    )
    proposal.branch = _name_branch(proposal)
    with transaction.atomic():
        proposal.save(force_insert=True)
        facts = {"resource": str(proposal), "branch": proposal.branch, "file": proposal.path}
        record_audit_entry(actor=actor, action="gitsync.propose", thing=row.sync, after=facts)
        _prune(row.sync_id)
        publish_change_on_commit(LIVE_SOURCE, row.sync_id)
        transaction.on_commit(lambda: request_push(str(proposal.pk)), robust=True)
    return build_document(proposal)


def _name_branch(proposal: GitSyncProposal) -> str:
    """Return the branch of the sync, or of a prefix a new one that is named after the resource."""
    branch = proposal.sync.edits_branch
    if not branch.endswith("/"):
        return branch
    return f"{branch}{proposal.kind.lower()}-{proposal.resource}-{proposal.pk.hex[:_IDENTIFIER_CHARACTERS]}"


def _prune(sync: int) -> None:
    rows = GitSyncProposal.objects.filter(sync=sync).order_by("-created_at")
    if oldest := rows.values_list("created_at", flat=True)[GIT_SYNC_RUNS - 1 : GIT_SYNC_RUNS].first():
        ended = GitSyncProposal.objects.filter(sync=sync, due_at=None, created_at__lt=oldest)
        ended.delete()
