"""Command `rehearse`."""

import time
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from cli.client import ApiClient
from cli.commands.run import build_run_choices
from cli.console import print_json, print_text
from cli.errors import CliError, ExitCode
from cli.lookups import find_resource
from cli.options import (
    ForceOption,
    InputSetsOption,
    InputsOption,
    JsonOption,
    PipelineArgument,
    ScopeOption,
    TagOption,
    UrlOption,
    connect,
)
from cli.watch.displays import LEVEL_STYLES

# Longest wait for the answer; the server ends a rehearsal after 45 seconds.
REHEARSAL_SECONDS: Final = 75.0
DELEGATE_SECONDS: Final = 90.0
_POLL_SECONDS: Final = 1.0
_EXIT_CODES: Final = {"SUCCEEDED": ExitCode.SUCCESS, "FAILED": ExitCode.FAILED}
_STEP_STYLES: Final = {"SUCCEEDED": "green", "FAILED": "red", "NOT_REHEARSED": "yellow"}

BehaviorOption = Annotated[
    str,
    typer.Option(
        "--behavior",
        help="Tasks of the deployed image in a rehearsal: healthy, crashes, not_pulled, unhealthy or slow.",
    ),
]


def rehearse(  # noqa: PLR0913 - each is an option
    pipeline: PipelineArgument,
    behavior: BehaviorOption = "healthy",
    tag: TagOption = "",
    inputs: InputsOption = None,
    input_sets: InputSetsOption = None,
    is_forced: ForceOption = False,
    scope: ScopeOption = "",
    url: UrlOption = "",
    as_json: JsonOption = False,
) -> None:
    """Rehearse a run in a sandbox filled with reads of the cluster, and print its log.

    Nothing in AWS is changed. The exit code is the result: 0 success, 10 failed, 15 unknown.
    """
    client = connect(url, answer_seconds=REHEARSAL_SECONDS)
    found = find_resource(client, "pipelines", pipeline, scope)
    choices = build_run_choices(found, tag, inputs or [], input_sets or [], is_forced=is_forced)
    body, path = {**choices, "behavior": behavior}, f"pipelines/{found['id']}/rehearsal"
    raise typer.Exit(request_rehearsal(client, path, pipeline, body, as_json=as_json))


def request_rehearsal(
    client: ApiClient, path: str, label: str, body: Mapping[str, Any], *, as_json: bool
) -> ExitCode:
    """Rehearse what `label` names, print the result, and return its exit code."""
    print_text(f"Rehearsing {label}; nothing in AWS is changed …", style="dim", is_error=True)
    rehearsal = _send_until_read(client, path, body)
    code = get_rehearsal_exit_code(rehearsal)
    if as_json:
        print_json({**rehearsal, "exit_code": int(code)})
    else:
        print_rehearsal(label, rehearsal)
    return code


def _send_until_read(client: ApiClient, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result, after delegates have read the cluster. Raises `CliError` if they take too long."""
    ends_at = time.monotonic() + DELEGATE_SECONDS
    while True:
        document: dict[str, Any] = client.send("POST", path, body=dict(body)).document
        if "status" in document:
            return document
        if time.monotonic() > ends_at:
            raise CliError(
                f"The cluster was not read in time. {document['reason']}",
                next_step="`slipway delegates` shows which are connected.",
                code=ExitCode.UNKNOWN,
            )
        time.sleep(_POLL_SECONDS)


def get_rehearsal_exit_code(rehearsal: Mapping[str, Any]) -> ExitCode:
    """Return the exit code for the status of a rehearsal."""
    return _EXIT_CODES.get(rehearsal["status"], ExitCode.UNKNOWN)


def print_rehearsal(label: str, rehearsal: Mapping[str, Any]) -> None:
    """Print the steps of a rehearsal with their log and rehearsed seconds, then its result."""
    for step in rehearsal["steps"]:
        _print_step(step)
    for action in rehearsal["denied"]:
        print_text(f"Denied in the sandbox, as IAM's simulation denies it: {action}", style="yellow")
    for note in rehearsal["notes"]:
        print_text(f"Note: {note}", style="dim")
    status = rehearsal["status"]
    print_text(
        f"Rehearsal of {label} {status}, after {rehearsal['seconds']} rehearsed seconds",
        style=f"bold {_STEP_STYLES.get(status, 'yellow')}",
    )
    if rehearsal["reason"]:
        prefix = "Note" if status == "SUCCEEDED" else "Cause"
        print_text(f"{prefix}: {rehearsal['reason']}")


def _print_step(step: Mapping[str, Any]) -> None:
    status = step["status"]
    print_text(f"==> {step['stage']} / {step['name']}: {status}", style=_STEP_STYLES.get(status, "bold"))
    if step["reason"] and status != "FAILED":
        print_text(step["reason"], style="dim")
    for line in step["log"]:
        if line["text"]:
            print_text(f"{line['at']:>5} s  {line['text']}", style=LEVEL_STYLES.get(line["level"], ""))
