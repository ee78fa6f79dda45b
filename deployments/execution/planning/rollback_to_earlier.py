"""Rollback to an earlier run: its manifests as fetched then, its image by digest."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.manifests.fetching import AS_OF, NOT_KEPT, is_versioned
from catalog.manifests.stores import INLINE, StoreError, get_store
from deployments.execution.planning.stored_inputs import list_deleted_texts, store_texts
from deployments.models import Execution, StageExecution, StepExecution
from pipelines.definition.step_manifests import list_frozen_sources
from steps.expressions import has_expression

# Fields of the replaying run itself.
_RUN_VALUES = ("pipeline", "stage", "infra")
EarlierRow = Mapping[str, Any]


def list_own_manifests(stage: StageExecution) -> dict[str, dict[str, EarlierRow]]:
    """Return the step manifests of the earlier run, by step and by field of its spec."""
    then = _get_earlier_stage(stage)
    if then is None:
        return {}
    return {
        step.identifier: {
            field: mark_earlier_run(row, then.execution) for field, row in list_read_manifests(step).items()
        }
        for step in then.steps.all()
    }


def apply_earlier_run(execution: Execution, earlier: Execution) -> None:
    """Make a planned run deploy an earlier one's version: its stored manifests, its image by digest.

    Name and target of the run stay as planned.
    """
    for stage in execution.stages.all():
        if old := _get_earlier_stage(stage):
            stage.sources = store_texts(stage, (mark_earlier_run(row, old.execution) for row in old.sources))
            stage.values = {
                **stage.values,
                **old.values,
                **{name: stage.values[name] for name in _RUN_VALUES},
            }
            stage.save(update_fields=["sources", "values"])
    execution.artifact = earlier.artifact
    execution.save(update_fields=["artifact"])


def mark_earlier_run(row: EarlierRow, earlier: Execution) -> dict[str, Any]:
    """Return a manifest of an earlier run, with the number of the run that has fetched it."""
    if row.get("texts"):
        # That another one before had not kept them is of no matter any more.
        row = {name: value for name, value in row.items() if name != NOT_KEPT}
        return {**row, AS_OF: row.get(AS_OF, earlier.number)}
    # A run from before texts were kept.
    return {**row, NOT_KEPT: earlier.number} if is_versioned(row) else dict(row)


@dataclass(frozen=True)
class EarlierManifests:
    """Manifests of an earlier run by identifier: those that are gone, and those used as they are now."""

    missing: tuple[str, ...] = ()
    unstored: tuple[str, ...] = ()


def find_earlier_manifests(earlier: Execution) -> EarlierManifests:
    """Return the manifests that a run like `earlier` could not read, or would not read as it did.

    Three queries, and one for each place of a manifest from before texts were kept.
    """
    rows: list[EarlierRow] = []
    for stage in earlier.stages.prefetch_related("steps"):
        rows += stage.sources
        rows += [row for step in stage.steps.all() for row in list_frozen_sources(step.type, step.spec)]
    deleted = list_deleted_texts(rows)
    unstored = [row for row in rows if not row.get("texts") and is_versioned(row) and row["paths"]]
    places = {(row["store"], *row["paths"]): row for row in unstored}
    unreadable_places = {place for place, row in places.items() if not _is_readable(row, earlier)}
    unreadable = [row for row in unstored if (row["store"], *row["paths"]) in unreadable_places]
    return EarlierManifests(
        tuple(_list_identifiers([*deleted, *unreadable])),
        tuple(_list_identifiers(row for row in unstored if row not in unreadable)),
    )


def _is_readable(row: EarlierRow, earlier: Execution) -> bool:
    if any(has_expression(str(path)) for path in row["paths"]):
        return True
    try:
        return bool(list(get_store(row["store"]).read_files(row, earlier.scope)))
    except StoreError:
        return False


def _list_identifiers(rows: Iterable[EarlierRow]) -> Iterator[str]:
    yield from dict.fromkeys(str(row["identifier"]) for row in rows)


def _get_earlier_stage(stage: StageExecution) -> StageExecution | None:
    """Return the stage to roll back to, or None."""
    earlier = stage.execution.rerun_of
    if earlier is None:
        return None
    return earlier.stages.filter(identifier=stage.identifier).select_related("execution").first()


def list_read_manifests(step: StepExecution) -> dict[str, EarlierRow]:
    """Return the step's own manifests whose texts a run has read, by field of its spec."""
    rows: Iterable[EarlierRow] = list_frozen_sources(step.type, step.spec)
    return {row["identifier"]: row for row in rows if row.get("texts") and row["store"] != INLINE}
