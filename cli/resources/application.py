"""Application of a plan, change by change."""

from collections.abc import Iterator
from typing import Any

from cli.client import ApiClient, ApiRefusal
from cli.errors import CliError, ExitCode
from cli.options import parse_scope
from cli.resources.kinds import INFRASTRUCTURE, KINDS, PIPELINE
from cli.resources.plans import Change, ChangeType, Plan


def apply_plan(client: ApiClient, plan: Plan) -> Iterator[Change]:
    """Make the changes of a plan, and yield each one after it was made.

    Raises `CliError` with the place in the file for the first change that is refused; later ones are not
    made.
    """
    for change in plan.changes:
        try:
            _apply(client, change)
        except ApiRefusal as exc:
            raise _locate(change, exc) from exc
        yield change


def _apply(client: ApiClient, change: Change) -> None:
    kind = KINDS[change.key.kind]
    if change.type is ChangeType.DELETE and change.stored:
        client.send("DELETE", change.stored.path, etag=change.etag)
    elif change.stored and change.after:
        body = kind.build_body(change.after, is_new=False)
        client.send(kind.update_method, change.stored.path, body=body, etag=change.etag)
    elif change.after:
        _create(client, change, kind.build_body(change.after, is_new=True))


def _create(client: ApiClient, change: Change, body: dict[str, Any]) -> None:
    key, scope = change.key, parse_scope(change.key.scope)
    if key.kind == INFRASTRUCTURE.name:
        environment = body.pop("environment")
        path = f"{_find_environment(client, change, environment)}/infrastructures"
        client.send("POST", path, body={"identifier": key.identifier, **body})
        return
    identifier = {} if key.kind == PIPELINE.name else {"identifier": key.identifier}
    client.send("POST", KINDS[key.kind].collection, body={**identifier, **body, **scope})


def _find_environment(client: ApiClient, change: Change, identifier: str) -> str:
    """Return the path of the environment of a new infrastructure. Raises `CliError` if there is none."""
    for row in client.list("environments", identifier=identifier, **parse_scope(change.key.scope)):
        if row["scope"].removeprefix("account").strip("/") == change.key.scope:
            return f"environments/{row['id']}"
    message = f"There is no environment {identifier} in {change.key.scope or 'the account'}."
    raise (
        change.document.build_error(message, ("spec", "environment"))
        if change.document
        else CliError(message)
    )


def _locate(change: Change, refusal: ApiRefusal) -> CliError:
    """Return a refusal with the place of the value that was refused."""
    if change.document is None or refusal.code is not ExitCode.ERROR:
        advice = "Run the command again to see a new plan." if refusal.is_outdated else refusal.next_step
        return CliError(f"{change.key}: {refusal.message}", next_step=advice, code=refusal.code)
    renamed = {api: ours for ours, api in KINDS[change.key.kind].renamed.items()}
    lines = []
    for error in refusal.errors or [{"path": "", "message": refusal.detail}]:
        path = str(error.get("path") or "").replace("/", ".")
        first, *others = path.split(".")
        is_pipeline = first == "pipeline" and change.key.kind == PIPELINE.name
        inside = (
            ["spec", "yaml", first, *others] if is_pipeline else ["spec", renamed.get(first, first), *others]
        )
        place = change.document.location.describe(inside)
        lines.append(f"{place}: {path or change.key}: {error.get('message')}")
    return CliError("\n".join(lines), next_step=refusal.next_step, code=refusal.code)
