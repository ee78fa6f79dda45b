"""Leftover ECS tasks at the end of an execution: the end waits for them, and not for ever."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from steps.actions.context import StepContext
from steps.actions.run_task.leftover_tasks import STOP_TIMEOUT, StopLeftoverTasks


@dataclass
class _Context:
    """A cluster with one task that never stops."""

    moment: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    cluster: str = "demo"
    progress: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    @property
    def ecs(self) -> Any:
        task = SimpleNamespace(id="4711", last_status="RUNNING")
        return SimpleNamespace(describe_tasks=lambda cluster, arns: [task])

    def get_output(self, name: str) -> list[str]:
        return ["arn:task/4711"]

    def now(self) -> datetime:
        return self.moment

    def log(self, text: str, level: str = "info") -> None:
        self.lines.append(text)


def test_a_task_that_never_stops_does_not_hold_up_the_end_for_ever() -> None:
    context = _Context()
    step_context = cast(StepContext, context)
    assert not StopLeftoverTasks().is_done(step_context)
    context.moment += STOP_TIMEOUT - timedelta(seconds=1)
    assert not StopLeftoverTasks().is_done(step_context)
    assert context.lines == []
    context.moment += timedelta(seconds=1)
    assert StopLeftoverTasks().is_done(step_context)
    assert "4711" in context.lines[0]
