"""Result of an execution: exit code, and the cause of a failure in words."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from cli.errors import ExitCode

# Statuses after which nothing runs any more.
OVER: Final = frozenset(
    {
        "SUCCESS",
        "FAILED",
        "ABORTED",
        "EXPIRED",
        "SKIPPED",
        "APPROVAL_REJECTED",
        "IGNORE_FAILED",
        "ROLLED_BACK",
    }
)
_ROLLED_BACK: Final = ("ROLLED_BACK", "ROLLED_BACK_BY_AWS")
_EXIT_CODES: Final = {
    "SUCCESS": ExitCode.SUCCESS,
    "IGNORE_FAILED": ExitCode.SUCCESS,
    "SKIPPED": ExitCode.SUCCESS,
    "ROLLED_BACK": ExitCode.ROLLED_BACK,
    "ABORTED": ExitCode.ABORTED,
    "APPROVAL_REJECTED": ExitCode.REJECTED,
    "EXPIRED": ExitCode.TIMED_OUT,
}


def get_exit_code(execution: Mapping[str, Any]) -> ExitCode:
    """Return the exit code for the status and outcome of an execution that is over."""
    status, outcome = execution.get("status"), execution.get("outcome")
    if status == "FAILED":
        if outcome in _ROLLED_BACK:
            return ExitCode.ROLLED_BACK
        return ExitCode.TIMED_OUT if outcome == "TIMED_OUT" else ExitCode.FAILED
    return _EXIT_CODES.get(str(status), ExitCode.UNKNOWN)


def get_label(execution: Mapping[str, Any]) -> str:
    """Return the name under which commands accept an execution, such as `shop#12`."""
    return f"{execution['pipeline']['identifier']}#{execution['number']}"


def describe_result(execution: Mapping[str, Any]) -> str:
    """Return one line with status, outcome and duration."""
    words = [get_label(execution), str(execution["status"])]
    if outcome := execution.get("outcome"):
        words.append(f"outcome {outcome}")
    if seconds := get_duration(execution):
        words.append(f"after {format_duration(seconds)}")
    return ", ".join([" ".join(words[:2]), *words[2:]])


def describe_failure(execution: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that name the cause of a failure, with the last output of the container."""
    failure = execution.get("failure")
    if not failure:
        return
    yield f"Cause: {failure.get('message')} ({failure.get('code')})"
    details = [
        f"{name} {failure[key]}"
        for key, name in (("step", "step"), ("container", "container"), ("exit_code", "exit code"))
        if failure.get(key) is not None
    ]
    if details:
        yield f"  {', '.join(details)}"
    if advice := failure.get("advice"):
        yield f"  What to do: {advice}"
    if output := failure.get("last_output"):
        yield f"Last output of {failure.get('container') or 'the container'}:"
        yield from (f"  | {line}" for line in output)


def get_duration(part: Mapping[str, Any], now: datetime | None = None) -> float:
    """Return the seconds from the start to the end, or until `now`; 0 before the start."""
    started, ended = parse_time(part.get("started_at")), parse_time(part.get("ended_at"))
    if started is None:
        return 0.0
    return max(0.0, ((ended or now or datetime.now(UTC)) - started).total_seconds())


def parse_time(text: object) -> datetime | None:
    """Return a moment of the API, or None."""
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None


def format_duration(seconds: float) -> str:
    """Return a duration such as 42s, 3m 07s or 2h 05m."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02d}m"
    return f"{minutes}m {rest:02d}s" if minutes else f"{rest}s"
