"""Policy checks of runs: rules for the run, its pipeline and its manifests, before anything is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.utils import timezone

from catalog.overrides.policy_checks import build_effective_documents
from deployments.execution.planning.run_requests import RunRequest, validate_run
from deployments.execution.policy_documents import (
    build_artifact_facts,
    build_executed_pipeline_document,
    build_execution_document,
    build_starter_facts,
)
from deployments.freezes.operations import list_active_windows, list_targets
from deployments.log import NewLogLine
from deployments.models import Execution, FreezeWindow
from pipelines.definition.policy_checks import (
    build_run_pipeline_document,
    build_stage_documents,
    build_stage_facts,
    find_pipeline_violations,
)
from pipelines.definition.stage_targets import StageTarget
from pipelines.models import Pipeline
from pipelines.operations.pipelines import parse_valid_pipeline
from policies.evaluation import RulesInForce, Violation, list_rules_in_force, require_no_refusals
from policies.models import PolicyRule
from rbac.models import User
from rbac.policy import Forbidden
from web.http.problems import Problem

WARNING_LEVEL: Final = "warning"


@dataclass(frozen=True)
class RunSettings:
    """Facts of a run beside its request; `overridden` are the freeze windows that it overrides."""

    actor: User
    overridden: Sequence[FreezeWindow] = ()
    attempt: int = 1
    cause: str = ""
    is_rollback: bool = False
    active: Sequence[FreezeWindow] = ()
    """Windows that a preview does not override."""


def require_run_allowed(pipeline: Pipeline, request: RunRequest, settings: RunSettings) -> list[Violation]:
    """Return the rules that a run violates with a warning.

    Raises `PolicyViolated` for rules that refuse it; these only warn of a rollback, which must be possible.
    """
    violations = find_run_violations(pipeline, request, settings)
    if not settings.is_rollback:
        require_no_refusals(violations, "run")
    return violations


def find_run_violations(pipeline: Pipeline, request: RunRequest, settings: RunSettings) -> list[Violation]:
    """Return the rules that a run, its pipeline or its manifests violate; one query without rules."""
    rules = RulesInForce(pipeline.scope, PolicyRule.Subject.values)
    return [
        *rules.find_violations(
            PolicyRule.Subject.RUN, lambda: [build_run_document(pipeline, request, settings)]
        ),
        *find_pipeline_violations(rules, request.spec, request.targets, pipeline.scope),
        *rules.find_violations(
            PolicyRule.Subject.MANIFEST,
            lambda: build_effective_documents(target.overrides for target in request.targets),
        ),
    ]


def require_retry_allowed(
    actor: User, execution: Execution, overridden: Sequence[FreezeWindow]
) -> list[Violation]:
    """Return the rules for runs and pipelines that a retry in the same execution violates with a warning.

    Raises `PolicyViolated` for rules that refuse it; these only warn of a rollback. One query without rules.
    """
    rules = RulesInForce(execution.scope, [PolicyRule.Subject.RUN, PolicyRule.Subject.PIPELINE])
    if not rules.rules:
        return []
    spec = parse_valid_pipeline(execution.yaml, has_run=True)
    facts = {"started_by": build_starter_facts(actor), "freezes": _build_freeze_facts(overridden)}
    violations = [
        *rules.find_violations(
            PolicyRule.Subject.RUN, lambda: [build_execution_document(execution, spec) | facts]
        ),
        *rules.find_violations(
            PolicyRule.Subject.PIPELINE, lambda: [build_executed_pipeline_document(execution, spec)]
        ),
    ]
    if execution.rerun_of_id is None:
        require_no_refusals(violations, "retry")
    return violations


def find_preview_violations(actor: User, pipeline: Pipeline, request: RunRequest) -> list[Violation]:
    """Return the rules that a run would violate if it started now, without overriding a freeze window."""
    windows = list_active_windows(pipeline.scope, list_targets(request.targets))
    settings = RunSettings(actor, active=[window for window, _ in windows])
    return find_run_violations(pipeline, request, settings)


@dataclass(frozen=True)
class PlannedChecks:
    """Violations of a run that is being entered, and whether any rule could be violated."""

    has_rules: bool
    violations: Sequence[Violation] = ()


def check_planned_run(
    actor: User, pipeline: Pipeline, targets: list[StageTarget], tag: str, inputs: Mapping[str, Any]
) -> PlannedChecks:
    """Return the rules that a run with this input would violate; none while the input is not valid.

    One query without rules.
    """
    if not list_rules_in_force(pipeline.scope).exists():
        return PlannedChecks(has_rules=False)
    try:
        request = validate_run(
            actor=actor,
            pipeline=pipeline,
            yaml=pipeline.yaml,
            artifact_tag=tag,
            inputs=inputs,
            is_preview=True,
            targets=targets or None,
        )
    except (Forbidden, Problem):
        return PlannedChecks(has_rules=True)
    return PlannedChecks(True, find_preview_violations(actor, pipeline, request))


def build_run_document(pipeline: Pipeline, request: RunRequest, settings: RunSettings) -> dict[str, Any]:
    """Return the document of a run for policy rules; secret inputs are not in it."""
    return {
        "pipeline": build_run_pipeline_document(pipeline),
        "artifact": build_artifact_facts(request.artifact),
        "inputs": request.inputs,
        "started_by": build_starter_facts(settings.actor),
        "cause": settings.cause,
        "attempt": settings.attempt,
        "is_rollback": settings.is_rollback,
        "freezes": _build_freeze_facts(settings.overridden, settings.active),
        "stages": build_stage_documents(map(build_stage_facts, request.targets)),
    }


def _build_freeze_facts(
    overridden: Sequence[FreezeWindow], active: Sequence[FreezeWindow] = ()
) -> list[dict[str, Any]]:
    windows = [*((window, True) for window in overridden), *((window, False) for window in active)]
    return [
        {"identifier": window.identifier, "name": window.name, "is_overridden": is_overridden}
        for window, is_overridden in windows
    ]


def build_warning_lines(violations: Sequence[Violation]) -> list[NewLogLine]:
    """Return the log lines of violated rules for the start or the retry of an execution."""
    now = timezone.now()
    return [NewLogLine(now, None, "", "", WARNING_LEVEL, violation.message) for violation in violations]
