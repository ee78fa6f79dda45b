"""Planning of an execution: all its rows, written before anything runs."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from catalog.artifacts import image_sources
from catalog.manifests.locations import resolve_connectors
from catalog.overrides.variables import build_variable_expressions
from delegates.queries.task_connections import find_delegate
from deployments.execution.planning import attempts
from deployments.execution.planning.attempts import AttemptStart
from deployments.execution.planning.rollback_to_earlier import apply_earlier_run, list_own_manifests
from deployments.execution.planning.stored_inputs import store_own_texts
from deployments.models import ActionRun, Execution, StageExecution, StepExecution, StepGroup
from pipelines.definition import stage_targets, step_manifests
from pipelines.definition.deferred_expressions import build_deferred_check, has_deferred, list_paths_at
from pipelines.definition.parser import GroupSpec, PipelineSpec, StageSpec, StepSpec
from pipelines.definition.secret_checks import describe_secret_input_problem
from pipelines.definition.stage_targets import ReferenceProblem, StageTarget
from pipelines.inputs.variables import get_default_values
from rbac.models import Scope
from steps.actions.base import Action
from steps.conditions import parse_condition
from steps.expressions import BadExpressionError, get_path_value
from steps.kinds.registry import BadStepError, get_step_kind

# The steps that name the delegate whose tasks their stage replaces or ends.
DELEGATE_STEPS: Final = ("DelegateConnect", "EcsDeleteService")
FrozenManifests = Mapping[str, Mapping[str, Mapping[str, Any]]]


class CannotPlanError(ValueError):
    """Step whose expressions have no valid value."""

    def __init__(self, missing: list[ReferenceProblem]) -> None:
        super().__init__("; ".join(problem.message for problem in missing))
        self.missing = missing


class PlannedStep(NamedTuple):
    """A step that a run would have, and its actions, each with the title of its unit."""

    step: StepExecution
    actions: list[tuple[str, Action]]


def write_plan(
    execution: Execution,
    pipeline: PipelineSpec,
    targets: list[StageTarget],
    start: AttemptStart | None = None,
) -> None:
    """Write the rows of every stage, step and action; inside the transaction that creates the execution.

    `start` says where a further attempt begins: stages before it are skipped and have the previous outputs.

    Raises `CannotPlanError` for unresolvable or invalid expressions of a step.
    """
    for position, target in enumerate(targets):
        stage = plan_stage(execution, pipeline, target, position)
        previous = start.find_previous_stage(stage) if start else None
        if previous is not None:
            attempts.copy_inputs(stage, previous)
        stage.save()
        frozen_manifests = attempts.list_own_manifests(previous) if previous else list_own_manifests(stage)
        for step, actions in plan_steps(stage, target.spec, frozen_manifests):
            _save_groups(step.group)
            step.spec = store_own_texts(stage, step.type, step.spec)
            step.save()
            if step.type in DELEGATE_STEPS and step.spec.get("delegate"):
                _exclude_replaced_delegate(stage, step)
            ActionRun.objects.bulk_create(
                _build_action_run(step, *numbered) for numbered in enumerate(actions)
            )
        if previous is not None:
            attempts.copy_sources(stage, previous)
        if start and previous is not None and position < start.position:
            attempts.reuse_results(stage, previous)
    if execution.rerun_of is not None and (start is None or start.is_whole):
        apply_earlier_run(execution, execution.rerun_of)


def _exclude_replaced_delegate(stage: StageExecution, step: StepExecution) -> None:
    """Keep the calls of a stage from the delegate whose tasks it replaces or ends."""
    stage.excluded_delegate = find_delegate(stage.execution.scope, step.spec["delegate"])
    stage.save(update_fields=["excluded_delegate"])


def _save_groups(group: StepGroup | None) -> None:
    """Write the groups around a step, the outermost first, unless a step before it did."""
    if group is not None and group.pk is None:
        _save_groups(group.parent)
        group.save()


def plan_stage(
    execution: Execution, pipeline: PipelineSpec, target: StageTarget, position: int
) -> StageExecution:
    """Return the planned stage of a run without writing rows."""
    infrastructure = target.infrastructure
    return StageExecution(
        execution=execution,
        position=position,
        identifier=target.spec.identifier,
        name=target.spec.name,
        service=target.service,
        infrastructure=target.infrastructure,
        connector=target.infrastructure.connector,
        region="" if infrastructure.is_dynamic else infrastructure.region,
        cluster="" if infrastructure.is_dynamic else infrastructure.cluster,
        dynamic_location=stage_targets.get_dynamic_location(infrastructure),
        provisioner_step_count=target.spec.provisioner_step_count,
        environment=f"{target.environment.scope.path}/{target.environment.identifier}",
        values=_build_values(execution, pipeline, target),
        sources=resolve_connectors(target.overrides.list_rows(), execution.scope),
        when=target.spec.when,
    )


def plan_steps(
    stage: StageExecution, spec: StageSpec, frozen_manifests: FrozenManifests | None = None
) -> Iterator[PlannedStep]:
    """Return the steps of a stage as a run would begin them, each with its actions; no row is written.

    `frozen_manifests` have been read by an earlier run, by step and by field of its spec.

    Raises `CannotPlanError` as `write_plan` does.
    """
    forward, back = (_plan_groups(stage, groups) for groups in (spec.groups, spec.rollback_groups))
    group_conditions = [(f"group {group.name}", group.when) for group in (*forward, *back)]
    _refuse_unknown(stage, [("the stage", spec.when), *group_conditions])
    sections = (
        (StepExecution.Section.EXECUTION, spec.steps, forward),
        (StepExecution.Section.ROLLBACK, spec.rollback_steps, back),
    )
    for section, steps, groups in sections:
        for position, step_spec in enumerate(steps):
            step = _resolve_spec(stage, step_spec, (frozen_manifests or {}).get(step_spec.identifier, {}))
            # A rollback step has no actions of its own: the undos of its partners run there.
            units = step.units if section == StepExecution.Section.EXECUTION else ()
            actions = [(unit.title, action) for unit in units for action in unit.actions]
            row = _build_step(stage, section, position, step)
            row.unresolved_spec = _get_unresolved_spec(stage, step_spec)
            row.group = None if step.group is None else groups[step.group]
            _refuse_unknown(stage, [(f"step {step.identifier}", step.when)])
            yield PlannedStep(row, actions)


def _plan_groups(stage: StageExecution, groups: Iterable[GroupSpec]) -> list[StepGroup]:
    """Return the rows of the groups, which are written with the first step in each."""
    rows: list[StepGroup] = []
    for group in groups:
        parent = None if group.parent is None else rows[group.parent]
        rows.append(
            StepGroup(
                stage=stage,
                parent=parent,
                position=group.position,
                kind=group.kind,
                identifier=group.identifier,
                name=group.name,
                when=group.when,
            )
        )
    return rows


def _refuse_unknown(stage: StageExecution, whens: list[tuple[str, dict[str, Any] | None]]) -> None:
    """Refuse a condition with an unresolvable name."""
    is_deferred = build_deferred_check(stage.values)
    for subject, when in whens:
        for path in parse_condition(when["condition"]).paths if when and when["condition"] else ():
            try:
                if not is_deferred(path):
                    get_path_value(path, stage.values)
            except BadExpressionError as bad:
                path_in_document = f"pipeline.stages.{stage.position}.stage"
                reason = _find_misplaced_secret(stage, [path]) or bad.message
                raise CannotPlanError(
                    [ReferenceProblem(path_in_document, f"the condition of {subject}: {reason}")]
                ) from bad


def _resolve_spec(stage: StageExecution, step: StepSpec, frozen_manifests: Mapping[str, Any]) -> StepSpec:
    """Return the step with its spec's expressions resolved: a run fixes them at its start."""
    path_in_document = f"pipeline.stages.{stage.position}.stage.spec.execution"
    try:
        execution = stage.execution
        spec = step_manifests.freeze_spec(
            step.type, step.spec, stage.values, execution.scope, frozen_manifests, execution.started_by
        )
        resolved = replace(step, spec=spec)
        get_step_kind(step.type).parse_spec(resolved.spec)
    except BadExpressionError as bad:
        paths = list_paths_at(get_step_kind(step.type), step.spec, bad.where)
        reason = _find_misplaced_secret(stage, paths) or bad.message
        message = f"step {step.identifier}, {'.'.join(map(str, bad.where))}: {reason}"
        raise CannotPlanError([ReferenceProblem(path_in_document, message)]) from bad
    except BadStepError as bad:
        raise CannotPlanError([ReferenceProblem(path_in_document, f"step {step.identifier}: {bad}")]) from bad
    return resolved


