"""Manifest specs of services and overrides, with validation and connector access (R082)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from catalog.manifests.checks import list_secret_problems
from catalog.manifests.documents import BadDocument, parse_manifest
from catalog.manifests.layers import MERGE, MERGE_MODES
from catalog.manifests.locations import REMOTE_STORES, describe_location_problem, find_store_connector
from catalog.manifests.stores import TASK_DEFINITION_ARN, describe_arn_problem, is_store, list_store_names
from catalog.models import Manifest
from connectors.required_access import (
    RequiredPermission,
    get_connector_requirements,
    get_file_requirements,
    require_access,
)
from rbac.models import Scope, User
from rbac.policy import can
from web.http.problems import BadInput

MOST_MANIFESTS = 50
FILE_STORE = "FileStore"


@dataclass(frozen=True)
class ManifestSpec:
    """One manifest as somebody describes it.

    `mode` says what an override does with the service's, `place` where in Git or S3 the paths lie.
    """

    identifier: str
    kind: str
    store: str = FILE_STORE
    paths: tuple[str, ...] = ()
    content: str = ""
    mode: str = MERGE
    place: Mapping[str, str] = field(default_factory=dict)


def list_manifest_problems(manifests: Sequence[ManifestSpec]) -> Iterator[dict[str, str]]:
    """What is wrong with descriptions of manifests, as {"path", "message"}."""
    if len(manifests) > MOST_MANIFESTS:
        yield {"path": "manifests", "message": f"may be {MOST_MANIFESTS} at most"}
    seen: set[str] = set()
    for number, manifest in enumerate(manifests):
        if manifest.identifier in seen:
            message = f"the identifier {manifest.identifier} is given twice"
        else:
            message = _describe_problem(manifest)
        if message:
            yield {"path": f"manifests.{number}", "message": message}
        seen.add(manifest.identifier)


def require_store_access(actor: User, scope: Scope, manifests: Sequence[ManifestSpec]) -> None:
    """R082: who lets manifests come from somewhere must be allowed to use what leads there.

    Raises `MissingAccess`, and `BadInput` for a connector that is not there.
    """
    needs = [
        need
        for number, one in enumerate(manifests)
        if one.store == FILE_STORE
        for need in get_file_requirements(one.paths, scope, path=f"manifests.{number}")
    ]
    require_access(actor, [*needs, *_list_location_needs(actor, scope, manifests)])


def _list_location_needs(
    actor: User, scope: Scope, manifests: Sequence[ManifestSpec]
) -> Iterator[RequiredPermission]:
    for number, one in enumerate(manifests):
        if one.store in REMOTE_STORES:
            path = f"manifests.{number}"
            found = find_store_connector(scope, one.store, one.place.get("connector", ""))
            if found is None or not can(actor, "core_connector_view", found):
                message = f"there is no connector {one.place.get('connector')} for {one.store} here or above"
                raise BadInput("The connector is not there.", errors=[{"path": path, "message": message}])
            yield from get_connector_requirements(found, path=path)


def _describe_problem(manifest: ManifestSpec) -> str:
    if manifest.kind not in Manifest.Kind.values:
        return f"unknown kind; known are {', '.join(Manifest.Kind.values)}"
    if not is_store(manifest.store):
        return f"unknown store; known are {', '.join(list_store_names())}"
    if manifest.mode not in MERGE_MODES:
        return f"unknown mode; known are {', '.join(MERGE_MODES)}"
    return _describe_store_problem(manifest)


def _describe_store_problem(manifest: ManifestSpec) -> str:
    if manifest.store == FILE_STORE and not manifest.paths:
        return "a manifest in the file store needs at least one path"
    if manifest.store == "Inline":
        return _describe_text_problem(manifest.content)
    if manifest.store == TASK_DEFINITION_ARN:
        if manifest.kind != Manifest.Kind.TASK_DEFINITION:
            return "only a task definition can be given by its ARN"
        return describe_arn_problem(manifest.content)
    return describe_location_problem(manifest.store, manifest.place, manifest.paths)


def _describe_text_problem(content: str) -> str:
    if not content:
        return "an inline manifest needs its content"
    try:
        document = parse_manifest(content, "content")
    except BadDocument as bad:
        return f"line {bad.line}, column {bad.column}: {bad.message}"
    return next((f"line {one.line}: {one.path}: {one.message}" for one in list_secret_problems(document)), "")
