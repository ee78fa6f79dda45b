"""Where a stage's service definition is written, and whether it can be changed there."""

from dataclasses import dataclass

from django.urls import reverse

from catalog.manifests.kinds import SERVICE_DEFINITION
from catalog.manifests.stores import FILE_STORE, INLINE, get_store_title
from catalog.models import Service
from catalog.overrides.override_sets import SERVICE_LEVEL
from connectors.file_store import FileNotInStore, list_referenced_nodes
from connectors.models import FileNode
from connectors.usages import find_usages
from pipelines.definition.parser import parse_pipeline
from pipelines.definition.stage_targets import StageTarget
from pipelines.models import Pipeline
from pipelines.queries import list_pipelines_using
from rbac.policy import Principal, can, require
from web.http.problems import Conflict
from web.usages import ResourceUsages


@dataclass(frozen=True)
class DefinitionSource:
    """The text of a service definition: of an inline manifest of the service, or of a file."""

    service: Service
    manifest: str
    text: str
    file: FileNode | None = None

    @property
    def title(self) -> str:
        """Return the path of the file, or the identifier of the manifest."""
        return self.file.path if self.file else f"{self.manifest} of service {self.service.identifier}"


def find_definition_source(target: StageTarget, reader: Principal) -> DefinitionSource:
    """Return the one text that holds the service definition of a stage.

    Raises `Conflict` with the next step if the definition is elsewhere or has several parts, and `Forbidden`
    for a reader who may not edit it.
    """
    require(reader, "core_service_view", target.service)
    rows = target.overrides.list_rows([SERVICE_DEFINITION])
    overriding = [row for row in rows if row["level"] != SERVICE_LEVEL]
    if overriding:
        raise Conflict(
            f"An override of environment {target.environment.identifier} sets the service definition. Change "
            "the strategy in the override, and the steps in the pipeline."
        )
    if not rows:
        raise Conflict(
            f"The service {target.service.identifier} has no service definition, so it has no ECS service "
            "whose strategy could change. Add a service definition to deploy one."
        )
    if len(rows) > 1:
        raise Conflict(
            f"The service {target.service.identifier} has {len(rows)} service definitions. Remove all but "
            "one to change the strategy."
        )
    (row,) = rows
    if row["store"] == INLINE:
        require(reader, "core_service_edit", target.service)
        return DefinitionSource(target.service, row["identifier"], row["content"])
    if row["store"] != FILE_STORE:
        raise Conflict(
            f"The service definition is in {get_store_title(row['store'])}. Change the strategy there, "
            "and the "
            "steps in the pipeline."
        )
    return DefinitionSource(
        target.service, row["identifier"], *_read_file(target.service, row["paths"], reader)
    )


def _read_file(service: Service, paths: list[str], reader: Principal) -> tuple[str, FileNode]:
    try:
        nodes = [node for path in paths for node in list_referenced_nodes(service.scope, path)]
    except FileNotInStore as missing:
        raise Conflict(missing.detail) from missing
    if len(nodes) != 1:
        raise Conflict("The service definition has several files. Change the strategy in the files.")
    (node,) = nodes
    require(reader, "core_file_edit", node.scope)
    return node.content, node


def list_other_stages(target: StageTarget, pipeline: Pipeline, reader: Principal) -> list[str]:
    """Return the other stages that deploy the service of a pipeline's stage, as texts."""
    stages = []
    for row in list_pipelines_using(target.service):
        name = f"of pipeline {row.name}" if can(reader, "core_pipeline_view", row) else "of another pipeline"
        for stage in parse_pipeline(row.yaml).stages:
            is_same = row.pk == pipeline.pk and stage.identifier == target.spec.identifier
            if stage.service == target.service.identifier and not is_same:
                stages.append(f"stage {stage.identifier} {name}")
    return stages


def list_other_usages(file: FileNode, service: Service, reader: Principal) -> ResourceUsages:
    """Return what refers to the file of a definition, besides its service."""
    usages, own = find_usages(file, reader), reverse("service", args=[service.pk])
    return ResourceUsages(tuple(usage for usage in usages.visible if usage.url != own), usages.hidden)
