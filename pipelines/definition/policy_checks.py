"""Policy checks of pipelines, and their documents; `policies.subjects` has an example of each."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.definition.nesting import PARALLEL
from pipelines.definition.parser import PipelineSpec, StepSpec
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
    variables = [
        {"name": variable.name, "type": variable.type, "is_runtime_input": variable.is_runtime_input}
        for variable in spec.variables
    ]
    identity = {"identifier": spec.identifier, "name": spec.name, "scope": scope.path}
    return {"pipeline": {**identity, "variables": variables}, "stages": build_stage_documents(targets)}


def build_run_pipeline_document(pipeline: Pipeline) -> dict[str, Any]:
    """Return the part of a run's document about its pipeline."""
    return {
        "identifier": pipeline.identifier,
        "name": pipeline.name,
        "scope": pipeline.scope.path,
        "version": pipeline.version,
    }


def build_stage_documents(targets: Sequence[StageTarget]) -> list[dict[str, Any]]:
    """Return the documents of stages, each with the approvals that come before its deployment."""
    documents: list[dict[str, Any]] = []
    earlier: list[dict[str, Any]] = []
    for target in targets:
        documents.append(
            {
                "identifier": target.spec.identifier,
                "name": target.spec.name,
                "service": {"identifier": target.service.identifier, "name": target.service.name},
                "environment": {
                    "identifier": target.environment.identifier,
                    "name": target.environment.name,
                    "kind": target.environment.kind,
                },
                "infrastructure": {
                    "identifier": target.infrastructure.identifier,
                    "name": target.infrastructure.name,
                    "connector": target.infrastructure.connector.identifier,
                    "region": target.infrastructure.region,
                    "cluster": target.infrastructure.cluster,
                },
                "steps": [_build_step(target, step) for step in target.spec.steps],
                "approvals": [*earlier, *_list_first_approvals(target)],
            }
        )
        earlier += [_build_approval(target, step) for step in _list_approvals(target.spec.steps)]
    return documents


def _build_step(target: StageTarget, step: StepSpec) -> dict[str, Any]:
    return {
        "identifier": step.identifier,
        "name": step.name,
        "type": step.type,
        "is_conditional": _is_conditional(target, step),
    }


def _list_first_approvals(target: StageTarget) -> Iterator[dict[str, Any]]:
    for step in target.spec.steps:
        if get_step_kind(step.type).changes_ecs_service:
            return
        # An approval in parallel with deploying steps does not hold them back.
        if step.type == APPROVAL_TYPE and not _is_parallel(target, step):
            yield _build_approval(target, step)


def _is_parallel(target: StageTarget, step: StepSpec) -> bool:
    group = step.group
    while group is not None:
        if target.spec.groups[group].kind == PARALLEL:
            return True
        group = target.spec.groups[group].parent
    return False


def _list_approvals(steps: Sequence[StepSpec]) -> list[StepSpec]:
    return [step for step in steps if step.type == APPROVAL_TYPE]


def _build_approval(target: StageTarget, step: StepSpec) -> dict[str, Any]:
    approvers: Mapping[str, Any] = step.spec.get("approvers", {})
    return {
        "step": step.identifier,
        "groups": list(approvers.get("userGroups", ())),
        "minimum": approvers.get("minimumCount", 1),
        "excludes_executor": bool(approvers.get("disallowPipelineExecutor", False)),
        "is_conditional": _is_conditional(target, step),
    }


def _is_conditional(target: StageTarget, step: StepSpec) -> bool:
    return step.when is not None or target.spec.when is not None
