"""Locations of manifests in Git and S3: fields, validation, revisions, and the connectors they name."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from connectors.models import Connector
from connectors.queries import list_connectors
from connectors.required_access import RequiredPermission, get_connector_requirements
from rbac.models import Scope

GIT, S3 = "Git", "S3"
REMOTE_STORES: Final = (GIT, S3)
BRANCH, TAG, COMMIT = "branch", "tag", "commit"
REVISION_FIELDS: Final = (BRANCH, TAG, COMMIT)
_LOCATION_FIELDS: Final = {
    GIT: ("connector", *REVISION_FIELDS, "repository"),
    S3: ("connector", "region", "bucket"),
}
LOCATION_FIELDS: Final = tuple(dict.fromkeys(name for names in _LOCATION_FIELDS.values() for name in names))
_REVISION_PATTERN: Final = re.compile(r"[\w][\w./+-]{0,254}\Z", re.ASCII)
_COMMIT_PATTERN: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_BUCKET_PATTERN: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z")
LocatedRow = Mapping[str, Any]


def is_remote(row: LocatedRow) -> bool:
    """Whether a manifest lies where only a connector leads."""
    return row["store"] in REMOTE_STORES


def is_unfetched(row: LocatedRow) -> bool:
    """Whether the files of a manifest have still to be fetched."""
    return is_remote(row) and not row.get("texts")


def clean_location(store: str, place: Mapping[str, str]) -> dict[str, str]:
    """What a store needs of a place, without what is empty."""
    found = {name: str(place.get(name) or "").strip() for name in _LOCATION_FIELDS.get(store, ())}
    return {name: value for name, value in found.items() if value}


def describe_location_problem(store: str, place: Mapping[str, Any], paths: Sequence[str]) -> str:
    """What is wrong with where a manifest lies, as far as the words themselves tell, or nothing."""
    known = _LOCATION_FIELDS.get(store, ())
    if unknown := [name for name in place if name not in known]:
        return f"place has no {unknown[0]} in the store {store}; it has {', '.join(known) or 'nothing'}"
    if store not in REMOTE_STORES:
        return ""
    if any(not isinstance(value, str) for value in place.values()):
        return "place holds texts only"
    if not place.get("connector"):
        return f"place needs the connector to {'Git' if store == GIT else 'AWS'}"
    if not paths:
        return f"a manifest in {store} needs at least one path"
    return _describe_git_problem(place) if store == GIT else _describe_s3_problem(place)


def describe_location(row: LocatedRow) -> str:
    """Where a manifest lies, in words: the branch main of shop.git, the bucket manifests."""
    place = row.get("place") or {}
    if row["store"] == S3:
        return f"the bucket {place.get('bucket', '')} in {place.get('region', '')}"
    kind = next((one for one in REVISION_FIELDS if place.get(one)), BRANCH)
    name = place.get(kind, "")
    where = place.get("repository") or place.get("connector", "")
    return f"the {kind} {name[:12] if kind == COMMIT else name} of {where}"


def get_git_ref(place: Mapping[str, str]) -> str:
    """What git is asked for; a branch and a tag may have the same name."""
    if place.get(TAG):
        return f"refs/tags/{place[TAG]}"
    return place.get(COMMIT) or f"refs/heads/{place[BRANCH]}"


def filter_same_location(rows: Iterable[LocatedRow], one: LocatedRow) -> list[LocatedRow]:
    """The manifests that are fetched together with one: those of the same place, which fit together."""
    return [row for row in rows if is_unfetched(row) and _is_same_location(row, one)]


def list_paths(rows: Iterable[LocatedRow]) -> list[str]:
    """The paths of several manifests, each once."""
    return list(dict.fromkeys(path.strip("/") for row in rows for path in row["paths"]))


def pin_files(row: LocatedRow, answer: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest with the texts of its files, and the commit or the versions that they are of."""
    files: Mapping[str, str] = answer.get("files") or {}
    wanted = [path.strip("/") for path in row["paths"]]
    texts = [
        {"name": name, "text": files[name]}
        for path in wanted
        for name in sorted(files)
        if path in ("", name) or name.startswith(f"{path}/")
    ]
    kept = {name: answer[name] for name in ("commit", "versions") if answer.get(name)}
    return {**row, **kept, "texts": texts}


def _is_same_location(one: LocatedRow, other: LocatedRow) -> bool:
    return (one["store"], one.get("place")) == (other["store"], other.get("place"))


def _describe_git_problem(place: Mapping[str, str]) -> str:
    given = [name for name in REVISION_FIELDS if place.get(name)]
    if len(given) != 1:
        return f"place names one of {', '.join(REVISION_FIELDS)}"
    name = place[given[0]]
    if "<+" in name:
        return ""
    if given == [COMMIT] and not _COMMIT_PATTERN.match(name):
        return "commit is the whole hash of a commit, 40 hexadecimal digits"
    if not _REVISION_PATTERN.match(name) or ".." in name or name.endswith(("/", ".lock")):
        return f"{given[0]} {name} is not the name of a {given[0]}"
    return ""


def _describe_s3_problem(place: Mapping[str, str]) -> str:
    if not place.get("region"):
        return "place needs the region of the bucket"
    bucket = place.get("bucket", "")
    if "<+" not in bucket and not _BUCKET_PATTERN.match(bucket):
        return "bucket is the name of an S3 bucket: 3 to 63 small letters, digits, dots and dashes"
    return ""


STORE_CONNECTOR_KINDS: Final = {GIT: Connector.Kind.GIT, S3: Connector.Kind.AWS}
LocatedRows = Iterable[Mapping[str, Any]]


def find_store_connector(scope: Scope, store: str, identifier: str) -> Connector | None:
    """The connector that a manifest in `scope` means by an identifier: the nearest of the store's kind."""
    found = list_connectors(scope, STORE_CONNECTOR_KINDS[store]).filter(identifier=identifier)
    return found.select_related("scope", "secret__scope").order_by("-scope__path").first()


def load_named_connectors(scope: Scope, rows: LocatedRows) -> dict[tuple[str, str], Connector | None]:
    """The connectors that manifests name, by store and identifier; None where nobody has made one."""
    names = {(row["store"], str(row["place"].get("connector", ""))) for row in rows if is_remote(row)}
    return {name: find_store_connector(scope, *name) for name in sorted(names)}


def list_store_needs(
    rows: LocatedRows, scope: Scope, *, hint: str, path: str
) -> Iterator[RequiredPermission]:
    """Yield what it takes to fetch manifests: access to the connectors that lead there (R082)."""
    for found in load_named_connectors(scope, rows).values():
        if found is not None:
            yield from get_connector_requirements(found, hint=hint, path=path)


def resolve_connectors(rows: LocatedRows, scope: Scope) -> list[dict[str, Any]]:
    """The manifests as a run keeps them: with the key of the connector that is meant now."""
    found = load_named_connectors(scope, rows := list(rows))
    return [dict(row) | _build_connector_key(found, row) for row in rows]


def _build_connector_key(
    found: Mapping[tuple[str, str], Connector | None], row: Mapping[str, Any]
) -> dict[str, Any]:
    if not is_remote(row):
        return {}
    connector = found[row["store"], str(row["place"].get("connector", ""))]
    return {"connector_id": connector.pk if connector else None}
