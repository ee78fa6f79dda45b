"""Manifest specs of services and overrides, with validation and connector access (R082)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from catalog.manifests.layers import MERGE, MERGE_MODES
from catalog.manifests.locations import describe_store_problem, find_store_connector
from catalog.manifests.stores import FILE_STORE, get_store, is_store, list_store_names
from catalog.models import Manifest
from connectors.required_access import (
    RequiredPermission,
    get_connector_requirements,
    require_access,
)
from rbac.models import Scope, User
from rbac.policy import can
from web.http.problems import BadInput

MOST_MANIFESTS = 50


@dataclass(frozen=True)
class ManifestSpec:
    """One manifest as submitted.

    `mode` is the mode of an override, `place` the location of the paths in Git or S3.
    """

    identifier: str
    kind: str
    store: str = FILE_STORE
    paths: tuple[str, ...] = ()
    content: str = ""
    mode: str = MERGE
    place: Mapping[str, str] = field(default_factory=dict)


def list_manifest_problems(manifests: Sequence[ManifestSpec]) -> Iterator[dict[str, str]]:
    """Return the problems of manifest specs, as {"path", "message"}."""
    if len(manifests) > MOST_MANIFESTS:
        yield {"path": "manifests", "message": f"must be at most {MOST_MANIFESTS}"}
    identifiers: set[str] = set()
    for number, manifest in enumerate(manifests):
        if manifest.identifier in identifiers:
            message = f"the identifier {manifest.identifier} is used twice"
        else:
            message = _describe_problem(manifest)
        if message:
            yield {"path": f"manifests.{number}", "message": message}
        identifiers.add(manifest.identifier)


def require_store_access(actor: User, scope: Scope, manifests: Sequence[ManifestSpec]) -> None:
    """Require access to the connectors of manifest stores (R082).

    Raises `MissingAccess`, and `BadInput` for a missing connector.
    """
    needs = [
        need
        for number, manifest in enumerate(manifests)
        for need in get_store(manifest.store).list_requirements(
            asdict(manifest), scope, path=f"manifests.{number}"
        )
    ]
    require_access(actor, [*needs, *_list_location_needs(actor, scope, manifests)])


def _list_location_needs(
    actor: User, scope: Scope, manifests: Sequence[ManifestSpec]
) -> Iterator[RequiredPermission]:
    for number, manifest in enumerate(manifests):
        if get_store(manifest.store).is_remote:
            path = f"manifests.{number}"
            connector = find_store_connector(scope, manifest.store, manifest.place.get("connector", ""))
            if connector is None or not can(actor, "core_connector_view", connector):
                name = manifest.place.get("connector")
                message = f"no connector {name} for {manifest.store} in this scope or above"
                raise BadInput("The connector does not exist.", errors=[{"path": path, "message": message}])
            yield from get_connector_requirements(connector, path=path)


def _describe_problem(manifest: ManifestSpec) -> str:
    if manifest.kind not in Manifest.Kind.values:
        return f"unknown kind; use one of {', '.join(Manifest.Kind.values)}"
    if not is_store(manifest.store):
        return f"unknown store; use one of {', '.join(list_store_names())}"
    if manifest.mode not in MERGE_MODES:
        return f"unknown mode; use one of {', '.join(MERGE_MODES)}"
    return describe_store_problem(
        manifest.store,
        kind=manifest.kind,
        content=manifest.content,
        paths=manifest.paths,
        place=manifest.place,
    )
