"""Application of a plan, change by change."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cli.client import ApiClient, ApiRefusal, parse_scope
from cli.errors import CliError, ExitCode
from cli.resources.kinds import INFRASTRUCTURE, KINDS, PIPELINE, TRIGGER
from cli.resources.plans import Change, Plan
from cli.resources.stored import find_parent, find_service_account
from cli.resources.yaml_documents import DocumentError


@dataclass(frozen=True)
class AppliedChange:
    """Change that was made; `secret` is shown once, such as that of a new webhook.

    A change of a resource that a Git sync manages is committed to `branch` instead.
    """

    change: Change
    secret: str = ""
    branch: str = ""


def apply_plan(client: ApiClient, plan: Plan) -> Iterator[AppliedChange]:
    """Make the changes of a plan, and yield each one after it was made.

    Raises `CliError` with the place in the file for the first change that is refused; later ones are not
    made.
    """
    for change in plan.changes:
        yield apply_change(client, change)


def apply_change(client: ApiClient, change: Change) -> AppliedChange:
    """Make one change. Raises `CliError` with the place in the file if it is refused."""
    try:
        return _apply(client, change)
    except ApiRefusal as exc:
        raise _locate(change, exc) from exc


def _apply(client: ApiClient, change: Change) -> AppliedChange:
    kind = KINDS[change.key.kind]
    if change.after is None:
        if change.stored:
            client.send("DELETE", change.stored.path, etag=change.etag)
        return AppliedChange(change)
    body = kind.build_body(change.after, stored=change.stored.row if change.stored else None)
    if "service_account" in body:
        body["service_account"] = _find_service_account(client, change, body["service_account"])
    if change.stored:
        document = client.send(kind.update_method, change.stored.path, body=body, etag=change.etag).document
        return AppliedChange(change, branch=document["branch"] if "git_sync" in document else "")
    return AppliedChange(change, _create(client, change, body))


def _create(client: ApiClient, change: Change, body: dict[str, Any]) -> str:
    """Create a resource, and return its secret if it has one."""
    key, kind = change.key, KINDS[change.key.kind]
    path = kind.collection
    if key.kind != PIPELINE.name:
        body["identifier"] = key.identifier
    if kind.parent is None:
        body |= parse_scope(key.scope)
    else:
        parent = find_parent(client, kind.parent, key.parent, key.scope)
        if parent is None:
            message = f"there is no {kind.parent.field} {key.parent} in {key.scope or 'the account'}"
            raise _build_error(change, message, kind.parent.field)
        if kind is INFRASTRUCTURE:
            path = f"environments/{parent}/infrastructures"
        else:
            body[kind.parent.field] = parent
    document = client.send("POST", path, body=body).document
    return str(document.get("secret") or "") if kind is TRIGGER else ""


def _find_service_account(client: ApiClient, change: Change, name: Any) -> int:
    """Return the key of a service account; a number is one already."""
    if isinstance(name, int):
        return name
    account = find_service_account(client, str(name), change.key.scope)
    if account is None:
        message = f"there is no service account {name} in this scope or above that you may view"
        raise _build_error(change, message, "service_account")
    return account


def _build_error(change: Change, message: str, field: str) -> CliError:
    return change.document.build_error(message, ("spec", field)) if change.document else CliError(message)


def _locate(change: Change, refusal: ApiRefusal) -> CliError:
    """Return a refusal with the place of the value that was refused."""
    if change.document is None or refusal.code is not ExitCode.ERROR:
        advice = "Run the command again to see a new plan." if refusal.is_outdated else refusal.next_step
        return CliError(f"{change.key}: {refusal.message}", next_step=advice, code=refusal.code)
    renamed = {api: ours for ours, api in KINDS[change.key.kind].renamed.items()}
    faults = []
    for error in refusal.errors or [{"path": "", "message": refusal.detail}]:
        path = str(error.get("path") or "").replace("/", ".")
        first, *others = path.split(".")
        is_pipeline = first == "pipeline" and change.key.kind == PIPELINE.name
        inside = (
            ["spec", "yaml", first, *others] if is_pipeline else ["spec", renamed.get(first, first), *others]
        )
        message = f"{path or change.key}: {error.get('message')}"
        faults.append(change.document.location.build_fault(message, inside))
    return DocumentError(faults, next_step=refusal.next_step, code=refusal.code)
