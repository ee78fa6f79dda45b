"""Kinds of resources that can be exported and applied, in the order of their dependencies."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cli.client import ApiClient
from cli.options import parse_scope

Spec = dict[str, Any]
Row = dict[str, Any]
_MANIFEST_DEFAULTS: Final = {"store": "FileStore", "paths": [], "content": "", "place": {}}
_ARTIFACT_DEFAULTS: Final = {"tag": "latest", "source": {}}


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

    @property
    def fields(self) -> tuple[str, ...]:
        """Return the fields of the spec in the order of an export."""
        return (*self.required, *self.defaults)

    def build_spec(self, row: Row) -> Spec:
        """Return the complete spec of a row of the API."""
        spec = {name: row[self.renamed.get(name, name)] for name in self.fields}
        return self.complete(spec)

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

    def build_body(self, spec: Mapping[str, Any], *, is_new: bool) -> dict[str, Any]:
        """Return the body of a request with a spec."""
        names = [name for name in self.fields if is_new or name not in self.fixed]
        return {self.renamed.get(name, name): spec[name] for name in names}


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
    {"secret": None},
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
    fixed=("environment",),
)
PIPELINE: Final = ResourceKind("Pipeline", "pipelines", ("yaml",))
# A resource only refers to kinds before its own.
KINDS: Final = {kind.name: kind for kind in (CONNECTOR, ENVIRONMENT, SERVICE, INFRASTRUCTURE, PIPELINE)}


@dataclass(frozen=True)
class Key:
    """Identity of a resource; infrastructures are named within their environment."""

    kind: str
    scope: str
    identifier: str
    environment: str = ""

    def __str__(self) -> str:
        name = f"{self.environment}/{self.identifier}" if self.environment else self.identifier
        return f"{self.kind} {name} in {self.scope or 'account'}"


@dataclass(frozen=True)
class StoredResource:
    """Resource of the server."""

    key: Key
    path: str
    row: Row

    @property
    def spec(self) -> Spec:
        """Return the complete spec."""
        return KINDS[self.key.kind].build_spec(self.row)


def get_scope_name(path: str) -> str:
    """Return a scope without its root: default/demo; empty for the account."""
    return path.strip("/").removeprefix("account").strip("/")


def list_resources(client: ApiClient, kind: ResourceKind, scope: str) -> Iterator[StoredResource]:
    """Yield the visible resources of a kind in exactly one scope."""
    collection = ENVIRONMENT.collection if kind is INFRASTRUCTURE else kind.collection
    for row in client.list(collection, **parse_scope(scope)):
        if get_scope_name(row["scope"]) != scope:
            continue
        if kind is INFRASTRUCTURE:
            yield from _list_infrastructures(client, row, scope)
        else:
            key = Key(kind.name, scope, row["identifier"])
            yield StoredResource(key, f"{collection}/{row['id']}", row)


def list_scopes(client: ApiClient, scope: str) -> list[str]:
    """Return a scope and the visible scopes below it."""
    scopes = {scope}
    for collection in (
        ENVIRONMENT.collection,
        *(kind.collection for kind in KINDS.values() if kind is not INFRASTRUCTURE),
    ):
        rows = client.list(collection, **parse_scope(scope))
        scopes |= {get_scope_name(row["scope"]) for row in rows}
    return sorted(scopes)


def _list_infrastructures(client: ApiClient, environment: Row, scope: str) -> Iterator[StoredResource]:
    path = f"environments/{environment['id']}/infrastructures"
    for row in client.list(path):
        key = Key(INFRASTRUCTURE.name, scope, row["identifier"], environment["identifier"])
        yield StoredResource(key, f"{path}/{row['id']}", {**row, "environment": environment["identifier"]})
