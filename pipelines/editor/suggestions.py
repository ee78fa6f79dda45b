"""Suggestions of the text editor: full JSON Schema, and names of existing resources."""

from copy import deepcopy
from dataclasses import is_dataclass
from typing import Any

from django.db.models import QuerySet

from catalog.manifests.stores import list_stores
from catalog.models import Environment, Service
from pipelines.definition.schema import PIPELINE_SCHEMA, STEPS
from pipelines.definition.stage_targets import filter_nearest, list_infrastructures_near
from pipelines.definition.step_manifest_sources import list_step_stores
from rbac.models import Scope
from rbac.policy import Principal, filter_visible
from steps.kinds.registry import StepKind, get_step_kinds, resolve_plain_type
from steps.strategies.registry import get_strategies

MAX_SUGGESTIONS = 200
_STAGE_SPEC_PATH = "pipeline.stages.stage.spec"
_JSON_TYPES = {bool: "boolean", int: "integer", str: "string", float: "number"}


def build_suggestions(scope: Scope | None, principal: Principal) -> dict[str, Any]:
    """Build the editor's suggestions: the schema, and the resources that a pipeline of `scope` can use."""
    if scope is None:
        return {"schema": build_full_schema(), "values": {}}
    services = _list_names(Service.objects.all(), "core_service_view", scope, principal)
    environments = _list_names(Environment.objects.all(), "core_environment_view", scope, principal)
    places = filter_visible(principal, "core_environment_view", list_infrastructures_near(scope))
    infrastructures = [
        {"value": row.identifier, "detail": f"in {row.environment.identifier}: {row.cluster}, {row.region}"}
        for row in places.select_related("environment").order_by("identifier")[:MAX_SUGGESTIONS]
    ]
    return {
        "schema": build_full_schema(),
        "values": {
            f"{_STAGE_SPEC_PATH}.service.serviceRef": services,
            f"{_STAGE_SPEC_PATH}.environment.environmentRef": environments,
            f"{_STAGE_SPEC_PATH}.environment.infrastructureDefinitions.identifier": infrastructures,
        },
    }


def build_full_schema() -> dict[str, Any]:
    """Return the schema of pipelines with all strategies, step kinds and their fields."""
    schema = deepcopy(PIPELINE_SCHEMA)
    stages = schema["properties"]["pipeline"]["properties"]["stages"]
    spec = stages["items"]["properties"]["stage"]["properties"]["spec"]
    spec["properties"]["strategy"] = {"enum": sorted(get_strategies())}
    execution = spec["properties"]["execution"]["properties"]
    kinds = get_step_kinds().values()
    for section in execution:
        # Groups and parallel blocks contain steps of their own section.
        schema["$defs"][section] = _build_steps_schema(
            _replace_references(STEPS, section), [kind for kind in kinds if section in kind.sections]
        )
        execution[section] = {"$ref": f"#/$defs/{section}"}
    return schema


def _replace_references(schema: Any, section: str) -> Any:
    """Return a part of the schema with references to the steps of this section."""
    if isinstance(schema, dict):
        return {
            key: f"#/$defs/{section}" if key == "$ref" else _replace_references(part, section)
            for key, part in schema.items()
        }
    return schema


def _build_steps_schema(schema: dict[str, Any], kinds: list[StepKind]) -> dict[str, Any]:
    steps_schema = deepcopy(schema)
    step = steps_schema["items"]["properties"]["step"]
    step["properties"]["type"] = {"enum": sorted(kind.type for kind in kinds)}
    step["oneOf"] = [
        {
            "properties": {
                "type": {"const": kind.type},
                "spec": {"type": "object", "properties": _build_fields_schema(kind)},
            }
        }
        for kind in sorted(kinds, key=lambda kind: kind.type)
    ]
    return steps_schema


def _build_fields_schema(kind: StepKind) -> dict[str, Any]:
    own = {name: _build_manifest_schema() for name in kind.manifests}
    return {**_build_properties(kind.spec), **own}


def _build_manifest_schema() -> dict[str, Any]:
    """Return the schema of a manifest in a step: the store and its location."""
    places = dict.fromkeys(field.name for store in list_stores() for field in store.place_fields)
    return {
        "type": "object",
        "properties": {
            "type": {"enum": list_step_stores()},
            "spec": {
                "type": "object",
                "properties": {name: {"type": "string"} for name in ("content", "files", *places)},
            },
        },
    }


def _build_properties(spec: Any) -> dict[str, Any]:
    return {
        name: _build_property(resolve_plain_type(field.type))
        for name, field in spec.__dataclass_fields__.items()
    }


def _build_property(type_: Any) -> dict[str, Any]:
    if is_dataclass(type_):
        return {"type": "object", "properties": _build_properties(type_)}
    return {"type": _JSON_TYPES[type_]} if type_ in _JSON_TYPES else {}


def _list_names(
    rows: "QuerySet[Any]", permission: str, scope: Scope, principal: Principal
) -> list[dict[str, str]]:
    near = filter_visible(principal, permission, filter_nearest(rows, scope))
    return [
        {"value": row.identifier, "detail": row.name}
        for row in near.select_related("scope").order_by("identifier")[:MAX_SUGGESTIONS]
    ]
