"""What a run that brings back an earlier one takes from it: its files as they were read then, its image."""

from collections.abc import Iterable, Mapping
from typing import Any

from catalog.manifests.fetching import AS_OF, NOT_KEPT
from catalog.manifests.stores import is_in_file_store
from deployments.kept_texts import put_away
from deployments.models import Execution, StageExecution, StepExecution
from pipelines.definition.step_manifests import frozen_sources
from pipelines.definition.step_sources import INLINE

# What a replay has of its own.
_OF_A_RUN = ("pipeline", "stage", "infra")
Row = Mapping[str, Any]


def own_of(stage: StageExecution) -> dict[str, dict[str, Row]]:
    """What the steps of the run that is brought back brought themselves, by step and by field of its spec."""
    then = _then(stage)
    if then is None:
        return {}
    return {step.identifier: _own_of(step, then.execution) for step in then.steps.all()}


def bring_back(execution: Execution, earlier: Execution) -> None:
    """Let a planned run deploy what an earlier one did: its manifests as read then, its image by digest.

    What the run is called and where it goes to stay as planned.
    """
    for stage in execution.stages.all():
        if old := _then(stage):
            stage.sources = put_away(stage, (as_then(row, old.execution) for row in old.sources))
            stage.values = {**stage.values, **old.values, **{name: stage.values[name] for name in _OF_A_RUN}}
            stage.save(update_fields=["sources", "values"])
    execution.artifact = earlier.artifact
    execution.save(update_fields=["artifact"])


def as_then(row: Row, earlier: Execution) -> dict[str, Any]:
    """A manifest of an earlier run, with the number of the run that has fetched it."""
    if row.get("texts"):
        # That another one before had not kept them is of no matter any more.
        row = {name: value for name, value in row.items() if name != NOT_KEPT}
        return {**row, AS_OF: row.get(AS_OF, earlier.number)}
    # A run from before texts were kept.
    return {**row, NOT_KEPT: earlier.number} if is_in_file_store(row) else dict(row)


def _then(stage: StageExecution) -> StageExecution | None:
    """The stage that is brought back, None where the run brings nothing back."""
    earlier = stage.execution.replays
    if earlier is None:
        return None
    return earlier.stages.filter(identifier=stage.identifier).select_related("execution").first()


def _own_of(step: StepExecution, earlier: Execution) -> dict[str, Row]:
    rows: Iterable[Row] = frozen_sources(step.type, step.spec)
    return {
        row["identifier"]: as_then(row, earlier)
        for row in rows
        if row.get("texts") and row["store"] != INLINE
    }
