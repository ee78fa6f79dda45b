"""Stored executions as documents of policy rules, for retries and for the test bench."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from django.core.exceptions import ValidationError

from deployments.execution.queries import list_visible_executions
from deployments.models import Execution, StageExecution
from pipelines.definition.parser import InvalidPipelineError, PipelineSpec, StageSpec, parse_pipeline
from pipelines.definition.policy_checks import StageFacts, build_pipeline_facts, build_stage_documents
from pipelines.operations.pipelines import parse_valid_pipeline
from policies.document_sources import NamedDocument
from rbac.models import Scope, User
from rbac.policy import NotVisible

MOST_CHOICES: Final = 20
Build = Callable[[Execution, PipelineSpec], dict[str, Any]]


def load_execution_documents(actor: User, resource: str) -> list[NamedDocument]:
    """Return the document of an execution by its id.

    Raises `NotVisible`, and `PipelineNotRunnable` for a pipeline that only an earlier release could run.
    """
    try:
        execution = list_visible_executions(actor).defer(None).filter(pk=resource).first()
    except (ValueError, ValidationError):
        execution = None
    if execution is None:
        raise NotVisible("This execution does not exist, or you cannot view it.")
    return [
        NamedDocument(
            str(execution),
            build_execution_document(execution, parse_valid_pipeline(execution.yaml, has_run=True)),
        )
    ]


def list_execution_choices(actor: User, scope: Scope) -> list[tuple[str, str]]:
    """Return ids and names of the newest visible executions of a scope and those below."""
    rows = list_visible_executions(actor, scope).order_by("-created_at", "-pk")[:MOST_CHOICES]
    return [(str(execution.pk), f"{execution.pipeline.name} #{execution.number}") for execution in rows]


def list_recent_runs(actor: User, scope: Scope, count: int) -> list[list[NamedDocument]]:
    """Return the documents of the newest visible executions of a scope and those below."""
    return list(_list_recent(actor, scope, count, build_execution_document))


def list_recent_pipelines(actor: User, scope: Scope, count: int) -> list[list[NamedDocument]]:
    """Return the documents of the pipelines that the newest visible executions ran."""
    return list(_list_recent(actor, scope, count, build_executed_pipeline_document))


def build_execution_document(execution: Execution, spec: PipelineSpec) -> dict[str, Any]:
    """Return the document of an execution as of its start; freeze windows are not known any more."""
    return {
        "pipeline": {**_build_identity(execution), "version": execution.pipeline_version or 0},
        "artifact": build_artifact_facts(execution.artifact),
        "inputs": execution.inputs,
        "started_by": build_starter_facts(execution.started_by),
        "cause": execution.cause,
        "attempt": execution.attempt,
        "is_rollback": execution.rerun_of_id is not None,
        "freezes": [],
        "stages": build_stage_documents(_list_stage_facts(execution, spec)),
    }


def build_artifact_facts(artifact: Mapping[str, Any]) -> dict[str, str]:
    """Return the part of a run's document about its image; empty texts are not known yet."""
    return {name: artifact.get(name) or "" for name in ("image", "tag", "digest")}


def build_starter_facts(starter: User | None) -> dict[str, Any]:
    """Return the part of a run's document about who starts it; the name of a deleted user is empty."""
    return {
        "name": starter.get_username() if starter else "",
        "is_service_account": bool(starter and starter.kind == User.Kind.SERVICE_ACCOUNT),
    }


def build_executed_pipeline_document(execution: Execution, spec: PipelineSpec) -> dict[str, Any]:
    """Return the document of the pipeline that an execution runs."""
    facts = {**_build_identity(execution), **build_pipeline_facts(spec)}
    return {"pipeline": facts, "stages": build_stage_documents(_list_stage_facts(execution, spec))}


def _build_identity(execution: Execution) -> dict[str, Any]:
    pipeline = execution.pipeline
    return {"identifier": pipeline.identifier, "name": pipeline.name, "scope": execution.scope.path}


def _list_recent(actor: User, scope: Scope, count: int, build: Build) -> Iterator[list[NamedDocument]]:
    rows = list_visible_executions(actor, scope).defer(None).order_by("-created_at", "-pk")
    for execution in rows[:count]:
        try:
            spec = parse_pipeline(execution.yaml, has_run=True)
        except InvalidPipelineError:
            # Valid for an earlier release.
            continue
        yield [NamedDocument(str(execution), build(execution, spec))]


def _list_stage_facts(execution: Execution, spec: PipelineSpec) -> Iterator[StageFacts]:
    # Lists load only the values of stages.
    stages = {stage.values.get("stage", {}).get("identifier"): stage for stage in execution.stages.all()}
    for stage_spec in spec.stages:
        if (stage := stages.get(stage_spec.identifier)) is not None:
            yield _build_stage_facts(stage_spec, stage)


def _build_stage_facts(spec: StageSpec, stage: StageExecution) -> StageFacts:
    service, environment, place = (stage.values.get(name, {}) for name in ("service", "env", "infra"))
    return StageFacts(
        spec,
        {name: service.get(name, "") for name in ("identifier", "name")},
        {
            "identifier": environment.get("identifier", ""),
            "name": environment.get("name", ""),
            "kind": environment.get("type", ""),
        },
        {
            "identifier": place.get("identifier", ""),
            "name": place.get("name", ""),
            "connector": place.get("connectorRef", ""),
            "region": place.get("region", ""),
            "cluster": place.get("cluster", ""),
        },
    )
