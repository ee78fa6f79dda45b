"""What people can do with the YAML of pipelines: save it, bring an older version back, delete it."""

from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from catalog.manifests.document import Document, parse
from catalog.operations.rules import next_version
from connectors.downstream import Lack, LacksAccess, lacking
from connectors.operations.naming import taken
from pipelines.definition import step_manifests
from pipelines.definition.approver_groups import bad_groups
from pipelines.definition.parser import BadPipelineError, PipelineSpec, read_pipeline
from pipelines.definition.step_connectors import bad_connectors
from pipelines.definition.step_secrets import bad_secrets
from pipelines.definition.targets import (
    Missing,
    find_targets,
    no_such,
)
from pipelines.deployability import undeployable_stages
from pipelines.inputs.variables import Variable
from pipelines.models import Pipeline, PipelineVersion
from pipelines.required_access import needs_of_run
from rbac.audit import record
from rbac.models import Scope, User
from rbac.policy import Principal, require
from web.problems import BadInput

_NAMED = {"core_service_access": "service", "core_environment_access": "environment"}


class PipelineNotRunnable(BadInput):
    """The pipeline's YAML is wrong, or names something that does not exist."""

    code = "pipeline_not_runnable"


def save_pipeline(
    *,
    actor: User,
    scope: Scope,
    yaml: str,
    pipeline: Pipeline | None = None,
    version: int | None = None,
) -> Pipeline:
    """Create a pipeline, or save a new version of one; each version is kept.

    Raises `PipelineNotRunnable` with path and line of every mistake, and `ChangedMeanwhile` where a
    `version` is given that is no longer the current one.
    """
    require(actor, "core_pipeline_edit", pipeline or scope)
    yaml = yaml.replace("\r\n", "\n")
    spec = read(yaml)
    refused = _refusals(spec, scope, actor)
    refuse_missing(refused.missing, yaml)
    if refused.lacks:
        raise LacksAccess(refused.lacks)
    with transaction.atomic():
        before = {"yaml": pipeline.yaml} if pipeline else None
        if pipeline is None:
            pipeline = _add(scope, spec, yaml)
        else:
            _change(pipeline, spec, yaml, version)
        _keep(pipeline, actor)
        action = "pipeline.update" if before else "pipeline.create"
        record(actor=actor, action=action, thing=pipeline, before=before, after={"yaml": yaml})
    return pipeline


def restore_version(*, actor: User, pipeline: Pipeline, number: int, version: int | None = None) -> Pipeline:
    """Save the YAML of an older version as the newest one.

    Raises `PipelineNotRunnable` where it names what no longer exists, `BadInput`
    where there is no such version.
    """
    require(actor, "core_pipeline_edit", pipeline)
    old = pipeline.versions.filter(number=number).first()
    if old is None:
        raise BadInput(f"This pipeline has no version {number}.")
    return save_pipeline(actor=actor, scope=pipeline.scope, yaml=old.yaml, pipeline=pipeline, version=version)


def delete_pipeline(*, actor: User, pipeline: Pipeline) -> None:
    """Delete a pipeline. One that was run stays behind for its executions, and nowhere else."""
    require(actor, "core_pipeline_delete", pipeline)
    with transaction.atomic():
        record(actor=actor, action="pipeline.delete", thing=pipeline, before={"yaml": pipeline.yaml})
        # Marked first: an execution that starts meanwhile finds no pipeline, or is found here.
        Pipeline.objects.filter(pk=pipeline.pk).update(deleted_at=timezone.now())
        if not pipeline.executions.exists():
            Pipeline.with_deleted.filter(pk=pipeline.pk).delete()


def read(yaml: str) -> PipelineSpec:
    """Read a pipeline's YAML. Raises `PipelineNotRunnable`."""
    try:
        return read_pipeline(yaml)
    except BadPipelineError as bad:
        errors = [
            {"path": p.path, "message": p.message, "line": p.line, "column": p.column} for p in bad.problems
        ]
        raise PipelineNotRunnable("The pipeline's YAML is not right.", errors=errors) from bad


