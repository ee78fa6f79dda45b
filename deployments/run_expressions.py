"""Expressions available at a moment of a run, with their current values."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from catalog.models import Environment
from deployments.engine.steps.inputs import build_artifact_values, is_provisioning_step
from deployments.journal.secret_values import build_stage_mask
from deployments.models import Execution, StageExecution, StepExecution, StepGroup
from guards.masks import HIDDEN, SecretMask
from pipelines.completion.items import (
    AFTER_LAST_STEP,
    MASKED_VALUE,
    CompletionItem,
    CompletionState,
    StepChoice,
    describe_path,
    describe_source,
    format_step_title,
    iterate_leaves,
    mask_item,
)
from pipelines.definition.deferred_expressions import LOCATION_PATHS
from pipelines.definition.stage_targets import find_service
from rbac.policy import NotVisible, Principal, can
from steps.kinds.outputs import list_outputs
from steps.states import TERMINAL_STATUSES, Status

_OF_SERVICE = frozenset({"service.variables", "serviceVariables", "variables"})
_OF_ENVIRONMENT = frozenset({"env.variables", "serviceVariables", "variables"})


def unseen_roots(stage: StageExecution, person: Principal) -> frozenset[str]:
    """Return the path prefixes whose values the user may not view."""
    scope = stage.execution.scope
    service = find_service(scope, stage.values.get("service", {}).get("identifier", ""))
    path, _, identifier = stage.environment.rpartition("/")
    environment = (
        Environment.objects.filter(scope__path=path, identifier=identifier).select_related("scope").first()
    )
    # What was deleted since hung in the scope of the run, as far as anybody knows.
    sees_service = can(person, "core_service_view", service or scope)
    sees_environment = can(person, "core_environment_view", environment or scope)
    return (frozenset() if sees_service else _OF_SERVICE) | (
        frozenset() if sees_environment else _OF_ENVIRONMENT
    )


@dataclass(frozen=True)
class Moment:
    """Moment of a run: during a step of a stage or, without a step, after its last one."""

    stage: StageExecution
    step: StepExecution | None = None

    @property
    def key(self) -> str:
        """Return the key of the moment in URLs."""
        return f"{self.stage.identifier}/{self.step.identifier if self.step else ''}"

    @property
    def choice(self) -> StepChoice:
        """Return the displayed choice of the moment."""
        step = self.step
        title = format_step_title(step.name, step.identifier) if step else AFTER_LAST_STEP
        choice = StepChoice(self.key, title, self.stage.name)
        return choice.as_rollback_choice() if self.is_rollback else choice

    @property
    def is_rollback(self) -> bool:
        """Return whether the step is a rollback step, which knows all steps of its stage."""
        return self.step is not None and self.step.section == StepExecution.Section.ROLLBACK


class Run:
    """The stages of an execution with their steps, read at once."""

    def __init__(self, execution: Execution) -> None:
        stages = StageExecution.objects.filter(execution=execution).select_related("connector__secret")
        self.execution = execution
        self.stages = list(stages.order_by("position").prefetch_related("steps", "groups"))
        for stage in self.stages:
            stage.execution = execution

    def moments(self) -> list[Moment]:
        """Return the selectable moments in the order of the run."""
        return [
            Moment(stage, step)
            for stage in self.stages
            for step in (
                *_list_forward_steps(stage),
                None,
                *_list_section_steps(stage, StepExecution.Section.ROLLBACK),
            )
        ]

    def moment(self, key: str) -> Moment | None:
        """Return the moment of a URL; by default the newest, if any. Raises `NotVisible`."""
        if not key:
            return self._get_newest() if self.stages else None
        moment = next((candidate for candidate in self.moments() if candidate.key == key), None)
        if moment is None:
            raise NotVisible("This execution does not have this step.")
        return moment

    def _get_newest(self) -> Moment:
        """Return the step that started last, or the end of the last stage of an ended run."""
        begun = [
            moment
            for moment in self.moments()
            if moment.step is not None and moment.step.started_at is not None
        ]
        newest = begun[-1] if begun else self.moments()[0]
        is_over = newest.step is None or newest.step.status in TERMINAL_STATUSES
        return Moment(newest.stage) if is_over and begun else newest

    def list_completions(self, moment: Moment | None, person: Principal) -> list[CompletionItem]:
        """Return the available expressions with their values; `person` may not view hidden ones."""
        if moment is None:
            return []
        unseen = unseen_roots(moment.stage, person)
        mask = build_stage_mask(moment.stage)
        items = [
            *self._list_stage_values(moment),
            *self._list_earlier_outputs(moment),
            *_list_provisioned(moment, self._list_earlier_steps(moment)),
            *_list_own_outputs(moment),
        ]
        return [_redact_item(item, unseen, mask) for item in items]

    def _list_stage_values(self, moment: Moment) -> Iterator[CompletionItem]:
        values = {
            **moment.stage.values,
            "primary": {"artifact": build_artifact_values(self.execution)},
            "execution": {"id": str(self.execution.pk)},
        }
        for path, value in iterate_leaves(values, ""):
            yield CompletionItem(
                path, describe_source(path, moment.stage.values), describe_path(path), value=value
            )
        for name in self.execution.secret_input_values:
            for path in (f"pipeline.variables.{name}", f"variables.{name}"):
                yield mask_item(CompletionItem(path, describe_source(path, {}), describe_path(path)))

    def _list_earlier_outputs(self, moment: Moment) -> Iterator[CompletionItem]:
        """Yield the outputs of earlier steps; of equal names, the nearest stage's."""
        nearest = {step.identifier: step for step in self._list_earlier_steps(moment)}
        for step in nearest.values():
            before = f"execution.steps.{step.identifier}.output"
            source = f"Step {step.name} of stage {step.stage.name}"
            yield from _list_step_outputs(step, f"{before}.", source)

    def _list_earlier_steps(self, moment: Moment) -> Iterator[StepExecution]:
        for stage in self.stages[: self.stages.index(moment.stage)]:
            yield from _list_forward_steps(stage)
        groups = {group.pk: group for group in moment.stage.groups.all()}
        for step in _list_forward_steps(moment.stage):
            if moment.step is None or moment.is_rollback or _is_over_before(step, moment.step, groups):
                yield step


