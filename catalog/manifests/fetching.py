"""Fetching of manifest files from Git, S3 and the file store for a run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from aws.errors import Undelivered
from catalog.manifests.kinds import RUN_TASK_REQUEST, SERVICE_DEFINITION, TASK_DEFINITION
from catalog.manifests.locations import (
    describe_location,
    filter_same_location,
    is_unfetched,
    list_paths,
    pin_files,
)
from catalog.manifests.stores import StoreError, get_store
from connectors.file_store import StoredFile
from delegates.access.remedies import find_site_remedy
from guards.limits import MANIFEST_FILES_BYTES
from guards.text import find_encoding_problem
from rbac.models import Scope
from steps.actions.base import ActionFailed
from steps.expressions import BadExpressionError, find_paths, resolve_expressions

_ROOTS_OF_STEPS = ("execution", "provisioner", "steps")
AS_OF, NOT_KEPT = "as_of", "not_kept_by"
# Number of files that one log line lists.
MOST_FILES = 10


def describe_earlier_run(row: Mapping[str, Any]) -> str:
    """Return the log suffix for a manifest version that an earlier run fetched."""
    return f", as deployed by #{row[AS_OF]}" if AS_OF in row else ""


FetchRow = Mapping[str, Any]
FetchFiles = Callable[[dict[str, Any]], dict[str, Any]]
"""Fetches what a request names. Raises `AwsError`."""
_READ_WITH = {SERVICE_DEFINITION: (TASK_DEFINITION,), RUN_TASK_REQUEST: (TASK_DEFINITION,)}


def group_by_location(rows: Sequence[FetchRow], kind: str) -> list[list[int]]:
    """Group the rows to fetch for the manifests of a kind by location; returns positions."""
    kinds = (kind, *_READ_WITH.get(kind, ()))
    groups: list[list[int]] = []
    for row in rows:
        grouped = {number for group in groups for number in group}
        if row["kind"] in kinds and is_unfetched(row) and rows.index(row) not in grouped:
            groups.append([rows.index(match) for match in filter_same_location(rows, row)])
    return groups


def fetch_groups(
    rows: Sequence[FetchRow],
    groups: Sequence[Sequence[int]],
    expression_values: Mapping[str, Any],
    fetch: FetchFiles,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Fetch each group and yield its rows with their texts, by position.

    Raises `ActionFailed` if a fetch fails, and the errors of `fetch`.
    """
    for group in groups:
        locations = [_resolve_location(rows[number], expression_values) for number in group]
        answer = _fetch_files(locations, fetch)
        for number, row in zip(group, locations, strict=True):
            yield number, pin_files(row, answer)


def _resolve_location(row: FetchRow, expression_values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest row with the expressions in its location and paths resolved, numbers as text."""
    try:
        location = {"place": row["place"], "paths": list(row["paths"])}
        resolved = resolve_expressions(location, expression_values)
    except BadExpressionError as error:
        where = ".".join(map(str, error.where))
        raise ActionFailed("UNKNOWN_EXPRESSION", f"{row['identifier']}, {where}: {error.message}") from error
    place = {name: str(value) for name, value in resolved["place"].items()}
    return {**row, "place": place, "paths": [str(path) for path in resolved["paths"]]}


def _fetch_files(rows: Sequence[FetchRow], fetch: FetchFiles) -> dict[str, Any]:
    first = rows[0]
    if first.get("connector_id") is None:
        raise ActionFailed(
            "CONNECTOR_MISSING",
            f"The connector {first['place'].get('connector')} of the manifest {first['identifier']} "
            "does not exist. Create it, or change the manifest, and run again.",
        )
    try:
        answer = fetch(build_fetch_request(rows))
    except Undelivered as problem:
        raise ActionFailed(
            problem.code or "MANIFEST_MISSING",
            f"The manifest {first['identifier']} could not be fetched from {describe_location(first)}: "
            f"{_add_next_step(problem.display_message)}",
        ) from problem
    for name, text in (answer.get("files") or {}).items():
        if problem_of_text := find_encoding_problem(text):
            raise ActionFailed("BAD_MANIFEST", f"{name}: {problem_of_text.display_message}")
    return answer


def _add_next_step(sentence: str) -> str:
    """Append the next step to a reason, if there is one."""
    return f"{sentence.rstrip('.')}. {find_site_remedy(sentence)}".strip()


def build_fetch_request(rows: Sequence[FetchRow]) -> dict[str, Any]:
    """Build the request for the manifest files of one location."""
    first = rows[0]
    place = get_store(first["store"]).build_request(first["place"])
    return {"connector": first["connector_id"], **place, "paths": list_paths(rows)}


def depends_on_steps(row: FetchRow) -> bool:
    """Return whether a location names outputs of steps, which only the run knows."""
    location = {"place": row.get("place"), "paths": list(row["paths"])}
    return any(path.partition(".")[0] in _ROOTS_OF_STEPS for _, path in find_paths(location))


def read_local_files(
    rows: Sequence[FetchRow], kind: str, scope: Scope
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the manifests of local stores with their texts and versions, by position.

    All are read at once, so that they are consistent. A manifest with missing files is skipped; the
    action that needs it reports the error. Raises `ActionFailed` for a manifest above the size limit.
    """
    for number, row in enumerate(rows):
        if not is_versioned(row) or row.get("texts") or not row["paths"]:
            continue
        try:
            files = list(get_store(row["store"]).read_files(row, scope))
        except StoreError:
            continue
        size = sum(len(file.text.encode()) for file in files)
        if size <= MANIFEST_FILES_BYTES:
            yield number, _add_texts(row, files)
        elif row["kind"] == kind:
            contents = f"{len(files)} files of {size:,} bytes together"
            raise ActionFailed(
                "MANIFEST_TOO_LARGE",
                f"The manifest {row['identifier']} has {contents}. The limit of a run is "
                f"{MANIFEST_FILES_BYTES}. Use fewer or smaller files, and run again.",
            )


def _add_texts(row: FetchRow, files: Sequence[StoredFile]) -> dict[str, Any]:
    return {
        **row,
        "versions": {file.ref: file.version for file in files},
        "texts": [{"name": file.ref, "text": file.text} for file in files],
    }


def is_versioned(row: FetchRow) -> bool:
    """Return whether a manifest's files may change during a run, so that the run stores a copy."""
    return get_store(row["store"]).keeps_versions


def describe_fetch(row: FetchRow) -> str:
    """Return the log line of a manifest that was fetched."""
    return get_store(row["store"]).describe_fetch(row)


def describe_version(row: FetchRow) -> str:
    """Return the log line about a pinned manifest: its version, and the run that read it first."""
    if NOT_KEPT in row:
        return (
            f"The files of {row['identifier']} were not kept by #{row[NOT_KEPT]}: using them as they are now"
        )
    origin = describe_earlier_run(row)
    if is_versioned(row):
        versions = row.get("versions") or {}
        if not versions and not origin:
            return ""
        files = [f"version {version} of {name}" for name, version in list(versions.items())[:MOST_FILES]]
        more_files = [f"{len(versions) - MOST_FILES} more"] if len(versions) > MOST_FILES else []
        files_text = " and ".join([*files, *more_files]) or f"the files of {row['identifier']}"
        return f"Using {files_text}{origin}"
    return f"{describe_fetch(row)}{origin}" if origin else ""
