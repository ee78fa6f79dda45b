"""The loop that follows an execution: updates, lost connections, Ctrl-C."""

import signal
import sys
import time
import uuid
from enum import StrEnum
from typing import Any, Final

import typer

from cli.client import ApiClient, Unreachable
from cli.console import get_console, get_error_console
from cli.errors import CliError, ExitCode
from cli.watch.displays import Display, JsonDisplay, PlainDisplay
from cli.watch.live_plan import LiveDisplay
from cli.watch.results import get_exit_code
from cli.watch.watcher import Watcher

_RECONNECT_SECONDS: Final = 600.0
_RECONNECT_PAUSE: Final = 3.0


class OnInterrupt(StrEnum):
    """Reaction to Ctrl-C."""

    ASK = "ask"
    DETACH = "detach"
    ABORT = "abort"
    ROLLBACK = "rollback"


def choose_display(*, as_json: bool) -> Display:
    """Return the display for this output: JSON lines, a live table on a terminal, else plain lines."""
    if as_json:
        return JsonDisplay()
    return LiveDisplay() if get_console().is_terminal else PlainDisplay()


def follow(
    client: ApiClient,
    execution_id: str,
    display: Display,
    *,
    after: int = 0,
    on_interrupt: OnInterrupt = OnInterrupt.ASK,
) -> ExitCode:
    """Show an execution until its end, and return the exit code for its result.

    Raises `CliError` with `ExitCode.UNKNOWN` if the server does not answer for ten minutes.
    """
    # CI systems end a canceled job by SIGTERM.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    watcher = Watcher(client, execution_id, after=after)
    while True:
        try:
            execution = _watch(watcher, display)
        except KeyboardInterrupt:
            display.suspend()
            if _interrupt(client, execution_id, display, on_interrupt):
                return ExitCode.INTERRUPTED
            if on_interrupt is not OnInterrupt.ASK:
                # The second one of a job does not wait for the end of its abort.
                on_interrupt = OnInterrupt.DETACH
        else:
            code = get_exit_code(execution)
            display.show_result(execution, code, build_execution_url(client, execution_id))
            return code
        finally:
            display.suspend()


def build_execution_url(client: ApiClient, execution_id: str) -> str:
    """Return the URL of an execution's page."""
    return f"{client.sign_in.url}/deployments/{execution_id}/"


def _watch(watcher: Watcher, display: Display) -> dict[str, Any]:
    """Show updates until the execution is over, and return it."""
    lost_at: float | None = None
    while True:
        try:
            update = watcher.poll()
        except Unreachable as exc:
            lost_at = _note_outage(watcher, display, exc, lost_at)
            time.sleep(_RECONNECT_PAUSE)
            continue
        if lost_at is not None:
            lost_at = None
            display.show_notice("Connected again.")
        display.show_lines(update.lines)
        display.show_execution(update.execution)
        if update.is_over:
            return update.execution
        time.sleep(update.pause_seconds)


def _note_outage(watcher: Watcher, display: Display, exc: Unreachable, lost_at: float | None) -> float:
    if lost_at is None:
        display.show_notice(f"{exc.message} The execution continues; trying to connect again.")
        return time.monotonic()
    if time.monotonic() - lost_at > _RECONNECT_SECONDS:
        raise CliError(
            f"{exc.message} The result of the execution is not known.",
            next_step=f"When the server answers again: slipway logs {watcher.execution_id} --follow",
            code=ExitCode.UNKNOWN,
        ) from exc
    return lost_at


def _interrupt(client: ApiClient, execution_id: str, display: Display, on_interrupt: OnInterrupt) -> bool:
    """React to Ctrl-C, and return whether to detach."""
    choice = _ask() if on_interrupt is OnInterrupt.ASK else on_interrupt
    if choice is OnInterrupt.DETACH:
        command = f"slipway logs {execution_id} --follow"
        display.show_notice(f"Detached; the execution continues. Watch it again: {command}")
    elif choice in (OnInterrupt.ABORT, OnInterrupt.ROLLBACK):
        try:
            _abort(client, execution_id, display, rolls_back=choice is OnInterrupt.ROLLBACK)
        except CliError as exc:
            display.show_notice(exc.message)
        else:
            display.show_notice("Abort requested; waiting for the end.")
    return choice is OnInterrupt.DETACH


def _abort(client: ApiClient, execution_id: str, display: Display, *, rolls_back: bool) -> None:
    """Request an abort until the server takes it. Raises `CliError` if it refuses, or is away too long.

    Another Ctrl-C ends the wait.
    """
    key, lost_at = str(uuid.uuid4()), time.monotonic()
    while True:
        try:
            client.send(
                "POST",
                f"executions/{execution_id}/abort",
                body={"rollback": rolls_back},
                idempotency_key=key,
            )
        except Unreachable as exc:
            if time.monotonic() - lost_at > _RECONNECT_SECONDS:
                raise
            display.show_notice(f"{exc.message} The abort is not requested yet; trying again.")
            time.sleep(_RECONNECT_PAUSE)
        else:
            return


def _ask() -> OnInterrupt:
    """Ask what Ctrl-C means; without a terminal, and on a second Ctrl-C, it detaches."""
    if not (sys.stdin.isatty() and get_error_console().is_terminal):
        return OnInterrupt.DETACH
    question = "[d]etach, [a]bort, abort and [r]oll back, or [c]ontinue watching?"
    answers = {
        "d": OnInterrupt.DETACH,
        "a": OnInterrupt.ABORT,
        "r": OnInterrupt.ROLLBACK,
        "c": OnInterrupt.ASK,
    }
    try:
        answer = typer.prompt(question, default="d", err=True)
    except (typer.Abort, KeyboardInterrupt):
        return OnInterrupt.DETACH
    return answers.get(answer.strip().lower()[:1], OnInterrupt.ASK)