def _find_misplaced_secret(stage: StageExecution, paths: Iterable[str]) -> str:
    """Return the problem of a secret in a displayed field, or an empty text."""
    secret_inputs = stage.execution.secret_input_values
    secret_paths = {
        f"{prefix}.{name}" for prefix in ("pipeline.variables", "variables") for name in secret_inputs
    }
    return next(
        (message for path in paths if (message := describe_secret_input_problem(path, secret_paths))), ""
    )


def _build_step(stage: StageExecution, section: str, position: int, spec: StepSpec) -> StepExecution:
    return StepExecution(
        stage=stage,
        section=section,
        position=position,
        identifier=spec.identifier,
        name=spec.name,
        type=spec.type,
        spec=spec.spec,
        timeout_seconds=spec.timeout_seconds + get_step_kind(spec.type).planned_wait_seconds(spec.spec),
        failure_strategies=list(spec.failure_strategies),
        delegate_selectors=list(spec.selectors),
        selectors_from=spec.selectors_from,
        when=spec.when,
    )


def _get_unresolved_spec(stage: StageExecution, step: StepSpec) -> dict[str, Any] | None:
    """Return the raw spec if some expressions are resolved only when the step starts."""
    kind = get_step_kind(step.type)
    return step.spec if has_deferred(kind, step.spec, build_deferred_check(stage.values)) else None


