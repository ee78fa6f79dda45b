"""Leftover ECS tasks at the end of an execution: the end waits for them, and not for ever."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from steps.actions.context import StepContext
from steps.actions.run_task.leftover_tasks import (
    ATTRIBUTION_TIMEOUT,
    STOP_TIMEOUT,
    FindLeftoverTasks,
    StopLeftoverTasks,
)


@dataclass
class _Context:
    """A cluster with one task that never stops."""

    moment: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    cluster: str = "demo"
    progress: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    saved: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)

    @property
    def ecs(self) -> Any:
        task = SimpleNamespace(id="4711", last_status="RUNNING")
        return SimpleNamespace(describe_tasks=lambda cluster, arns: [task])

    def get_output(self, name: str) -> list[str]:
        return ["arn:task/4711"]

    def load_for_rollback(self, name: str) -> Any:
        return self.saved.get(name)

    def list_other_steps(self, step_type: str) -> list[Any]:
        """Return a step that waits for the answer to its first call."""
        saved = {"try 0": "b", "b batch 0": 1}
        return [SimpleNamespace(has_ended=False, get_output=self.get_output, load_for_rollback=saved.get)]

    def set_outputs(self, **outputs: Any) -> None:
        self.outputs |= outputs

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


def test_tasks_that_another_step_may_have_started_are_not_stopped_and_the_log_says_so() -> None:
    context = _Context(saved={"try 0": "a", "a batch 0": 1, "a tasks 0": ["arn:task/1"], "a batch 1": 1})
    step_context = cast(StepContext, context)
    assert not FindLeftoverTasks().is_done(step_context)
    context.moment += ATTRIBUTION_TIMEOUT - timedelta(seconds=1)
    assert not FindLeftoverTasks().is_done(step_context)
    assert context.lines == []
    context.moment += timedelta(seconds=1)
    assert FindLeftoverTasks().is_done(step_context)
    assert context.outputs == {"leftTasks": ["arn:task/1"]}
    assert "It is not known" in context.lines[0]
