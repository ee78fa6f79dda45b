"""Brings in the files of manifests that lie in Git or S3, and pins what came: the run goes on with that."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from aws.errors import Undelivered
from delegates.site_steps import step_after
from deployments.actions.base import ActionFailed
from deployments.expressions import BadExpressionError, resolve
from deployments.manifests.kinds import RUN_TASK_REQUEST, SERVICE_DEFINITION, TASK_DEFINITION
from deployments.manifests.places import COMMIT, GIT, beside, is_wanting, paths_of, pinned, ref_of, words_of

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


def told(row: Row) -> str:
    """What the log says of a manifest that was fetched."""
    if row["store"] == GIT and not row["place"].get(COMMIT):
        return f"Using commit {row.get('commit', '')[:12]} of {words_of(row)}"
    return f"Fetched from {words_of(row)}"
