"""Operations on pipelines: save, restore a version, delete, check."""

from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from catalog.manifests.documents import Document, parse_document
from catalog.operations.resources import increment_version
from connectors.operations.identifiers import build_identifier_conflict
from connectors.required_access import MissingAccess, MissingPermission, find_missing_permissions
from pipelines.definition import step_manifests
from pipelines.definition.approver_groups import list_unknown_groups
from pipelines.definition.parser import InvalidPipelineError, PipelineSpec, parse_pipeline
from pipelines.definition.policy_checks import find_pipeline_violations
from pipelines.definition.stage_targets import (
    ReferenceProblem,
    StageTarget,
    build_not_found_problem,
    find_stage_targets,
)
from pipelines.definition.step_references import find_missing_connectors, find_missing_secrets
from pipelines.deployability import find_image_conflicts, list_undeployable_stages
from pipelines.inputs.variables import PipelineVariable
from pipelines.models import Pipeline, PipelineVersion, TriggerWatch
from pipelines.required_access import list_run_needs
from policies.evaluation import PolicyViolated, RulesInForce, Violation, require_no_refusals
from policies.models import PolicyRule
from rbac.audit import record_audit_entry
from rbac.models import Scope, User
from rbac.policy import Principal, require
from web.http.problems import BadInput
from web.managed_resources import proposes_change, require_unmanaged

_REFERENCE_TYPES = {"core_service_access": "service", "core_environment_access": "environment"}


class PipelineNotRunnable(BadInput):
    """Invalid pipeline YAML, or a reference to a missing resource."""

    code = "pipeline_not_runnable"


@proposes_change("pipeline")
def save_pipeline(
    *,
    actor: User,
    scope: Scope,
    yaml: str,
    pipeline: Pipeline | None = None,
    version: int | None = None,
) -> Pipeline:
    """Create a pipeline, or save a new version of one.

    Raises `PipelineNotRunnable` with path and line of every problem, `PolicyViolated` for policy rules that
    refuse it, and `VersionConflict` if `version` is given and outdated.
    """
    require(actor, "core_pipeline_edit", pipeline or scope)
    if pipeline is not None:
        require_unmanaged(pipeline)
    yaml = yaml.replace("\r\n", "\n")
    spec = parse_valid_pipeline(yaml)
    refused = _find_save_problems(spec, scope, actor)
    require_no_problems(refused.problems, yaml)
    if refused.missing_permissions:
        raise MissingAccess(refused.missing_permissions)
    require_no_refusals(_find_violations(spec, refused.targets, scope), "pipeline")
    with transaction.atomic():
        before = {"yaml": pipeline.yaml} if pipeline else None
        if pipeline is None:
            pipeline = _create_pipeline(scope, spec, yaml)
        else:
            _update_pipeline(pipeline, spec, yaml, version)
        _create_version(pipeline, actor)
        action = "pipeline.update" if before else "pipeline.create"
        record_audit_entry(actor=actor, action=action, thing=pipeline, before=before, after={"yaml": yaml})
    return pipeline


def restore_version(*, actor: User, pipeline: Pipeline, number: int, version: int | None = None) -> Pipeline:
    """Save the YAML of an older version as the newest one.

    Raises `PipelineNotRunnable` if it references missing resources, `BadInput` if there is no such version.
    """
    require(actor, "core_pipeline_edit", pipeline)
    old = pipeline.versions.filter(number=number).first()
    if old is None:
        raise BadInput(f"This pipeline has no version {number}.")
    return save_pipeline(actor=actor, scope=pipeline.scope, yaml=old.yaml, pipeline=pipeline, version=version)


def delete_pipeline(*, actor: User, pipeline: Pipeline) -> None:
    """Delete a pipeline; one with runs stays as a hidden row for its executions."""
    require(actor, "core_pipeline_delete", pipeline)
    require_unmanaged(pipeline)
    with transaction.atomic():
        record_audit_entry(
            actor=actor, action="pipeline.delete", thing=pipeline, before={"yaml": pipeline.yaml}
        )
        # Marked first: a concurrent start either finds no pipeline, or its execution is found below.
        Pipeline.objects.filter(pk=pipeline.pk).update(deleted_at=timezone.now())
        TriggerWatch.objects.filter(trigger__pipeline=pipeline.pk).delete()
        if not pipeline.executions.exists():
            Pipeline.with_deleted.filter(pk=pipeline.pk).delete()


def parse_valid_pipeline(yaml: str, *, has_run: bool = False) -> PipelineSpec:
    """Parse the YAML of a pipeline, or of an execution, which `has_run`. Raises `PipelineNotRunnable`."""
    try:
        return parse_pipeline(yaml, has_run=has_run)
    except InvalidPipelineError as bad:
        errors = [
            {"path": p.path, "message": p.message, "line": p.line, "column": p.column} for p in bad.problems
        ]
        raise PipelineNotRunnable("The YAML of the pipeline is not valid.", errors=errors) from bad