def checked(yaml: str, scope: Scope, reader: Principal) -> dict[str, Any]:
    """What keeps a text from being saved as a pipeline of a scope, as editors read it: errors with places."""
    yaml = yaml.replace("\r\n", "\n")
    try:
        spec = read(yaml)
        refused = _refusals(spec, scope, reader)
        lacks = [Missing(one.need.path, one.sentence) for one in refused.lacks]
        refuse_missing([*refused.missing, *lacks], yaml)
    except PipelineNotRunnable as refused:
        return {"errors": refused.errors, "warnings": [], "note": ""}
    return {"errors": [], "warnings": [], "note": "This pipeline can be saved."}


@dataclass(frozen=True)
class _Refused:
    """What keeps a pipeline from being saved: names that mean nothing, things that may not be used."""

    missing: list[Missing]
    lacks: list[Lack]


def _refusals(spec: PipelineSpec, scope: Scope, person: Principal) -> _Refused:
    """R082: a person needs access to what a pipeline will use, already when it is saved."""
    targets, missing = find_targets(spec, scope)
    lacks = lacking(person, needs_of_run(spec, targets, scope))
    # What the pipeline names and the person may not see looks like what nobody has made.
    unseen = [one for one in lacks if not one.is_seen and one.need.permission in _NAMED]
    for one in unseen:
        kind, identifier = _NAMED[one.need.permission], one.need.thing.identifier
        missing.append(no_such(kind, identifier, scope, one.need.path))
    missing += [*step_manifests.bad_manifests(spec, scope, person), *bad_groups(spec, scope)]
    missing += [*bad_connectors(spec, scope), *bad_secrets(spec, scope)]
    # Nor is anything told of what such a thing uses in turn.
    hidden = {_stage_at(one.need.path) for one in unseen}
    seen = [one for one in targets if _stage_at(one.path) not in hidden]
    missing += undeployable_stages(seen, person)
    return _Refused(missing, [one for one in lacks if _stage_at(one.need.path) not in hidden])


def _stage_at(path: str) -> str:
    return path.partition(".stage.")[0]


def refuse_missing(missing: list[Missing], yaml: str = "") -> None:
    """Raises `PipelineNotRunnable` where something is missing, with the places in `yaml`."""
    if missing:
        document = parse(yaml, "pipeline") if yaml else Document("pipeline", None)
        errors = [_placed(one, document) for one in missing]
        raise PipelineNotRunnable("The pipeline names things that do not exist.", errors=errors)


def _add(scope: Scope, spec: PipelineSpec, yaml: str) -> Pipeline:
    pipeline = Pipeline(scope=scope, identifier=spec.identifier, name=spec.name, yaml=yaml)
    try:
        # Asked of the database alone: two who add it at once both find the name free.
        with transaction.atomic():
            pipeline.save()
    except IntegrityError as exc:
        raise taken("pipeline", spec.identifier) from exc
    return pipeline


def _placed(missing: Missing, document: Document) -> dict[str, Any]:
    path = tuple(int(part) if part.isdigit() else part for part in missing.path.split("."))
    return {
        "path": missing.path,
        "message": missing.message,
        "line": document.line_of(path),
        "column": document.column_of(path),
    }


def _change(pipeline: Pipeline, spec: PipelineSpec, yaml: str, version: int | None) -> None:
    if pipeline.identifier != spec.identifier:
        raise BadInput(
            "A pipeline keeps its identifier.",
            errors=[{"path": "pipeline.identifier", "message": f"must stay {pipeline.identifier}"}],
        )
    next_version(pipeline, version)
    pipeline.name, pipeline.yaml = spec.name, yaml
    # Never the whole row: a run that starts meanwhile counts its number up in it.
    pipeline.save(update_fields=["name", "yaml", "updated_at"])


def _keep(pipeline: Pipeline, actor: User) -> None:
    PipelineVersion.objects.create(
        pipeline=pipeline,
        number=pipeline.version,
        yaml=pipeline.yaml,
        saved_by=actor,
        saved_at=pipeline.updated_at,
    )


def known_variables(pipeline: Pipeline) -> tuple[Variable, ...]:
    """The variables of a pipeline; none where it cannot be read."""
    try:
        return read(pipeline.yaml).variables
    except BadInput:
        return ()
