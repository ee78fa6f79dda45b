"""What can be written in a pipeline: its schema with the steps that exist, and the names of what exists."""

from copy import deepcopy
from dataclasses import is_dataclass
from typing import Any

from django.db.models import QuerySet

from catalog.manifests.places import PLACE_FIELDS
from catalog.models import Environment, Infrastructure, Service
from pipelines.definition.schema import PIPELINE_SCHEMA, STEPS
from pipelines.definition.step_sources import step_stores
from rbac.models import Scope
from rbac.policy import Principal, visible_to
from steps.kinds.base import StepKind, known_steps, plain_type
from steps.strategies.base import known_strategies

MOST_NAMES = 200
_STAGE = "pipeline.stages.stage.spec"
_JSON_TYPES = {bool: "boolean", int: "integer", str: "string", float: "number"}


def pipeline_guide(scope: Scope | None, principal: Principal) -> dict[str, Any]:
    """What the editor suggests: the schema, and what a pipeline of `scope` can name."""
    if scope is None:
        return {"schema": full_schema(), "values": {}}
    services = _named(Service.objects.all(), "core_service_view", scope, principal)
    environments = _named(Environment.objects.all(), "core_environment_view", scope, principal)
    places = visible_to(principal, "core_environment_view", Infrastructure.objects.all()).filter(
        environment__scope__path__in=scope.ancestor_paths()
    )
    infrastructures = [
        {"value": one.identifier, "detail": f"in {one.environment.identifier}: {one.cluster}, {one.region}"}
        for one in places.select_related("environment").order_by("identifier")[:MOST_NAMES]
    ]
    return {
        "schema": full_schema(),
        "values": {
            f"{_STAGE}.service.serviceRef": services,
            f"{_STAGE}.environment.environmentRef": environments,
            f"{_STAGE}.environment.infrastructureDefinitions.identifier": infrastructures,
        },
    }


def full_schema() -> dict[str, Any]:
    """The schema of pipelines with every strategy, every kind of step, and the fields of each."""
    schema = deepcopy(PIPELINE_SCHEMA)
    stages = schema["properties"]["pipeline"]["properties"]["stages"]
    spec = stages["items"]["properties"]["stage"]["properties"]["spec"]
    spec["properties"]["strategy"] = {"enum": sorted(known_strategies())}
    execution = spec["properties"]["execution"]["properties"]
    kinds = known_steps().values()
    for section in execution:
        # Groups and parallels hold steps of the section that they stand in.
        schema["$defs"][section] = _steps(
            _holding(STEPS, section), [kind for kind in kinds if section in kind.sections]
        )
        execution[section] = {"$ref": f"#/$defs/{section}"}
    return schema


def _holding(schema: Any, section: str) -> Any:
    """A part of the schema whose lists of steps are those of this section."""
    if isinstance(schema, dict):
        return {
            key: f"#/$defs/{section}" if key == "$ref" else _holding(one, section)
            for key, one in schema.items()
        }
    return schema


def _steps(schema: dict[str, Any], kinds: list[StepKind]) -> dict[str, Any]:
    found = deepcopy(schema)
    step = found["items"]["properties"]["step"]
    step["properties"]["type"] = {"enum": sorted(kind.type for kind in kinds)}
    step["oneOf"] = [
        {
            "properties": {
                "type": {"const": kind.type},
                "spec": {"type": "object", "properties": _fields(kind)},
            }
        }
        for kind in sorted(kinds, key=lambda kind: kind.type)
    ]
    return found


def _fields(kind: StepKind) -> dict[str, Any]:
    own = {name: _own_manifest() for name in kind.manifests}
    return {**_properties(kind.spec), **own}


def _own_manifest() -> dict[str, Any]:
    """A manifest that a step brings itself: the store, and what lies there."""
    return {
        "type": "object",
        "properties": {
            "type": {"enum": step_stores()},
            "spec": {
                "type": "object",
                "properties": {name: {"type": "string"} for name in ("content", "files", *PLACE_FIELDS)},
            },
        },
    }


def _properties(spec: Any) -> dict[str, Any]:
    return {name: _property(plain_type(field.type)) for name, field in spec.__dataclass_fields__.items()}


def _property(of: Any) -> dict[str, Any]:
    if is_dataclass(of):
        return {"type": "object", "properties": _properties(of)}
    return {"type": _JSON_TYPES[of]} if of in _JSON_TYPES else {}


def _named(
    rows: "QuerySet[Any]", permission: str, scope: Scope, principal: Principal
) -> list[dict[str, str]]:
    near = visible_to(principal, permission, rows).filter(scope__path__in=scope.ancestor_paths())
    return [
        {"value": one.identifier, "detail": one.name}
        for one in near.select_related("scope").order_by("identifier")[:MOST_NAMES]
    ]
