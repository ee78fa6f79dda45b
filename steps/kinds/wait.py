"""Wait step: pauses for a given time."""

import re
from dataclasses import dataclass, field

from guards.limits import WAIT_SECONDS
from steps.actions.waits import WaitForTime
from steps.expressions import has_expression
from steps.failure_strategies import parse_duration
from steps.kinds.registry import BadStepError, Plan, describe_field, step, unit

_DURATION_PATTERN = re.compile(r"(\d{1,6}[smhd])(?: ?(\d{1,6}[smhd])){0,3}\Z")


@dataclass(frozen=True)
class WaitSpec:
    """Settings of a wait: a duration of 90s, 10m, 2h, 1d, or several parts such as 1h 30m."""

    duration: str = field(
        metadata=describe_field("Such as 90s, 10m or 1h 30m. Whoever may decide about the run can skip it.")
    )

    def __post_init__(self) -> None:
        """Raise `BadStepError` for an invalid duration."""
        if problem := describe_duration_problem(self.duration):
            raise BadStepError(f"Wait: {problem}")

    @property
    def planned_wait_seconds(self) -> int:
        """Return the length of the wait; an expression is resolved when the step starts."""
        return parse_wait_duration(self.duration)


def describe_duration_problem(duration: str) -> str:
    """Return the problem of a duration; empty if it is valid or an expression."""
    if has_expression(duration):
        return ""
    if not _DURATION_PATTERN.match(duration):
        return f"duration is a time such as 90s, 10m or 1h 30m, not {duration!r}"
    if not 0 < parse_wait_duration(duration) <= WAIT_SECONDS:
        return f"duration is from 1s to {WAIT_SECONDS}, not {duration}"
    return ""


def parse_wait_duration(duration: str) -> int:
    """Return the seconds of a duration; 0 for an expression, which is resolved later."""
    if has_expression(duration):
        return 0
    return sum(parse_duration(part) for part in re.findall(r"\d+[smhd]", duration))


@step(
    "Wait",
    title="Wait",
    spec=WaitSpec,
    timeout_minutes=5,
    starter={"duration": "10m"},
    deploys=False,
    outputs={"waitsUntil": "When the wait ends."},
)
def wait(spec: WaitSpec) -> Plan:
    """Wait; a person may go on sooner."""
    yield unit("Wait", WaitForTime(spec.planned_wait_seconds))