def _list_forward_steps(stage: StageExecution) -> list[StepExecution]:
    return _list_section_steps(stage, StepExecution.Section.EXECUTION)


def _list_section_steps(stage: StageExecution, section: StepExecution.Section) -> list[StepExecution]:
    steps = [row for row in stage.steps.all() if row.section == section]
    for step in steps:
        step.stage = stage
    return sorted(steps, key=lambda step: step.position)


def _list_provisioned(moment: Moment, before: Iterable[StepExecution]) -> Iterator[CompletionItem]:
    """Yield the outputs of the stage's provisioner, and its target while unresolved."""
    provisioning_steps = [row for row in before if row.stage == moment.stage and is_provisioning_step(row)]
    for step in provisioning_steps:
        source = f"Step {step.name}, which makes infrastructure"
        # The outputs of a failed step do not count (R189).
        if step.status == Status.SUCCESS or step.status not in TERMINAL_STATUSES:
            yield from _list_step_outputs(
                step, "provisioner.", source, with_late=step.status not in TERMINAL_STATUSES
            )
    if not moment.stage.has_location:
        for path in LOCATION_PATHS:
            yield CompletionItem(
                path, describe_source(path, moment.stage.values), describe_path(path), CompletionState.LATER
            )


def _list_own_outputs(moment: Moment) -> Iterator[CompletionItem]:
    """Yield the outputs of the step itself, for its own manifests and fields."""
    if moment.step is not None:
        yield from _list_step_outputs(moment.step, "", "This step, as it goes on", with_late=False)


def _list_step_outputs(
    step: StepExecution, before: str, source: str, *, with_late: bool = True
) -> Iterator[CompletionItem]:
    descriptions = list_outputs(step.type, step.spec)
    for name, value in step.outputs.items():
        for path, item in iterate_leaves(value, f"{before}{name}"):
            completion_item = CompletionItem(path, source, descriptions.get(name, ""), value=item)
            yield mask_item(completion_item) if item == HIDDEN else completion_item
    if with_late and step.status not in TERMINAL_STATUSES:
        for name, sentence in descriptions.items():
            if name not in step.outputs:
                yield CompletionItem(f"{before}{name}", source, sentence, CompletionState.LATER)


def _is_over_before(step: StepExecution, other: StepExecution, groups: Mapping[int, StepGroup]) -> bool:
    return step.position < other.position and not _is_parallel(step, other, groups)


def _is_parallel(step: StepExecution, other: StepExecution, groups: Mapping[int, StepGroup]) -> bool:
    """Return whether two steps are in different branches of one parallel."""
    shared = [
        a
        for a, b in zip(_list_group_ids(step, groups), _list_group_ids(other, groups), strict=False)
        if a == b
    ]
    return bool(shared) and groups[shared[-1]].kind == StepGroup.Kind.PARALLEL


def _list_group_ids(step: StepExecution, groups: Mapping[int, StepGroup]) -> list[int]:
    group_ids: list[int] = []
    key = step.group_id
    while key is not None:
        group_ids.insert(0, key)
        key = groups[key].parent_id
    return group_ids


def _redact_item(item: CompletionItem, unseen: frozenset[str], mask: SecretMask) -> CompletionItem:
    if item.state != CompletionState.KNOWN:
        return item
    if any(item.path == root or item.path.startswith(f"{root}.") for root in unseen):
        return replace(item, state=CompletionState.HIDDEN, value=None)
    return replace(item, value=_mask_value(item.value, mask))


def _mask_value(value: Any, mask: SecretMask) -> Any:
    """Return a value with redacted secrets."""
    if isinstance(value, Mapping):
        return {mask.mask_text(str(key)): _mask_value(item, mask) for key, item in value.items()}
    if isinstance(value, list):
        return [_mask_value(item, mask) for item in value]
    return mask.mask_text(value).replace(HIDDEN, MASKED_VALUE) if isinstance(value, str) else value
