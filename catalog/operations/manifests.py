"""How somebody describes a manifest of a service or of an override, and what is wrong with it as such."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from catalog.manifests.check import secret_problems
from catalog.manifests.document import BadDocument, parse_manifest
from catalog.manifests.layers import MERGE, MODES
from catalog.manifests.places import REMOTE, place_problem
from catalog.manifests.store_connectors import connector_of
from catalog.manifests.stores import TASK_DEFINITION_ARN, arn_problem, is_store, store_names
from catalog.models import Manifest
from connectors.downstream import Need, needs_of_connector, needs_of_files, refuse_lacking
from rbac.models import Scope, User
from rbac.policy import can
from web.problems import BadInput

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


def manifest_problems(manifests: Sequence[ManifestSpec]) -> Iterator[dict[str, str]]:
    """What is wrong with descriptions of manifests, as {"path", "message"}."""
    if len(manifests) > MOST_MANIFESTS:
        yield {"path": "manifests", "message": f"may be {MOST_MANIFESTS} at most"}
    seen: set[str] = set()
    for number, manifest in enumerate(manifests):
        if manifest.identifier in seen:
            message = f"the identifier {manifest.identifier} is given twice"
        else:
            message = _problem(manifest)
        if message:
            yield {"path": f"manifests.{number}", "message": message}
        seen.add(manifest.identifier)


def refuse_closed_stores(actor: User, scope: Scope, manifests: Sequence[ManifestSpec]) -> None:
    """R082: who lets manifests come from somewhere must be allowed to use what leads there.

    Raises `LacksAccess`, and `BadInput` for a connector that is not there.
    """
    needs = [
        need
        for number, one in enumerate(manifests)
        if one.store == FILE_STORE
        for need in needs_of_files(one.paths, scope, path=f"manifests.{number}")
    ]
    refuse_lacking(actor, [*needs, *_needs_of_places(actor, scope, manifests)])


def _needs_of_places(actor: User, scope: Scope, manifests: Sequence[ManifestSpec]) -> Iterator[Need]:
    for number, one in enumerate(manifests):
        if one.store in REMOTE:
            path = f"manifests.{number}"
            found = connector_of(scope, one.store, one.place.get("connector", ""))
            if found is None or not can(actor, "core_connector_view", found):
                message = f"there is no connector {one.place.get('connector')} for {one.store} here or above"
                raise BadInput("The connector is not there.", errors=[{"path": path, "message": message}])
            yield from needs_of_connector(found, path=path)


def _problem(manifest: ManifestSpec) -> str:
    if manifest.kind not in Manifest.Kind.values:
        return f"unknown kind; known are {', '.join(Manifest.Kind.values)}"
    if not is_store(manifest.store):
        return f"unknown store; known are {', '.join(store_names())}"
    if manifest.mode not in MODES:
        return f"unknown mode; known are {', '.join(MODES)}"
    return _problem_in_store(manifest)


def _problem_in_store(manifest: ManifestSpec) -> str:
    if manifest.store == FILE_STORE and not manifest.paths:
        return "a manifest in the file store needs at least one path"
    if manifest.store == "Inline":
        return _problem_in_text(manifest.content)
    if manifest.store == TASK_DEFINITION_ARN:
        if manifest.kind != Manifest.Kind.TASK_DEFINITION:
            return "only a task definition can be given by its ARN"
        return arn_problem(manifest.content)
    return place_problem(manifest.store, manifest.place, manifest.paths)


def _problem_in_text(content: str) -> str:
    if not content:
        return "an inline manifest needs its content"
    try:
        document = parse_manifest(content, "content")
    except BadDocument as bad:
        return f"line {bad.line}, column {bad.column}: {bad.message}"
    return next((f"line {one.line}: {one.path}: {one.message}" for one in secret_problems(document)), "")