def _build_action_run(step: StepExecution, position: int, planned: tuple[str, Action]) -> ActionRun:
    unit, action = planned
    return ActionRun(
        step=step,
        position=position,
        unit=unit,
        name=type(action).__name__,
        version=action.version,
        parameters=action.parameters(),
        title=action.title,
    )


def _build_values(execution: Execution, pipeline: PipelineSpec, target: StageTarget) -> Mapping[str, Any]:
    """Return the frozen values of expressions: later edits do not change a running execution."""
    place = target.infrastructure
    variables = {**get_default_values(pipeline.variables), **execution.inputs}
    return {
        **build_variable_expressions(variables, *target.overrides.values),
        "pipeline": {
            "name": pipeline.name,
            "identifier": pipeline.identifier,
            "number": execution.number,
            "variables": variables,
        },
        "stage": {"name": target.spec.name, "identifier": target.spec.identifier},
        "service": {
            "name": target.service.name,
            "identifier": target.service.identifier,
            "variables": target.service.variables,
        },
        "env": {
            "name": target.environment.name,
            "identifier": target.environment.identifier,
            "type": target.environment.kind,
            "variables": target.environment.variables,
        },
        "infra": {
            "name": place.name,
            "identifier": place.identifier,
            "connectorRef": place.connector.identifier,
            # Of a dynamic one these come when it is settled.
            **({} if place.is_dynamic else {"region": place.region, "cluster": place.cluster}),
        },
    }


def resolve_artifact(targets: list[StageTarget], tag: str, scope: Scope) -> dict[str, Any]:
    """Return the image that this execution deploys: the first stage's, with the tag chosen or its default."""
    for target in targets:
        if (artifact := target.artifact) is not None:
            return image_sources.build_image_row(artifact, tag, scope)
    return {"image": "", "tag": tag}
