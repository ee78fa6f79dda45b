"""Kinds of resources that can be exported and applied, in the order of their dependencies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Spec = dict[str, Any]
Row = dict[str, Any]
_MANIFEST_DEFAULTS: Final = {"store": "FileStore", "paths": [], "content": "", "place": {}}
_ARTIFACT_DEFAULTS: Final = {"tag": "latest", "source": {}}


@dataclass(frozen=True)
class Parent:
    """Resource that another one belongs to: the field of the spec that names it, and its list in the API."""

    field: str
    collection: str


@dataclass(frozen=True)
class ResourceKind:
    """Kind of resource: its list in the API, and the fields of its spec with their defaults."""

    name: str
    collection: str
    required: tuple[str, ...]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    fixed: tuple[str, ...] = ()
    """Fields that cannot change after the creation."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Names of fields in the API, by those of the spec."""
    complete: Callable[[Spec], Spec] = dict
    """Function that adds the defaults of nested values."""
    shorten: Callable[[Spec], Spec] = dict
    """Function that removes them."""
    update_method: str = "PUT"
    parent: Parent | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """Return the fields of the spec in the order of an export."""
        return (*self.required, *self.defaults)

    def build_spec(self, row: Row) -> Spec:
        """Return the complete spec of a row of the API.

        The rows of an older server may lack optional fields, which then have their defaults.
        """
        spec = {name: row[self._get_api_name(name)] for name in self.required}
        optional = {name: row.get(self._get_api_name(name), self.defaults[name]) for name in self.defaults}
        return self.complete(spec | optional)

    def complete_spec(self, spec: Mapping[str, Any]) -> Spec:
        """Return a spec with all fields, in the order of an export."""
        return self.complete(
            {name: spec[name] if name in spec else self.defaults[name] for name in self.fields}
        )

    def shorten_spec(self, spec: Mapping[str, Any]) -> Spec:
        """Return a spec without the fields that have their default."""
        return self.shorten(
            {
                name: value
                for name, value in spec.items()
                if name in self.required or value != self.defaults[name]
            }
        )

    def build_body(self, spec: Mapping[str, Any], *, stored: Row | None) -> dict[str, Any]:
        """Return the body of a request with a spec, without the parent; `stored` is the row to change."""
        left_out = {self.parent.field} if self.parent else set()
        left_out |= set() if stored is None else set(self.fixed)
        # Null only removes a present value; an older server refuses fields that it does not know.
        left_out |= {
            name
            for name, default in self.defaults.items()
            if default is None and spec[name] is None and self._get_api_name(name) not in (stored or {})
        }
        return {self._get_api_name(name): spec[name] for name in self.fields if name not in left_out}

    def _get_api_name(self, name: str) -> str:
        return self.renamed.get(name, name)


def _complete_service(spec: Spec) -> Spec:
    return _convert_parts(spec, _add_defaults)


def _shorten_service(spec: Spec) -> Spec:
    return _convert_parts(spec, _remove_defaults)


def _convert_parts(spec: Spec, convert: Callable[[Spec, Mapping[str, Any]], Spec]) -> Spec:
    """Return a service with converted image and manifests; the server refuses values of a wrong type."""
    result = dict(spec)
    if isinstance(artifact := spec.get("artifact"), dict):
        result["artifact"] = convert(artifact, _ARTIFACT_DEFAULTS)
    if isinstance(manifests := spec.get("manifests"), list):
        result["manifests"] = [
            convert(manifest, _MANIFEST_DEFAULTS) if isinstance(manifest, dict) else manifest
            for manifest in manifests
        ]
    return result


def _add_defaults(part: Spec, defaults: Mapping[str, Any]) -> Spec:
    """Return a part with all fields: the required ones first, the others in the order of their defaults."""
    required = {name: value for name, value in part.items() if name not in defaults}
    return {**required, **{name: part.get(name, default) for name, default in defaults.items()}}


def _remove_defaults(part: Spec, defaults: Mapping[str, Any]) -> Spec:
    return {name: value for name, value in part.items() if name not in defaults or value != defaults[name]}


CONNECTOR: Final = ResourceKind(
    "Connector",
    "connectors",
    ("name", "type", "settings"),
    {"secret": None, "session_token": None},
    fixed=("type",),
    renamed={"type": "kind", "settings": "spec"},
    update_method="PATCH",
)
ENVIRONMENT: Final = ResourceKind(
    "Environment",
    "environments",
    ("name",),
    {"description": "", "type": "PreProduction", "variables": {}},
    renamed={"type": "kind"},
)
SERVICE: Final = ResourceKind(
    "Service",
    "services",
    ("name",),
    {"description": "", "variables": {}, "required_variables": [], "artifact": None, "manifests": []},
    complete=_complete_service,
    shorten=_shorten_service,
)
INFRASTRUCTURE: Final = ResourceKind(
    "Infrastructure",
    "infrastructures",
    ("environment", "name", "connector", "region", "cluster"),
    {"is_dynamic": False},
    parent=Parent("environment", "environments"),
)
PIPELINE: Final = ResourceKind("Pipeline", "pipelines", ("yaml",))
INPUT_SET: Final = ResourceKind(
    "InputSet",
    "input-sets",
    ("pipeline", "name"),
    {"description": "", "inputs": {}},
    parent=Parent("pipeline", "pipelines"),
)
TRIGGER: Final = ResourceKind(
    "Trigger",
    "triggers",
    ("pipeline", "name", "type", "service_account"),
    {"settings": {}, "tag": "", "inputs": {}, "conditions": [], "is_enabled": True},
    fixed=("type",),
    renamed={"type": "kind", "settings": "spec"},
    parent=Parent("pipeline", "pipelines"),
)
# A resource only refers to kinds before its own.
KINDS: Final = {
    kind.name: kind
    for kind in (CONNECTOR, ENVIRONMENT, SERVICE, INFRASTRUCTURE, PIPELINE, INPUT_SET, TRIGGER)
}
