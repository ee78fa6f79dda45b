"""Commands of executions: list, show, log, abort, rollback, decisions."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cli.client import ApiClient, parse_scope
from cli.commands.rehearsals import REHEARSAL_SECONDS, BehaviorOption, request_rehearsal
from cli.console import print_fields, print_json, print_json_line, print_table, print_text
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
from cli.watch.displays import LEVEL_STYLES, describe_wait, format_line
from cli.watch.follow import OnInterrupt, build_execution_url, choose_display, follow
from cli.watch.results import (
    describe_failure,
    format_duration,
    get_duration,
    get_label,
    parse_time,
)
from cli.watch.watcher import Watcher

EXECUTION_HELP = "Number such as 12, PIPELINE#NUMBER such as shop#12, id, or URL of the page."
ExecutionArgument = Annotated[str, typer.Argument(metavar="EXECUTION", help=EXECUTION_HELP)]
FollowOption = Annotated[
    bool, typer.Option("--follow", "-f", help="Show the log until the end; exit with the result.")
]

app = typer.Typer(help="List executions, or show one.", no_args_is_help=False)


@app.callback(invoke_without_command=True)
def list_executions(
    context: typer.Context,
    pipeline: Annotated[
        str, typer.Option("--pipeline", help="Identifier of a pipeline.", show_default=False)
    ] = "",
    status: Annotated[str, typer.Option("--status", help="Status such as FAILED.", show_default=False)] = "",
    search: Annotated[
        str,
        typer.Option(
            "--search", help="Part of a pipeline's name, a number, or an image tag.", show_default=False
        ),
    ] = "",
    limit: LimitOption = 20,
    scope: ScopeOption = "",
    url: UrlOption = "",
    as_json: JsonOption = False,
) -> None:
    """List executions, newest first; `show` shows one."""
    if context.invoked_subcommand:
        return
    filters = {"identifier": pipeline, "status": status.upper(), "q": search, **parse_scope(scope)}
    rows = list_limited(connect(url), "executions", limit, **filters)
    if as_json:
        print_json(rows)
        return
    print_table(
        ("Execution", "Status", "Outcome", "Tag", "Started by", "Created", "Duration"),
        [
            (
                get_label(row),
                row["status"],
                row["outcome"],
                row["artifact"].get("tag"),
                row["started_by"],
                _format_moment(row["created_at"]),
                format_duration(get_duration(row)) if row["started_at"] else "",
            )
            for row in rows
        ],
    )


@app.command("show")
def show_execution(
    name: ExecutionArgument, scope: ScopeOption = "", url: UrlOption = "", as_json: JsonOption = False
) -> None:
    """Show the state of an execution with its stages and steps."""
    client = connect(url)
    execution = find_execution(client, name, scope)
    if as_json:
        print_json(execution)
        return
    print_fields(
        [
            ("Execution", get_label(execution)),
            ("Status", execution["status"]),
            ("Outcome", execution["outcome"]),
            (
                "Image",
                f"{execution['artifact'].get('image', '')}:{execution['artifact'].get('tag', '')}".strip(":"),
            ),
            ("Scope", execution["scope"]),
            ("Started by", execution["started_by"]),
            ("Created", _format_moment(execution["created_at"])),
            ("Duration", format_duration(get_duration(execution)) if execution["started_at"] else ""),
            ("Page", build_execution_url(client, execution["id"])),
        ]
    )
    for line in describe_failure(execution):
        print_text(line)
    print_text("")
    print_table(("Stage", "Step", "Status", "Duration", "Waits for"), _list_step_rows(execution))


def show_log(
    name: ExecutionArgument,
    is_followed: FollowOption = False,
    after: Annotated[int, typer.Option("--after", min=0, help="Only lines after this number.")] = 0,
    on_interrupt: Annotated[
        OnInterrupt, typer.Option("--on-interrupt", help="Reaction to Ctrl-C while following.")
    ] = OnInterrupt.ASK,
    scope: ScopeOption = "",
    url: UrlOption = "",
    as_json: JsonOption = False,
) -> None:
    """Print the log of an execution; with --follow until its end."""
    client = connect(url)
    execution = find_execution(client, name, scope)
    if is_followed:
        display = choose_display(as_json=as_json)
        raise typer.Exit(follow(client, execution["id"], display, after=after, on_interrupt=on_interrupt))
    watcher, pause = Watcher(client, execution["id"], after=after), 0.0
    while not pause:
        update = watcher.poll()
        pause = 1.0 if update.is_over else update.pause_seconds
        for line in update.lines:
            if as_json:
                print_json_line(line)
            else:
                print_text(format_line(line), style=LEVEL_STYLES.get(line["level"], ""))


def abort(
    name: ExecutionArgument,
    is_rolled_back: Annotated[
        bool, typer.Option("--rollback", help="Also roll back what it changed.")
    ] = False,
    yes: YesOption = False,
    is_followed: FollowOption = False,
    scope: ScopeOption = "",
    url: UrlOption = "",
    as_json: JsonOption = False,
) -> None:
    """Abort a running execution."""
    client = connect(url)
    execution = find_execution(client, name, scope)
    if is_rolled_back:
        _print_undo_plan(client, execution, is_quiet=as_json)
    what = "Abort and roll back" if is_rolled_back else "Abort"
    confirm(f"{what} {get_label(execution)} ({execution['status']})?", yes=yes)
    answer = client.send("POST", f"executions/{execution['id']}/abort", body={"rollback": is_rolled_back})
    _report(client, execution, answer.document, is_followed=is_followed, as_json=as_json)


def roll_back(
    name: ExecutionArgument,
    yes: YesOption = False,
    is_followed: FollowOption = False,
    is_rehearsed: Annotated[
        bool, typer.Option("--rehearse", help="Only rehearse it in a sandbox; nothing in AWS is changed.")
    ] = False,
    behavior: BehaviorOption = "healthy",
    scope: ScopeOption = "",
    url: UrlOption = "",
    as_json: JsonOption = False,
) -> None:
    """Roll back to the version before an execution, after showing what will be undone.

    If newer executions have deployed the same ECS service, a new execution deploys that version instead.
    With --rehearse the exit code is the result of the rehearsal: 0 success, 10 failed, 15 unknown.
    """
    client = connect(url, answer_seconds=REHEARSAL_SECONDS) if is_rehearsed else connect(url)
    execution = find_execution(client, name, scope)
    _print_undo_plan(client, execution, is_quiet=as_json)
    if is_rehearsed:
        label, path = (
            f"the rollback of {get_label(execution)}",
            f"executions/{execution['id']}/rollback-rehearsal",
        )
        raise typer.Exit(request_rehearsal(client, path, label, {"behavior": behavior}, as_json=as_json))
    confirm(f"Roll back {get_label(execution)} ({execution['status']})?", yes=yes)
    answer = client.send("POST", f"executions/{execution['id']}/rollback")
    _report(client, execution, answer.document, is_followed=is_followed, as_json=as_json)


def decide(
    name: ExecutionArgument,
    step: Annotated[str, typer.Argument(metavar="STEP", help="Identifier of the step that waits.")],
    decision: Annotated[
        str,
        typer.Argument(
            metavar="DECISION", help="Such as RETRY, IGNORE, ROLL_BACK or ABORT; `show` lists those possible."
        ),
    ],
    yes: YesOption = False,
    scope: ScopeOption = "",
    url: UrlOption = "",
) -> None:
    """Decide about a step that waits for an intervention."""
    client = connect(url)
    execution = find_execution(client, name, scope)
    confirm(f"{decision.upper()} for step {step} of {get_label(execution)}?", yes=yes)
    body = {"step": step, "decision": decision.upper()}
    client.send("POST", f"executions/{execution['id']}/decisions", body=body)
    print_text(f"Requested {body['decision']} for step {step} of {get_label(execution)}.")


def _list_step_rows(execution: Mapping[str, Any]) -> list[tuple[object, ...]]:
    return [
        (
            stage["name"],
            "  " * step["depth"] + step["name"],
            step["status"],
            format_duration(get_duration(step)) if step["started_at"] else "",
            describe_wait(execution, step)
            if step["status"] in ("APPROVAL_WAITING", "INTERVENTION_WAITING")
            else "",
        )
        for stage in execution["stages"]
        for step in stage["steps"]
        if step["section"] == "EXECUTION" or step["started_at"]
    ]


def _print_undo_plan(client: ApiClient, execution: Mapping[str, Any], *, is_quiet: bool) -> None:
    """Print the changes that a rollback undoes, in its order."""
    if is_quiet:
        return
    plan = client.get(f"executions/{execution['id']}/undo-plan")
    if not plan["changes"]:
        print_text(plan["note"])
        return
    print_text("A rollback undoes, in this order:")
    for change in plan["changes"]:
        doubt = "" if change["certain"] else " (if its AWS call took effect)"
        print_text(f"  {change['words']}{doubt}")


def _report(
    client: ApiClient,
    execution: Mapping[str, Any],
    watched: Mapping[str, Any],
    *,
    is_followed: bool,
    as_json: bool,
) -> None:
    """Print the execution to watch after a request, or follow it."""
    is_new = watched["id"] != execution["id"]
    if is_followed:
        after = 0 if is_new else execution["last_line"]
        raise typer.Exit(follow(client, watched["id"], choose_display(as_json=as_json), after=after))
    page = build_execution_url(client, watched["id"])
    if as_json:
        print_json({**watched, "url": page})
    elif is_new:
        print_text(f"Started execution {watched['number']}, which deploys the version before: {page}")
    else:
        print_text(f"Requested. {page}")


def _format_moment(text: object) -> str:
    """Return a moment on this machine's clock."""
    moment = parse_time(text)
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S") if moment else ""


def list_waiting_steps(execution: Mapping[str, Any], status: str) -> list[dict[str, Any]]:
    """Return the steps of an execution with this status. Raises `CliError` if there is none."""
    steps = [
        dict(step) for stage in execution["stages"] for step in stage["steps"] if step["status"] == status
    ]
    if not steps:
        raise CliError(
            f"{get_label(execution)} does not wait for an approval; its status is {execution['status']}.",
            code=ExitCode.CONFLICT,
        )
    return steps
