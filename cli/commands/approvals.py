"""Commands `approvals`, `approve` and `reject`."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from cli.client import ApiClient, parse_scope
from cli.commands.executions import ExecutionArgument, list_waiting_steps
from cli.console import print_fields, print_json, print_table, print_text
from cli.errors import CliError, ExitCode
from cli.lookups import find_execution, list_limited
from cli.options import (
    JsonOption,
    LimitOption,
    ScopeOption,
    UrlOption,
    YesOption,
    confirm,
    connect,
)
from cli.watch.results import get_label

CommentOption = Annotated[str, typer.Option("--comment", help="Reason, for the record.", show_default=False)]


def list_approvals(
    is_all: Annotated[
        bool, typer.Option("--all", help="Also those that wait for others, and decided ones.")
    ] = False,
    limit: LimitOption = 20,
    scope: ScopeOption = "",
    url: UrlOption = "",
    as_json: JsonOption = False,
) -> None:
    """List the approvals that wait for you."""
    filters = {"mine": None if is_all else "true", **parse_scope(scope)}
    client = connect(url)
    rows = list_limited(client, "approvals", limit, **filters)
    if as_json:
        print_json(rows)
        return
    documents = [client.get(f"approvals/{row['id']}") for row in rows]
    print_table(
        ("Execution", "Pipeline", "Step", "Status", "Approvals", "Message"),
        [
            (
                row["execution"]["id"],
                f"{row['execution']['pipeline']} #{row['execution']['number']}",
                row["step"],
                row["status"],
                f"{row['given']}/{row['minimum']}",
                row["message"],
            )
            for row in documents
        ],
    )


def approve(
    name: ExecutionArgument,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", metavar="NAME=VALUE", help="Input that the approval asks for.", show_default=False
        ),
    ] = None,
    comment: CommentOption = "",
    yes: YesOption = False,
    scope: ScopeOption = "",
    url: UrlOption = "",
    as_json: JsonOption = False,
) -> None:
    """Approve the plan that an execution waits with, after showing it."""
    client = connect(url)
    execution, approval = _find_approval(client, name, scope, is_quiet=as_json)
    confirm(f"Approve {get_label(execution)}?", yes=yes)
    body = {"diff": approval["diff"], "comment": comment, "inputs": _parse_approver_inputs(inputs or [])}
    _send_decision(client, execution, approval, "approve", body, as_json=as_json)


def reject(
    name: ExecutionArgument,
    comment: CommentOption = "",
    yes: YesOption = False,
    scope: ScopeOption = "",
    url: UrlOption = "",
    as_json: JsonOption = False,
) -> None:
    """Reject the plan that an execution waits with; one rejection ends its step."""
    client = connect(url)
    execution, approval = _find_approval(client, name, scope, is_quiet=as_json)
    confirm(f"Reject {get_label(execution)}?", yes=yes)
    body = {"diff": approval["diff"], "comment": comment}
    _send_decision(client, execution, approval, "reject", body, as_json=as_json)


def _find_approval(
    client: ApiClient, name: str, scope: str, *, is_quiet: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return an execution and its first open approval that the user may decide, and print its plan.

    Raises `CliError`.
    """
    execution = find_execution(client, name, scope)
    steps = list_waiting_steps(execution, "APPROVAL_WAITING")
    approvals = [client.get(f"approvals/{step['approval']['id']}") for step in steps]
    approval = next((row for row in approvals if row["can_decide"]), approvals[0])
    if not approval["can_decide"] and approval["why_not"]:
        raise CliError(approval["why_not"], code=ExitCode.FORBIDDEN)
    if not is_quiet:
        _print_plan(execution, approval)
    return execution, dict(approval)


def _print_plan(execution: Mapping[str, Any], approval: Mapping[str, Any]) -> None:
    print_fields(
        [
            ("Execution", get_label(execution)),
            ("Step", approval["step"]),
            ("Message", approval["message"]),
            ("Approvals", f"{approval['given']} of {approval['minimum']}"),
            ("Started by", execution["started_by"]),
        ]
    )
    for stage in approval["ahead"].get("stages", []):
        for step in stage.get("steps", []):
            print_text(f"  {stage['name']} / {step['name']}", style="bold")
            for line in _describe_step(step):
                print_text(f"    {line}")


def _describe_step(step: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a step would do: changes and writes, else its actions."""
    would = step.get("would")
    if not would:
        yield from step.get("actions", [])
        return
    if failure := would.get("failure"):
        yield f"The run would fail here: {failure['message']}"
    yield from would.get("warnings", [])
    yield from would.get("changes", [])
    yield from (f"{call['service']}:{call['operation']}" for call in would.get("calls", []))


def _parse_approver_inputs(texts: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    if any(not name or not separator for name, separator, _ in pairs):
        raise CliError("An input has no value.", next_step="Use --input NAME=VALUE.", code=ExitCode.USAGE)
    return {name: value for name, _, value in pairs}


def _send_decision(
    client: ApiClient,
    execution: Mapping[str, Any],
    approval: Mapping[str, Any],
    verb: str,
    body: Mapping[str, Any],
    *,
    as_json: bool,
) -> None:
    """Send a decision about exactly the plan that was shown."""
    document = client.send("POST", f"approvals/{approval['id']}/{verb}", body=dict(body)).document
    if as_json:
        print_json(document)
        return
    past = {"approve": "Approved", "reject": "Rejected"}[verb]
    print_text(f"{past} {get_label(execution)}: {document['given']} of {document['minimum']} approvals.")