def check_pipeline(yaml: str, scope: Scope, reader: Principal) -> dict[str, Any]:
    """Return the errors that prevent a text from being saved in a scope, with positions for editors."""
    yaml = yaml.replace("\r\n", "\n")
    try:
        spec = parse_valid_pipeline(yaml)
        refused = _find_save_problems(spec, scope, reader)
        access_problems = [
            ReferenceProblem(permission.requirement.path, permission.message)
            for permission in refused.missing_permissions
        ]
        require_no_problems([*refused.problems, *access_problems], yaml)
        violations = _find_violations(spec, refused.targets, scope)
        require_no_refusals(violations, "pipeline")
    except (PipelineNotRunnable, PolicyViolated) as refused:
        return {"errors": refused.errors, "warnings": [], "note": ""}
    warnings = [{"path": "", "message": violation.message} for violation in violations]
    return {"errors": [], "warnings": warnings, "note": "The pipeline is valid."}


def _find_violations(spec: PipelineSpec, targets: list[StageTarget], scope: Scope) -> list[Violation]:
    return find_pipeline_violations(RulesInForce(scope, [PolicyRule.Subject.PIPELINE]), spec, targets, scope)


@dataclass(frozen=True)
class _SaveProblems:
    """The problems that prevent saving: missing resources and missing permissions."""

    targets: list[StageTarget]
    problems: list[ReferenceProblem]
    missing_permissions: list[MissingPermission]


def _find_save_problems(spec: PipelineSpec, scope: Scope, person: Principal) -> _SaveProblems:
    """Find missing resources and permissions; saving requires access to all used resources (R082)."""
    targets, problems = find_stage_targets(spec, scope)
    missing_permissions = find_missing_permissions(person, list_run_needs(targets, scope))
    # Hidden resources are reported like missing ones.
    hidden_permissions = [
        p for p in missing_permissions if not p.is_visible and p.requirement.permission in _REFERENCE_TYPES
    ]
    for permission in hidden_permissions:
        kind, identifier = (
            _REFERENCE_TYPES[permission.requirement.permission],
            permission.requirement.resource.identifier,
        )
        problems.append(build_not_found_problem(kind, identifier, scope, permission.requirement.path))
    problems += [*step_manifests.check_own_manifests(spec, scope, person), *list_unknown_groups(spec, scope)]
    problems += [*find_missing_connectors(spec, scope), *find_missing_secrets(spec, scope)]
    # Problems of stages with hidden resources are not disclosed.
    hidden = {_get_stage_path(p.requirement.path) for p in hidden_permissions}
    visible_targets = [target for target in targets if _get_stage_path(target.path) not in hidden]
    problems += [*list_undeployable_stages(visible_targets, person), *find_image_conflicts(visible_targets)]
    return _SaveProblems(
        targets,
        problems,
        [p for p in missing_permissions if _get_stage_path(p.requirement.path) not in hidden],
    )


def _get_stage_path(path: str) -> str:
    return path.partition(".stage.")[0]


def require_no_problems(problems: list[ReferenceProblem], yaml: str = "") -> None:
    """Raise `PipelineNotRunnable` for problems, with their positions in `yaml`."""
    if problems:
        document = parse_document(yaml, "pipeline") if yaml else Document("pipeline", None)
        errors = [_locate_problem(problem, document) for problem in problems]
        raise PipelineNotRunnable("The pipeline references resources that do not exist.", errors=errors)


def _create_pipeline(scope: Scope, spec: PipelineSpec, yaml: str) -> Pipeline:
    pipeline = Pipeline(scope=scope, identifier=spec.identifier, name=spec.name, yaml=yaml)
    try:
        # The unique constraint decides: concurrent requests would both find the name free.
        with transaction.atomic():
            pipeline.save()
    except IntegrityError as exc:
        raise build_identifier_conflict("pipeline", spec.identifier) from exc
    return pipeline


def _locate_problem(problem: ReferenceProblem, document: Document) -> dict[str, Any]:
    path = tuple(int(part) if part.isdigit() else part for part in problem.path.split("."))
    return {
        "path": problem.path,
        "message": problem.message,
        "line": document.get_line(path),
        "column": document.get_column(path),
    }


def _update_pipeline(pipeline: Pipeline, spec: PipelineSpec, yaml: str, version: int | None) -> None:
    if pipeline.identifier != spec.identifier:
        raise BadInput(
            "The identifier of a pipeline cannot be changed.",
            errors=[{"path": "pipeline.identifier", "message": f"must be {pipeline.identifier}"}],
        )
    increment_version(pipeline, version)
    pipeline.name, pipeline.yaml = spec.name, yaml
    # Not the whole row: a concurrent start increments the run number.
    pipeline.save(update_fields=["name", "yaml", "updated_at"])


def _create_version(pipeline: Pipeline, actor: User) -> None:
    PipelineVersion.objects.create(
        pipeline=pipeline,
        number=pipeline.version,
        yaml=pipeline.yaml,
        saved_by=actor,
        saved_at=pipeline.updated_at,
    )


def list_pipeline_variables(pipeline: Pipeline) -> tuple[PipelineVariable, ...]:
    """Return the variables of a pipeline; empty if it cannot be parsed."""
    try:
        return parse_valid_pipeline(pipeline.yaml).variables
    except BadInput:
        return ()
