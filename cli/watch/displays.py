"""Displays of a watched execution: plain lines, and JSON lines for programs."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from cli.console import STATUS_STYLES, print_json_line, print_text
from cli.errors import ExitCode
from cli.text import clean_line
from cli.watch.results import describe_failure, describe_result, get_label, parse_time

LEVEL_STYLES: Final = {"error": "red", "warning": "yellow", "success": "green", "event": "cyan"}
_WAITS_FOR_PERSON: Final = ("APPROVAL_WAITING", "INTERVENTION_WAITING")


class Display(Protocol):
    """Display of one execution."""

    def show_execution(self, execution: dict[str, Any]) -> None:
        """Show the new state."""

    def show_lines(self, lines: list[dict[str, Any]]) -> None:
        """Show new lines of the log."""

    def show_notice(self, text: str) -> None:
        """Show a note of the command itself, such as a lost connection."""

    def show_result(self, execution: dict[str, Any], code: ExitCode, url: str) -> None:
        """Show the end of the execution."""

    def suspend(self) -> None:
        """Leave the terminal to a question; the next update continues."""


class PlainDisplay:
    """Log lines, and a line for each step whose status changes."""

    def __init__(self) -> None:
        self._statuses: dict[tuple[str, str, str], str] = {}

    def show_execution(self, execution: dict[str, Any]) -> None:
        for stage in execution["stages"]:
            for step in stage["steps"]:
                self._show_step(execution, stage, step)

    def show_lines(self, lines: list[dict[str, Any]]) -> None:
        for line in lines:
            print_text(format_line(line), style=LEVEL_STYLES.get(line["level"], ""))

    def show_notice(self, text: str) -> None:
        print_text(text, style="yellow", is_error=True)

    def show_result(self, execution: dict[str, Any], code: ExitCode, url: str) -> None:
        print_result(execution, url)

    def suspend(self) -> None:
        """Do nothing: lines need no place of their own."""

    def _show_step(
        self, execution: Mapping[str, Any], stage: Mapping[str, Any], step: Mapping[str, Any]
    ) -> None:
        key, status = (stage["identifier"], step["section"], step["identifier"]), step["status"]
        if status == self._statuses.get(key, "QUEUED"):
            return
        self._statuses[key] = status
        print_text(f"==> {stage['name']} / {step['name']}: {status}", style=STATUS_STYLES.get(status, "bold"))
        if status in _WAITS_FOR_PERSON:
            print_text(describe_wait(execution, step), style="yellow")


class JsonDisplay:
    """One JSON object on each line: `execution` on a change, `log` for a line, `result` at the end."""

    def __init__(self) -> None:
        self._shown: dict[str, Any] = {}

    def show_execution(self, execution: dict[str, Any]) -> None:
        summary = {
            "event": "execution",
            **{key: execution[key] for key in ("id", "number", "status", "outcome")},
            "pipeline": execution["pipeline"]["identifier"],
            "steps": [
                {
                    "stage": stage["identifier"],
                    "section": step["section"],
                    "step": step["identifier"],
                    "status": step["status"],
                }
                for stage in execution["stages"]
                for step in stage["steps"]
            ],
        }
        if summary != self._shown:
            self._shown = summary
            print_json_line(summary)

    def show_lines(self, lines: list[dict[str, Any]]) -> None:
        for line in lines:
            print_json_line({"event": "log", **line})

    def show_notice(self, text: str) -> None:
        print_json_line({"event": "notice", "text": text})

    def show_result(self, execution: dict[str, Any], code: ExitCode, url: str) -> None:
        keys = ("id", "number", "status", "outcome", "failure", "started_at", "ended_at")
        print_json_line(
            {"event": "result", **{key: execution[key] for key in keys}, "exit_code": int(code), "url": url}
        )

    def suspend(self) -> None:
        """Do nothing: lines need no place of their own."""


def format_line(line: Mapping[str, Any]) -> str:
    """Return a log line with its time of day on this machine's clock."""
    moment = parse_time(line["at"])
    time = moment.astimezone().strftime("%H:%M:%S") if moment else ""
    return f"{time} {clean_line(line['text'])}"


def describe_wait(execution: Mapping[str, Any], step: Mapping[str, Any]) -> str:
    """Return the decision that a step waits for, with the command for it."""
    label = get_label(execution)
    if approval := step.get("approval"):
        groups = ", ".join(approval["groups"]) or "an approver"
        return f"Waits for approval by {groups}: slipway approve '{label}', or slipway reject '{label}'"
    choices = ", ".join((step.get("intervention") or {}).get("choices", []))
    return f"Waits for a decision ({choices}): slipway decide '{label}' {step['identifier']} DECISION"


def print_result(execution: Mapping[str, Any], url: str) -> None:
    """Print the result of an execution and the cause of a failure."""
    print_text(describe_result(execution), style=f"bold {STATUS_STYLES.get(execution['status'], '')}")
    for line in describe_failure(execution):
        print_text(line)
    print_text(url, style="dim")
