"""Forecast of the conditions of stages, groups and steps before a run."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deployments.engine.steps.inputs import build_expression_values
from deployments.engine.steps.scheduler import ENDED_BADLY
from deployments.models import Execution, StageExecution, StepExecution, StepGroup
from pipelines.definition.deferred_expressions import build_deferred_check, parse_step_path
from steps.conditions import UnclearConditionError, parse_condition
from steps.states import Status


@dataclass(frozen=True)
class ConditionForecast:
    """Forecast of a condition: by default the step runs."""

    skipped: str = ""
    """Reason why it is skipped."""
    run_conditions: tuple[str, ...] = ()
    """Conditions that only a run can evaluate."""
    problem: str = ""
    """Problem of an unclear condition, which would fail a run."""


@dataclass(frozen=True)
class StageForecast:
    """Forecast of a stage before it runs; `unknown` are the names of missing inputs."""

    execution: Execution
    stage: StageExecution
    unknown: frozenset[str] = frozenset()
    has_failed: bool = False
    _values: dict[str, Any] = field(default_factory=dict)

    def forecast_step(self, step: StepExecution) -> ConditionForecast:
        """Return whether a step runs, by the conditions of its stage, its unstarted groups, and itself."""
        conditions = [(self.stage.when, "pipelineStatus", "")] if self.stage.status == Status.QUEUED else []
        conditions += [(item.when, "stageStatus", _get_subject(item)) for item in _list_open_groups(step)]
        return _combine(self._evaluate_when(*item) for item in [*conditions, (step.when, "stageStatus", "")])

    def _evaluate_when(self, when: Mapping[str, Any] | None, status: str, subject: str) -> ConditionForecast:
        required_status = (when or {}).get(status, "Success")
        if required_status == "Failure" and not self.has_failed:
            return ConditionForecast(skipped=f"because {subject or 'it'} runs only after a failure")
        if required_status == "Success" and self.has_failed and status == "stageStatus":
            return ConditionForecast(skipped="because a step before it failed")
        condition = (when or {}).get("condition")
        return ConditionForecast() if condition is None else self._evaluate_condition(condition)

    def forecast_conditions(
        self, conditions: Iterable[str], steps: Mapping[str, Any], final: Collection[str]
    ) -> ConditionForecast:
        """Return the forecast of conditions that depend on the run, with the outputs of these steps.

        A run has no other outputs of `final` steps, so one that is missing there is a problem.
        """
        values = {"steps": steps, "execution": {"steps": steps, "id": str(self.execution.pk)}}
        verdicts: list[ConditionForecast] = []
        for text in conditions:
            verdict = self._evaluate_condition(text, values, final)
            # A run reaches it only if the open ones before it are true.
            if verdict.problem and any(earlier.run_conditions for earlier in verdicts):
                verdict = ConditionForecast(run_conditions=(text,))
            verdicts.append(verdict)
        return _combine(verdicts)

    def _evaluate_condition(
        self, text: str, outputs: Mapping[str, Any] | None = None, final: Collection[str] = ()
    ) -> ConditionForecast:
        condition = parse_condition(text)
        try:
            holds = condition.holds({**self._load_values(), **(outputs or {})})
        except UnclearConditionError as unclear:
            is_deferred = build_deferred_check(self.stage.values)
            is_open = any(
                self._is_unknown(path) or (is_deferred(path) and not _is_output_of(final, path))
                for path in condition.paths
            )
            return (
                ConditionForecast(run_conditions=(text,))
                if is_open
                else ConditionForecast(problem=str(unclear))
            )
        return ConditionForecast() if holds else ConditionForecast(skipped=f"because this is false: {text}")

    def _load_values(self) -> dict[str, Any]:
        if not self._values:
            self._values.update(
                _remove_unknown_inputs(build_expression_values(self.execution, self.stage), self.unknown)
            )
        return self._values

    def _is_unknown(self, path: str) -> bool:
        return any(path in (f"pipeline.variables.{name}", f"variables.{name}") for name in self.unknown)


def has_failed(stage: StageExecution) -> bool:
    """Return whether a step of a running stage has failed."""
    return any(step.status in (*ENDED_BADLY, Status.ABORTED) for step in stage.steps.all())


def _list_open_groups(step: StepExecution) -> list[StepGroup]:
    """Return the unstarted groups of a step, outermost first."""
    groups: list[StepGroup] = []
    group = step.group
    while group is not None:
        if group.status == Status.QUEUED:
            groups.insert(0, group)
        group = group.parent
    return groups


def _get_subject(group: StepGroup) -> str:
    return f"group {group.name}" if group.name else "the group around it"


def _is_output_of(steps: Collection[str], path: str) -> bool:
    parts = parse_step_path(path)
    return bool(parts and parts[0] in steps)


def _combine(verdicts: Iterable[ConditionForecast]) -> ConditionForecast:
    """Return the first decisive forecast, else all open conditions."""
    run_conditions: list[str] = []
    for verdict in verdicts:
        if verdict.skipped or verdict.problem:
            return verdict
        run_conditions += verdict.run_conditions
    return ConditionForecast(run_conditions=tuple(run_conditions))


def _remove_unknown_inputs(values: Mapping[str, Any], unknown: frozenset[str]) -> dict[str, Any]:
    """Return the values without missing inputs, whose placeholders must not decide conditions."""
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
