"""Pipeline: the end of a run of another pipeline."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from pipelines.models import Pipeline, Trigger, TriggerFiring
from pipelines.tasks import request_firings
from pipelines.triggers.base import Check, Setting, TriggerEvent, TriggerKind
from pipelines.triggers.events import record_event
from pipelines.triggers.registry import register_kind
from rbac.models import User
from rbac.policy import can
from web.http.problems import BadInput

PIPELINE, RESULT = "pipeline", "result"
SUCCEEDED, FAILED, ABORTED, ANY = "succeeded", "failed", "aborted", "any"
_VIEW: Final = "core_pipeline_view"


@dataclass(frozen=True)
class PipelineEnd:
    """End of an execution; `result` is one of succeeded, failed and aborted. A retried one may end again."""

    pipeline: Pipeline
    execution_id: UUID
    number: int
    result: str
    tag: str
    inputs: Mapping[str, Any]
    ended_at: datetime | None


@register_kind
class PipelineTrigger(TriggerKind):
    """Runs in a row. A pipeline runs once in each row, so that no two start each other for ever."""

    identifier = "pipeline"
    title = "Another pipeline"
    description = "when a run of another pipeline ends"
    settings = (
        Setting(PIPELINE, "Pipeline", "Identifier of a pipeline in the same scope.", is_required=True),
        Setting(
            RESULT,
            "Result",
            "Failed includes runs that were rolled back.",
            choices=(
                (SUCCEEDED, "Succeeded"),
                (FAILED, "Failed"),
                (ABORTED, "Aborted"),
                (ANY, "Any"),
            ),
            default=SUCCEEDED,
        ),
    )
    values = {
        "pipeline": "Identifier of the pipeline that ended",
        "number": "Number of its execution",
        "result": "succeeded, failed or aborted",
        "tag": "Image tag that it deployed",
    }
    sample_payload = '{\n  "number": 12,\n  "result": "succeeded",\n  "tag": "v1.2.3",\n  "inputs": {}\n}'

    def list_reference_problems(
        self, spec: Mapping[str, Any], pipeline: Pipeline, actor: User
    ) -> Iterator[dict[str, str]]:
        """Yield why the pipeline that is named cannot be followed."""
        source = Pipeline.objects.filter(scope=pipeline.scope_id, identifier=spec.get(PIPELINE, "")).first()
        message = ""
        if source is None or not can(actor, _VIEW, source):
            message = f"There is no pipeline {spec.get(PIPELINE)} in this scope, or you cannot view it."
        elif source.pk == pipeline.pk:
            message = "A pipeline cannot follow itself."
        if message:
            yield {"path": f"spec.{PIPELINE}", "message": message}

    def read_events(
        self, spec: Mapping[str, Any], payload: Any, headers: Mapping[str, str]
    ) -> list[TriggerEvent]:
        """Return the event of a payload that a person enters for a trial."""
        result, tag, number = (payload.get(name) for name in ("result", "tag", "number"))
        if result not in (SUCCEEDED, FAILED, ABORTED) or not isinstance(tag, str):
            raise BadInput('The payload needs result ("succeeded", "failed" or "aborted") and tag.')
        values = {"pipeline": spec.get(PIPELINE, ""), "number": number, "result": result, "tag": tag}
        return [TriggerEvent("trial", "trial", _summarize(values), values, payload)]

    def list_checks(self, spec: Mapping[str, Any], values: Mapping[str, Any], payload: Any) -> list[Check]:
        """Return the checks of the result, and of the row of pipelines that led here."""
        wanted, result = spec.get(RESULT, SUCCEEDED), values.get("result")
        is_wanted = wanted in (ANY, result)
        loop = values.get("loop", "")
        return [
            Check(f"Result is {wanted}", "" if is_wanted else f"It is {result}."),
            Check(
                "The pipeline has not run in this row yet",
                f"They would start each other: {loop}." if loop else "",
            ),
        ]


def record_pipeline_end(end: PipelineEnd) -> None:
    """Write the events of an end for the triggers that follow its pipeline, in its transaction.

    Without such a trigger, one query is all.
    """
    # Locked, so that none is deleted before the transaction ends.
    rows = Trigger.objects.select_for_update(of=("self",), no_key=True).filter(
        kind=PipelineTrigger.identifier,
        is_enabled=True,
        pipeline__scope=end.pipeline.scope_id,
        pipeline__deleted_at=None,
        **{f"spec__{PIPELINE}": end.pipeline.identifier},
    )
    triggers = list(rows.select_related("pipeline"))
    if not triggers:
        return
    earlier = TriggerFiring.objects.filter(execution_id=end.execution_id).values_list("values", flat=True)
    row = [*(earlier.first() or {}).get("row", []), end.pipeline.identifier]
    for trigger in triggers:
        record_event(trigger, _build_event(end, row, trigger.pipeline))
    transaction.on_commit(request_firings, robust=True)


def _build_event(end: PipelineEnd, row: list[str], follower: Pipeline) -> TriggerEvent:
    values = {
        "pipeline": end.pipeline.identifier,
        "execution": str(end.execution_id),
        "number": end.number,
        "result": end.result,
        "tag": end.tag,
        "row": row,
        "loop": " → ".join([*row, follower.identifier]) if follower.identifier in row else "",
    }
    # By the time too: an execution that is retried may fail a second time.
    ended_at = end.ended_at.isoformat() if end.ended_at else ""
    key = f"execution:{end.execution_id}:{end.result}:{ended_at}"
    payload = {"number": end.number, "result": end.result, "tag": end.tag, "inputs": dict(end.inputs)}
    return TriggerEvent(key, key, _summarize(values), values, payload)


def _summarize(values: Mapping[str, Any]) -> str:
    return f"{values['pipeline']} #{values['number']} {values['result']}"
