"""Policy checks of pipelines, and their documents; `policies.subjects` has an example of each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.definition.nesting import PARALLEL
from pipelines.definition.parser import AFTER_SUCCESS, PipelineSpec, StageSpec, StepSpec
from pipelines.definition.stage_targets import StageTarget
from pipelines.models import Pipeline
from policies.evaluation import RulesInForce, Violation
from policies.models import PolicyRule
from rbac.models import Scope
from steps.kinds.approval import APPROVAL_TYPE
from steps.kinds.registry import get_step_kind


def find_pipeline_violations(
    rules: RulesInForce, spec: PipelineSpec, targets: Sequence[StageTarget], scope: Scope
) -> list[Violation]:
    """Return the rules for pipelines that a pipeline's text violates."""
    return rules.find_violations(
        PolicyRule.Subject.PIPELINE, lambda: [build_pipeline_document(spec, targets, scope)]
    )


def build_pipeline_document(
    spec: PipelineSpec, targets: Sequence[StageTarget], scope: Scope
) -> dict[str, Any]:
    """Return the document of a pipeline's text in a scope."""
    identity = {"identifier": spec.identifier, "name": spec.name, "scope": scope.path}
    return {
        "pipeline": {**identity, **build_pipeline_facts(spec)},
        "stages": build_stage_documents(map(build_stage_facts, targets)),
    }


def build_pipeline_facts(spec: PipelineSpec) -> dict[str, Any]:
    """Return the part of a pipeline's document that only its text has."""
    variables = [
        {"name": variable.name, "type": variable.type, "is_runtime_input": variable.is_runtime_input}
        for variable in spec.variables
    ]
    return {"variables": variables}


def build_run_pipeline_document(pipeline: Pipeline) -> dict[str, Any]:
    """Return the part of a run's document about its pipeline."""
    return {
        "identifier": pipeline.identifier,
        "name": pipeline.name,
        "scope": pipeline.scope.path,
        "version": pipeline.version,
    }


@dataclass(frozen=True)
class StageFacts:
    """Stage with the service and the target that it has, or had in an execution."""

    spec: StageSpec
    service: Mapping[str, str]
    environment: Mapping[str, str]
    infrastructure: Mapping[str, str]


def build_stage_facts(target: StageTarget) -> StageFacts:
    """Return the facts of a stage whose target was looked up."""
    service, environment, place = target.service, target.environment, target.infrastructure
    return StageFacts(
        target.spec,
        {"identifier": service.identifier, "name": service.name},
        {"identifier": environment.identifier, "name": environment.name, "kind": environment.kind},
        {
            "identifier": place.identifier,
            "name": place.name,
            "connector": place.connector.identifier,
            "region": place.region,
            "cluster": place.cluster,
        },
    )


def build_stage_documents(stages: Iterable[StageFacts]) -> list[dict[str, Any]]:
    """Return the documents of stages, each with the approvals that hold its deployment back."""
    documents: list[dict[str, Any]] = []
    earlier: list[dict[str, Any]] = []
    for facts in stages:
        spec = facts.spec
        # A stage that also runs after a failure does not need the approvals of earlier stages.
        before = earlier if _needs_success(spec.when, "pipelineStatus") else []
        documents.append(
            {
                "identifier": spec.identifier,
                "name": spec.name,
                "service": dict(facts.service),
                "environment": dict(facts.environment),
                "infrastructure": dict(facts.infrastructure),
                "steps": [_build_step(spec, step) for step in spec.steps],
                "approvals": [*before, *_list_first_approvals(spec)],
            }
        )
        earlier += [_build_approval(spec, step) for step in spec.steps if step.type == APPROVAL_TYPE]
    return documents


def _build_step(stage: StageSpec, step: StepSpec) -> dict[str, Any]:
    return {
        "identifier": step.identifier,
        "name": step.name,
        "type": step.type,
        "is_conditional": _is_conditional(stage, step),
    }


def _list_first_approvals(stage: StageSpec) -> Iterator[dict[str, Any]]:
    """Yield the approvals before the first deploying step; none if one of these also runs after a failure."""
    deploying = [
        position
        for position, step in enumerate(stage.steps)
        if get_step_kind(step.type).may_deploy(step.spec)
    ]
    if not all(_needs_success(stage.steps[position].when, "stageStatus") for position in deploying):
        return
    for step in stage.steps[: deploying[0] if deploying else None]:
        # An approval in parallel with deploying steps does not hold them back.
        if step.type == APPROVAL_TYPE and not _is_parallel(stage, step):
            yield _build_approval(stage, step)


def _needs_success(when: Mapping[str, Any] | None, status: str) -> bool:
    return (when or {}).get(status, AFTER_SUCCESS) == AFTER_SUCCESS


def _is_parallel(stage: StageSpec, step: StepSpec) -> bool:
    group = step.group
    while group is not None:
        if stage.groups[group].kind == PARALLEL:
            return True
        group = stage.groups[group].parent
    return False


def _build_approval(stage: StageSpec, step: StepSpec) -> dict[str, Any]:
    approvers: Mapping[str, Any] = step.spec.get("approvers", {})
    return {
        "step": step.identifier,
        "groups": list(approvers.get("userGroups", ())),
        "minimum": approvers.get("minimumCount", 1),
        "excludes_executor": bool(approvers.get("disallowPipelineExecutor", False)),
        "is_conditional": _is_conditional(stage, step),
    }


def _is_conditional(stage: StageSpec, step: StepSpec) -> bool:
    return step.when is not None or stage.when is not None
