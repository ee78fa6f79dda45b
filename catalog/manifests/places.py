"""Manifests that lie elsewhere, in Git or S3: where, how that is said, and what came from there."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

GIT, S3 = "Git", "S3"
REMOTE: Final = (GIT, S3)
BRANCH, TAG, COMMIT = "branch", "tag", "commit"
REFS: Final = (BRANCH, TAG, COMMIT)
_FIELDS: Final = {GIT: ("connector", *REFS, "repository"), S3: ("connector", "region", "bucket")}
PLACE_FIELDS: Final = tuple(dict.fromkeys(name for names in _FIELDS.values() for name in names))
_REF: Final = re.compile(r"[\w][\w./+-]{0,254}\Z", re.ASCII)
_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z")

Row = Mapping[str, Any]


def is_remote(row: Row) -> bool:
    """Whether a manifest lies where only a connector leads."""
    return row["store"] in REMOTE


def is_wanting(row: Row) -> bool:
    """Whether the files of a manifest have still to be fetched."""
    return is_remote(row) and not row.get("texts")


def clean_place(store: str, place: Mapping[str, str]) -> dict[str, str]:
    """What a store needs of a place, without what is empty."""
    found = {name: str(place.get(name) or "").strip() for name in _FIELDS.get(store, ())}
    return {name: value for name, value in found.items() if value}


def place_problem(store: str, place: Mapping[str, Any], paths: Sequence[str]) -> str:
    """What is wrong with where a manifest lies, as far as the words themselves tell, or nothing."""
    known = _FIELDS.get(store, ())
    if unknown := [name for name in place if name not in known]:
        return f"place has no {unknown[0]} in the store {store}; it has {', '.join(known) or 'nothing'}"
    if store not in REMOTE:
        return ""
    if any(not isinstance(value, str) for value in place.values()):
        return "place holds texts only"
    if not place.get("connector"):
        return f"place needs the connector to {'Git' if store == GIT else 'AWS'}"
    if not paths:
        return f"a manifest in {store} needs at least one path"
    return _git_problem(place) if store == GIT else _s3_problem(place)


def words_of(row: Row) -> str:
    """Where a manifest lies, in words: the branch main of shop.git, the bucket manifests."""
    place = row.get("place") or {}
    if row["store"] == S3:
        return f"the bucket {place.get('bucket', '')} in {place.get('region', '')}"
    kind = next((one for one in REFS if place.get(one)), BRANCH)
    name = place.get(kind, "")
    where = place.get("repository") or place.get("connector", "")
    return f"the {kind} {name[:12] if kind == COMMIT else name} of {where}"


def ref_of(place: Mapping[str, str]) -> str:
    """What git is asked for; a branch and a tag may have the same name."""
    if place.get(TAG):
        return f"refs/tags/{place[TAG]}"
    return place.get(COMMIT) or f"refs/heads/{place[BRANCH]}"


def beside(rows: Iterable[Row], one: Row) -> list[Row]:
    """The manifests that are fetched together with one: those of the same place, which fit together."""
    return [row for row in rows if is_wanting(row) and _same(row, one)]


def paths_of(rows: Iterable[Row]) -> list[str]:
    """The paths of several manifests, each once."""
    return list(dict.fromkeys(path.strip("/") for row in rows for path in row["paths"]))


def pinned(row: Row, answer: Mapping[str, Any]) -> dict[str, Any]:
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


def _same(one: Row, other: Row) -> bool:
    return (one["store"], one.get("place")) == (other["store"], other.get("place"))


def _git_problem(place: Mapping[str, str]) -> str:
    given = [name for name in REFS if place.get(name)]
    if len(given) != 1:
        return f"place names one of {', '.join(REFS)}"
    name = place[given[0]]
    if "<+" in name:
        return ""
    if given == [COMMIT] and not _COMMIT.match(name):
        return "commit is the whole hash of a commit, 40 hexadecimal digits"
    if not _REF.match(name) or ".." in name or name.endswith(("/", ".lock")):
        return f"{given[0]} {name} is not the name of a {given[0]}"
    return ""


def _s3_problem(place: Mapping[str, str]) -> str:
    if not place.get("region"):
        return "place needs the region of the bucket"
    bucket = place.get("bucket", "")
    if "<+" not in bucket and not _BUCKET.match(bucket):
        return "bucket is the name of an S3 bucket: 3 to 63 small letters, digits, dots and dashes"
    return ""
