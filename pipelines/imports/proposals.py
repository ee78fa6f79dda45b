"""Proposals of imports: service, infrastructure and pipeline that would be created."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final, Self

import yaml

from catalog.manifests.yaml_drafts import IndentedDumper
from catalog.models.base import IDENTIFIER_PATTERN
from catalog.operations import ServiceSpec
from guards.limits import IMPORT_VALUES, VALUE_CHARACTERS
from pipelines.imports import ecspresso, pipecd
from pipelines.imports.projects import ImportedProject
from pipelines.imports.source_files import ImportNotice, SourceFiles
from web.http.problems import BadInput

ECSPRESSO, PIPECD = "ecspresso", "pipecd"
TOOLS: Final[Mapping[str, str]] = {ECSPRESSO: ecspresso.TOOL, PIPECD: pipecd.TOOL}
_NOT_IN_IDENTIFIERS: Final = re.compile(r"[^A-Za-z0-9_]+")
_VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


@dataclass(frozen=True)
class ImportSpec:
    """What a person enters for an import; empty texts are derived from the files.

    `files` are the texts by path, `values` the environment variables of the other tool.
    """

    tool: str
    files: Mapping[str, str]
    environment: str
    infrastructure: str = ""
    connector: str = ""
    service: str = ""
    region: str = ""
    cluster: str = ""
    approver_group: str = ""
    values: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_answers(cls, files: Mapping[str, str], answers: Mapping[str, Any]) -> Self:
        """Return the import of these files, with the other fields from a form or a request body."""
        return cls(files=files, **{row.name: answers[row.name] for row in fields(cls) if row.name != "files"})


@dataclass(frozen=True)
class ImportProposal:
    """What an import would create, with everything that it changes or leaves out."""

    tool: str
    identifier: str
    """The identifier of the service; that of the pipeline is deploy_ and this."""
    service: ServiceSpec
    environment: str
    infrastructure: str
    connector: str
    region: str
    cluster: str
    pipeline: str
    """The YAML of the pipeline."""
    notices: tuple[ImportNotice, ...] = ()
    takeovers: tuple[str, ...] = ()
    """Which pipelines would use it in place of resources of scopes above; set by a preview."""

    @property
    def digest(self) -> str:
        """Return a hash of what the files describe: by it the creation finds that the preview is outdated."""
        text = json.dumps(asdict(replace(self, takeovers=())), sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


def build_proposal(spec: ImportSpec) -> ImportProposal:
    """Read the files, and return what they describe. Raises `ImportRefused` and `BadInput`."""
    _validate_spec(spec)
    project = _READERS[spec.tool](SourceFiles(spec.files), spec)
    warnings = project.definitions.check()
    name = project.definitions.service_name[:128]
    identifier = spec.service or build_identifier(name)
    infrastructure = spec.infrastructure or build_identifier(project.cluster)
    return ImportProposal(
        tool=spec.tool,
        identifier=identifier,
        service=_build_service(project, name),
        environment=spec.environment,
        infrastructure=infrastructure,
        connector=spec.connector,
        region=project.region,
        cluster=project.cluster,
        pipeline=_render_pipeline(project, identifier, name, spec.environment, infrastructure),
        notices=(*project.notices, *warnings),
    )


def build_identifier(name: str) -> str:
    """Build an identifier from the name of a resource in AWS."""
    identifier = _NOT_IN_IDENTIFIERS.sub("_", name).strip("_")[:100] or "imported"
    return identifier if re.match(IDENTIFIER_PATTERN, identifier) else f"_{identifier}"


def _read_ecspresso(files: SourceFiles, spec: ImportSpec) -> ImportedProject:
    return ecspresso.read_ecspresso(files, spec.values, region=spec.region, cluster=spec.cluster)


def _read_pipecd(files: SourceFiles, spec: ImportSpec) -> ImportedProject:
    return pipecd.read_pipecd(
        files,
        spec.values,
        region=spec.region,
        cluster=spec.cluster,
        approver_group=spec.approver_group,
    )


_READERS: Final[Mapping[str, Callable[[SourceFiles, ImportSpec], ImportedProject]]] = {
    ECSPRESSO: _read_ecspresso,
    PIPECD: _read_pipecd,
}


def _validate_spec(spec: ImportSpec) -> None:
    errors = []
    if spec.tool not in _READERS:
        errors.append({"path": "tool", "message": f"must be one of {', '.join(_READERS)}"})
    for path in ("environment", "infrastructure", "service"):
        value = getattr(spec, path)
        if (value or path == "environment") and not re.match(IDENTIFIER_PATTERN, value):
            errors.append({"path": path, "message": "must be an identifier of letters, digits and _"})
    if len(spec.values) > IMPORT_VALUES:
        errors.append({"path": "values", "message": f"may be {IMPORT_VALUES} at most"})
    for name, value in spec.values.items():
        if not _VARIABLE_NAME.fullmatch(name) or len(value) > VALUE_CHARACTERS:
            message = f"{name[:100]!r} is not a name of an environment variable, or its value is too long"
            errors.append({"path": "values", "message": message})
    if errors:
        raise BadInput("The import is not valid.", errors=errors)


def _build_service(project: ImportedProject, name: str) -> ServiceSpec:
    image = project.definitions.image
    return ServiceSpec(
        name=name,
        description=f"Imported from {project.tool}.",
        variables=dict(project.variables),
        image=image.image,
        tag=image.tag,
        manifests=project.definitions.manifests,
    )


def _render_pipeline(
    project: ImportedProject, identifier: str, name: str, environment: str, infrastructure: str
) -> str:
    stage = {
        "identifier": f"deploy_to_{environment}"[:128],
        "name": f"Deploy to {environment}"[:128],
        "type": "Deployment",
        "spec": {
            "deploymentType": "ECS",
            "service": {"serviceRef": identifier},
            "environment": {
                "environmentRef": environment,
                "infrastructureDefinitions": [{"identifier": infrastructure}],
            },
            "execution": {
                "steps": list(project.steps.steps),
                "rollbackSteps": list(project.steps.rollback_steps),
            },
        },
    }
    variables = project.pipeline_variables
    pipeline = {
        "identifier": f"deploy_{identifier}"[:128],
        "name": f"Deploy {name}"[:128],
        **({"variables": variables} if variables else {}),
        "stages": [{"stage": stage}],
    }
    return str(
        yaml.dump(
            {"pipeline": pipeline}, Dumper=IndentedDumper, sort_keys=False, allow_unicode=True, width=110
        )
    )
