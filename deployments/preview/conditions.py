"""Forecast of the conditions of stages, groups and steps before a run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deployments.engine.step_inputs import build_expression_values
from deployments.engine.step_scheduler import ENDED_BADLY
from deployments.models import Execution, StageExecution, StepExecution, StepGroup
from pipelines.definition.deferred_expressions import build_deferred_check
from steps.conditions import UnclearConditionError, parse_condition
from steps.states import Status


@dataclass(frozen=True)
class ConditionForecast:
    """Neither skipped nor dependent: it runs."""

    skipped: str = ""
    """Why it does not run."""
    depends: tuple[str, ...] = ()
    """The conditions that only a run can answer."""
    wrong: str = ""
    """Why a condition has no answer, so that a run would fail there."""


@dataclass(frozen=True)
class StageForecast:
    """What is known of a stage before it runs; `unknown` names the inputs that nobody has given."""

    execution: Execution
    stage: StageExecution
    unknown: frozenset[str] = frozenset()
    has_failed: bool = False
    _known: dict[str, Any] = field(default_factory=dict)

    def of_step(self, step: StepExecution) -> ConditionForecast:
        """Return whether a step runs: its stage, the groups around it that have not begun, and itself."""
        asked = [(self.stage.when, "pipelineStatus", "")] if self.stage.status == Status.QUEUED else []
        asked += [(one.when, "stageStatus", _get_subject(one)) for one in _list_open_groups(step)]
        return _combine(self._verdict(*one) for one in [*asked, (step.when, "stageStatus", "")])

    def _verdict(self, when: Mapping[str, Any] | None, status: str, whose: str) -> ConditionForecast:
        after = (when or {}).get(status, "Success")
        if after == "Failure" and not self.has_failed:
            return ConditionForecast(skipped=f"because {whose or 'it'} runs only after a failure")
        if after == "Success" and self.has_failed and status == "stageStatus":
            return ConditionForecast(skipped="because a step before it failed")
        condition = (when or {}).get("condition")
        return ConditionForecast() if condition is None else self._of_condition(condition)

    def _of_condition(self, text: str) -> ConditionForecast:
        condition = parse_condition(text)
        try:
            holds = condition.holds(self._values())
        except UnclearConditionError as unclear:
            is_late = build_deferred_check(self.stage.values)
            open_ = any(is_late(path) or self._is_unknown(path) for path in condition.paths)
            return ConditionForecast(depends=(text,)) if open_ else ConditionForecast(wrong=str(unclear))
        return ConditionForecast() if holds else ConditionForecast(skipped=f"because this is false: {text}")

    def _values(self) -> dict[str, Any]:
        if not self._known:
            self._known.update(
                _remove_unknown_inputs(build_expression_values(self.execution, self.stage), self.unknown)
            )
        return self._known

    def _is_unknown(self, path: str) -> bool:
        return any(path in (f"pipeline.variables.{name}", f"variables.{name}") for name in self.unknown)


def has_failed(stage: StageExecution) -> bool:
    """Return whether a step of a stage under way has failed."""
    return any(step.status in (*ENDED_BADLY, Status.ABORTED) for step in stage.steps.all())


def _list_open_groups(step: StepExecution) -> list[StepGroup]:
    """Return the groups around a step that have not begun, the outermost first."""
    found: list[StepGroup] = []
    group = step.group
    while group is not None:
        if group.status == Status.QUEUED:
            found.insert(0, group)
        group = group.parent
    return found


def _get_subject(group: StepGroup) -> str:
    return f"group {group.name}" if group.name else "the group around it"


def _combine(verdicts: Iterable[ConditionForecast]) -> ConditionForecast:
    """Return the first that is decided; what the others rest on."""
    depends: list[str] = []
    for one in verdicts:
        if one.skipped or one.wrong:
            return one
        depends += one.depends
    return ConditionForecast(depends=tuple(depends))


def _remove_unknown_inputs(values: Mapping[str, Any], unknown: frozenset[str]) -> dict[str, Any]:
    """Values without the inputs that nobody has given, whose placeholders decide nothing."""
    if not unknown:
        return dict(values)
    pipeline = values.get("pipeline", {})
    return {
        **values,
        "variables": _remove_inputs(values.get("variables", {}), unknown),
        "pipeline": {**pipeline, "variables": _remove_inputs(pipeline.get("variables", {}), unknown)},
    }


def _remove_inputs(values: Mapping[str, Any], unknown: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in unknown}
