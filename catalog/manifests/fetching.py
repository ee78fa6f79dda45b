"""Brings in the files of manifests that lie in Git or S3, and pins what came: the run goes on with that."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from aws.errors import Undelivered
from catalog.manifests.kinds import RUN_TASK_REQUEST, SERVICE_DEFINITION, TASK_DEFINITION
from catalog.manifests.places import COMMIT, GIT, beside, is_wanting, paths_of, pinned, ref_of, words_of
from catalog.manifests.stores import is_in_file_store
from connectors.files import FileMissing, StoredFile, read_files
from delegates.site_steps import step_after
from guards.limits import KEPT_FILES_BYTES
from rbac.models import Scope
from steps.actions.base import ActionFailed
from steps.expressions import BadExpressionError, resolve

AS_OF, NOT_KEPT = "as_of", "not_kept_by"


def words_for(row: Mapping[str, Any]) -> str:
    """What the log says behind the version of a manifest that an earlier run has fetched."""
    return f", as deployed by #{row[AS_OF]}" if AS_OF in row else ""


# How many files one line of the log lists.
MOST_FILES = 10
Row = Mapping[str, Any]
Fetch = Callable[[dict[str, Any]], dict[str, Any]]
"""Fetches what a request names. Raises `AwsError`."""
_READ_WITH = {SERVICE_DEFINITION: (TASK_DEFINITION,), RUN_TASK_REQUEST: (TASK_DEFINITION,)}


def groups_of(rows: Sequence[Row], kind: str) -> list[list[int]]:
    """Which rows are fetched for the manifests of a kind, as positions; those of one place together."""
    kinds = (kind, *_READ_WITH.get(kind, ()))
    groups: list[list[int]] = []
    for row in rows:
        taken = {number for group in groups for number in group}
        if row["kind"] in kinds and is_wanting(row) and rows.index(row) not in taken:
            groups.append([rows.index(one) for one in beside(rows, row)])
    return groups


def brought_in(
    rows: Sequence[Row], groups: Sequence[Sequence[int]], known: Mapping[str, Any], fetch: Fetch
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Fetch each group and yield its rows with their texts, by position.

    Raises `ActionFailed` where something cannot be fetched, and what `fetch` raises.
    """
    for group in groups:
        asked = [_settled(rows[number], known) for number in group]
        answer = _fetched(asked, fetch)
        for number, row in zip(group, asked, strict=True):
            yield number, pinned(row, answer)


def _settled(row: Row, known: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest with the expressions of its place and its paths filled in."""
    try:
        return {**row, **resolve({"place": row["place"], "paths": list(row["paths"])}, known)}
    except BadExpressionError as bad:
        where = ".".join(map(str, bad.where))
        raise ActionFailed("UNKNOWN_EXPRESSION", f"{row['identifier']}, {where}: {bad.message}") from bad


def _fetched(rows: Sequence[Row], fetch: Fetch) -> dict[str, Any]:
    first = rows[0]
    if first.get("connector_id") is None:
        raise ActionFailed(
            "CONNECTOR_MISSING",
            f"The manifest {first['identifier']} names the connector {first['place'].get('connector')}, "
            "which is not there. Make it, or change the manifest, and run again.",
        )
    try:
        return fetch(request_for(rows))
    except Undelivered as problem:
        raise ActionFailed(
            problem.code or "MANIFEST_MISSING",
            f"The manifest {first['identifier']} could not be fetched from {words_of(first)}: "
            f"{_with_step(problem.sentence)}",
        ) from problem


def _with_step(sentence: str) -> str:
    """A reason, and what to do about it where that is known."""
    return f"{sentence.rstrip('.')}. {step_after(sentence)}".strip()


def request_for(rows: Sequence[Row]) -> dict[str, Any]:
    """What is asked for: the files of manifests of one place."""
    first = rows[0]
    place: Mapping[str, str] = first["place"]
    if first["store"] == GIT:
        where = {"ref": ref_of(place), "repository": place.get("repository", "")}
    else:
        where = {"region": place["region"], "bucket": place["bucket"]}
    return {"connector": first["connector_id"], **where, "paths": paths_of(rows)}


def from_file_store(rows: Sequence[Row], kind: str, scope: Scope) -> Iterator[tuple[int, dict[str, Any]]]:
    """The manifests in the file store that no run has read yet, with their texts and versions, by position.

    All of them are read at once, so that they fit together; one whose files are not there is left for the
    action that needs it to say so. Raises `ActionFailed` for one of this kind that is too large to keep.
    """
    for number, row in enumerate(rows):
        if not is_in_file_store(row) or row.get("texts") or not row["paths"]:
            continue
        try:
            files = [one for path in row["paths"] for one in read_files(scope, path)]
        except FileMissing:
            continue
        size = sum(len(one.text.encode()) for one in files)
        if size <= KEPT_FILES_BYTES:
            yield number, _as_read(row, files)
        elif row["kind"] == kind:
            found = f"{len(files)} files of {size:,} bytes together"
            raise ActionFailed(
                "MANIFEST_TOO_LARGE",
                f"The manifest {row['identifier']} names {found}, and a run keeps {KEPT_FILES_BYTES} at "
                "most. Name fewer files, and run again.",
            )


def _as_read(row: Row, files: Sequence[StoredFile]) -> dict[str, Any]:
    return {
        **row,
        "versions": {one.ref: one.version for one in files},
        "texts": [{"name": one.ref, "text": one.text} for one in files],
    }


def told_of_kept(row: Row) -> str:
    """What the log says of a manifest that the run has by now: its version, and which run read it first."""
    if NOT_KEPT in row:
        return (
            f"The files of {row['identifier']} were not kept by #{row[NOT_KEPT]}: using them as they are now"
        )
    then = words_for(row)
    if is_in_file_store(row):
        versions = row.get("versions") or {}
        if not versions and not then:
            return ""
        files = [f"version {version} of {name}" for name, version in list(versions.items())[:MOST_FILES]]
        more = [f"{len(versions) - MOST_FILES} more"] if len(versions) > MOST_FILES else []
        said = " and ".join([*files, *more]) or f"the files of {row['identifier']}"
        return f"Using {said}{then}"
    return f"{told(row)}{then}" if then else ""


def told(row: Row) -> str:
    """What the log says of a manifest that was fetched."""
    if row["store"] == GIT and not row["place"].get(COMMIT):
        return f"Using commit {row.get('commit', '')[:12]} of {words_of(row)}"
    return f"Fetched from {words_of(row)}"
