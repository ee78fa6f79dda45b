"""Effective manifests of a service in an environment: merged, with the source of each value, and checked."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.manifests.checks import CheckedManifest, ManifestProblem, check_manifest
from catalog.manifests.documents import BadDocument
from catalog.manifests.layers import MergedDocument, merge_layers_of_kind
from catalog.manifests.locations import describe_location, is_unfetched, read_layers
from catalog.manifests.stores import TASK_DEFINITION_ARN, StoreError, get_store
from catalog.models import Manifest
from catalog.overrides.override_sets import ManifestRow, ServiceOverrideSet, get_deeper_scope
from connectors.file_store import FileNotInStore
from rbac.models import Scope, User
from rbac.policy import Principal

RowFetcher = Callable[[ServiceOverrideSet, list[ManifestRow], Scope, User], list[ManifestRow]]
"""Fetches the files of manifests that lie elsewhere, for somebody."""


@dataclass(frozen=True)
class BlockingProblem:
    """A reason that blocks a deployment; `problem` is None if it has no position."""

    kind: str
    text: str
    problem: ManifestProblem | None = None


@dataclass(frozen=True)
class EffectiveManifest:
    """An effective manifest.

    `rows` are its source manifests, weakest first; `arn` is set for an existing task definition, `error` if
    nothing could be merged, with its `error_location`. `unfetched_location` is set if files were not fetched,
    `lookup_status` while a delegate fetches them.
    """

    kind: str
    rows: tuple[ManifestRow, ...]
    merged: MergedDocument | None = None
    checked: CheckedManifest | None = None
    arn: str = ""
    error: str = ""
    error_location: ManifestProblem | None = None
    unfetched_location: str = ""
    lookup_status: str = ""

    @property
    def problems(self) -> tuple[ManifestProblem, ...]:
        return self.checked.problems if self.checked else ()

    @property
    def warnings(self) -> tuple[ManifestProblem, ...]:
        return self.checked.warnings if self.checked else ()

    @property
    def blocking_problems(self) -> tuple[BlockingProblem, ...]:
        """Return all problems that block a deployment."""
        if self.error:
            return (BlockingProblem(self.kind, self.error, self.error_location),)
        return tuple(BlockingProblem(self.kind, str(problem), problem) for problem in self.problems)


def list_effective_manifests(
    override_set: ServiceOverrideSet,
    reader: User,
    kinds: Collection[str] = Manifest.Kind.values,
    *,
    fetch: RowFetcher | None = None,
) -> list[EffectiveManifest]:
    """Return the effective manifests, limited to files that the reader may view.

    Expressions stay unresolved, because only a run has their values. With `fetch` remote files are
    fetched in their current state.
    """
    rows, scope = override_set.list_rows(kinds), get_file_scope(override_set)
    if fetch is not None:
        rows = fetch(override_set, rows, scope, reader)
    return [
        manifest
        for kind in kinds
        if (rows_of_kind := tuple(row for row in rows if row["kind"] == kind))
        for manifest in _build_manifests_of_kind(override_set, reader, kind, rows_of_kind, scope)
    ]


def merge_visible_manifests(
    kind: str, rows: Sequence[ManifestRow], scope: Scope, reader: Principal
) -> tuple[MergedDocument, ...]:
    """Merge the manifests of a kind; none if they are remote, unreadable, or hidden from this reader."""
    if not rows or any(is_unfetched(row) for row in rows):
        return ()
    try:
        _require_visible_files(rows, scope, reader)
        return merge_layers_of_kind(kind, read_layers(kind, rows, scope))
    except (StoreError, FileNotInStore, BadDocument):
        return ()


def get_file_scope(override_set: ServiceOverrideSet) -> Scope:
    """Return the scope for file references: the deeper one of the service's and the environment's scope."""
    return get_deeper_scope(override_set.service.scope, override_set.environment.scope)


def _build_manifests_of_kind(
    override_set: ServiceOverrideSet,
    reader: Principal,
    kind: str,
    rows: tuple[ManifestRow, ...],
    scope: Scope,
) -> list[EffectiveManifest]:
    if rows[0]["store"] == TASK_DEFINITION_ARN:
        conflicts = "; ".join(override_set.conflicts)
        return [EffectiveManifest(kind, rows[:1], arn=rows[0]["content"], error=conflicts)]
    if troubles := [str(row["trouble"]) for row in rows if row.get("trouble")]:
        return [EffectiveManifest(kind, rows, error=" ".join(dict.fromkeys(troubles)))]
    if waits := [str(row["waits"]) for row in rows if row.get("waits")]:
        return [EffectiveManifest(kind, rows, lookup_status=" ".join(dict.fromkeys(waits)))]
    if remote := [describe_location(row) for row in rows if is_unfetched(row)]:
        return [EffectiveManifest(kind, rows, unfetched_location=" and ".join(dict.fromkeys(remote)))]
    try:
        _require_visible_files(rows, scope, reader)
        several = merge_layers_of_kind(kind, read_layers(kind, rows, scope))
    except (StoreError, FileNotInStore) as missing:
        return [EffectiveManifest(kind, rows, error=str(missing))]
    except BadDocument as error:
        place = ManifestProblem(error.name, "document", error.line, error.message, error.column)
        return [EffectiveManifest(kind, rows, error=str(error), error_location=place)]
    return [
        EffectiveManifest(
            kind, _filter_used_rows(merged, rows), merged, check_manifest(kind, merged.document)
        )
        for merged in several
    ]


def _filter_used_rows(merged: MergedDocument, rows: Sequence[ManifestRow]) -> tuple[ManifestRow, ...]:
    used = {(layer.level, layer.identifier) for layer in merged.layers}
    return tuple(row for row in rows if (row["level"], row["identifier"]) in used)


def _require_visible_files(rows: Sequence[dict[str, Any]], scope: Scope, reader: Principal) -> None:
    """Require view access to the files; access to a service does not imply it."""
    for row in rows:
        for path in row["paths"]:
            if denied := get_store(row["store"]).describe_denied_path(path, scope, reader):
                raise StoreError(
                    f"{denied} of the manifest {row['identifier']}: ask for a role with core_file_view "
                    "in the scope of the file."
                )
