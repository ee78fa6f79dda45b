"""The manifests that count for a service in a place: merged, with where each value came from, and checked."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.effective.resolution import Overridden, Row, deeper
from catalog.manifests.check import CheckedManifest, ManifestProblem, check_manifest
from catalog.manifests.document import BadDocument
from catalog.manifests.layers import Merged, combined
from catalog.manifests.places import is_wanting, words_of
from catalog.manifests.reading import read_layers
from catalog.manifests.stores import TASK_DEFINITION_ARN, StoreError
from catalog.models import Manifest
from connectors.files import FileMissing, owner_of
from rbac.models import Scope, User
from rbac.policy import Principal, can

FetchRows = Callable[[Overridden, list[Row], Scope, User], list[Row]]
"""Fetches the files of manifests that lie elsewhere, for somebody."""


@dataclass(frozen=True)
class Fault:
    """Something because of which a deployment would be refused; `problem` is None where it has no place."""

    kind: str
    text: str
    problem: ManifestProblem | None = None


@dataclass(frozen=True)
class CountingManifest:
    """One manifest that counts somewhere.

    `rows` are the manifests that it was made of, the weakest first; `arn` is set for a task definition that
    AWS has already, `trouble` where nothing could be merged: it says why and where; `broken` is its place.
    `elsewhere` says where files lie that were not fetched, `waits` how far a delegate is that fetches them.
    """

    kind: str
    rows: tuple[Row, ...]
    merged: Merged | None = None
    checked: CheckedManifest | None = None
    arn: str = ""
    trouble: str = ""
    broken: ManifestProblem | None = None
    elsewhere: str = ""
    waits: str = ""

    @property
    def problems(self) -> tuple[ManifestProblem, ...]:
        return self.checked.problems if self.checked else ()

    @property
    def warnings(self) -> tuple[ManifestProblem, ...]:
        return self.checked.warnings if self.checked else ()

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Everything because of which a deployment would be refused."""
        if self.trouble:
            return (Fault(self.kind, self.trouble, self.broken),)
        return tuple(Fault(self.kind, str(one), one) for one in self.problems)


def counting_manifests(
    found: Overridden,
    reader: User,
    kinds: Collection[str] = Manifest.Kind.values,
    *,
    fetch: FetchRows | None = None,
) -> list[CountingManifest]:
    """Every manifest that a deployment would take, as far as the reader may see the files they are in.

    Expressions stay as they are written: what they come to is only known when a pipeline runs. With `fetch`
    the files that lie elsewhere are there too, as they are now.
    """
    rows, scope = found.sources(kinds), scope_of(found)
    if fetch is not None:
        rows = fetch(found, rows, scope, reader)
    return [
        one
        for kind in kinds
        if (alike := tuple(row for row in rows if row["kind"] == kind))
        for one in _of_kind(found, reader, kind, alike, scope)
    ]


def merged_in_sight(kind: str, rows: Sequence[Row], scope: Scope, reader: Principal) -> tuple[Merged, ...]:
    """Merge the manifests of a kind; none where they lie elsewhere, cannot be read, or not by this reader."""
    if not rows or any(is_wanting(row) for row in rows):
        return ()
    try:
        _refuse_unseen(rows, scope, reader)
        return combined(kind, read_layers(kind, rows, scope))
    except (StoreError, FileMissing, BadDocument):
        return ()


def scope_of(found: Overridden) -> Scope:
    """From where the paths of files are seen: the deeper one of the service's and the environment's scope."""
    return deeper(found.service.scope, found.environment.scope)


def _of_kind(
    found: Overridden, reader: Principal, kind: str, rows: tuple[Row, ...], scope: Scope
) -> list[CountingManifest]:
    if rows[0]["store"] == TASK_DEFINITION_ARN:
        said = "; ".join(found.conflicts)
        return [CountingManifest(kind, rows[:1], arn=rows[0]["content"], trouble=said)]
    if troubles := [str(row["trouble"]) for row in rows if row.get("trouble")]:
        return [CountingManifest(kind, rows, trouble=" ".join(dict.fromkeys(troubles)))]
    if waits := [str(row["waits"]) for row in rows if row.get("waits")]:
        return [CountingManifest(kind, rows, waits=" ".join(dict.fromkeys(waits)))]
    if remote := [words_of(row) for row in rows if is_wanting(row)]:
        return [CountingManifest(kind, rows, elsewhere=" and ".join(dict.fromkeys(remote)))]
    try:
        _refuse_unseen(rows, scope, reader)
        several = combined(kind, read_layers(kind, rows, scope))
    except (StoreError, FileMissing) as missing:
        return [CountingManifest(kind, rows, trouble=str(missing))]
    except BadDocument as bad:
        place = ManifestProblem(bad.name, "document", bad.line, bad.message, bad.column)
        return [CountingManifest(kind, rows, trouble=str(bad), broken=place)]
    return [
        CountingManifest(kind, _rows_of(one, rows), one, check_manifest(kind, one.document))
        for one in several
    ]


def _rows_of(one: Merged, rows: Sequence[Row]) -> tuple[Row, ...]:
    used = {(layer.level, layer.identifier) for layer in one.layers}
    return tuple(row for row in rows if (row["level"], row["identifier"]) in used)


def _refuse_unseen(rows: Sequence[dict[str, Any]], scope: Scope, reader: Principal) -> None:
    """Whoever may see a service may not see every file that it refers to."""
    for row in rows:
        for path in row["paths"] if row["store"] == "FileStore" else ():
            if not can(reader, "core_file_view", owner_of(scope, path)):
                raise StoreError(
                    f"You may not see the file {path} of the manifest {row['identifier']}: ask for a role "
                    "with core_file_view where it lies."
                )
