"""Records of planned and applied runs of provisioners such as Terraform."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet

from aws.errors import Undelivered
from deployments.models import (
    AppliedConfiguration,
    Execution,
    StageExecution,
    StepExecution,
    StoredPlan,
)
from steps.actions.context import AppliedRun, PlannedRun
from steps.actions.terraform import get_state_key

_NAMES = UUID("0b1f6f0e-3f0c-4c53-8f0c-6a3a4b1c2d5e")


class EngineProvisions:
    """Provisioner records of a step; changes wait for the next commit, and repeated ones are idempotent."""

    def __init__(self, step: StepExecution, attempt: int, now: Callable[[], datetime]) -> None:
        self._step, self._attempt, self._now = step, attempt, now
        self._writes: list[Callable[[], object]] = []

    @property
    def _execution(self) -> Execution:
        return self._step.stage.execution

    @property
    def _place(self) -> str:
        return _get_place(self._step.stage)

    def latest(self, identifier: str, used: Mapping[str, Any] | None = None) -> AppliedRun | None:
        return _build_run(self._filter_applied(identifier, used).order_by("-applied_at").first())

    def find_unplaced(self, identifier: str) -> AppliedRun | None:
        rows = self._filter_identifier(identifier).filter(place="", step=None)
        return _build_run(rows.order_by("-applied_at").first())

    def find(self, applied_id: str) -> AppliedRun | None:
        return _build_run(AppliedConfiguration.objects.filter(pk=applied_id).first())

    def keep(self, identifier: str, used: Mapping[str, Any]) -> str:
        key = self._get_key("applied")
        columns = {
            "scope": self._execution.scope,
            "identifier": identifier,
            "place": self._place,
            "state_key": get_state_key(used),
            "parameters": json.dumps(used),
            "step": self._step,
            "applied_by": str(self._execution)[:255],
            "applied_at": self._now(),
        }
        self._writes.append(lambda: AppliedConfiguration.objects.get_or_create(pk=key, defaults=columns))
        return str(key)

    def forget(self, identifier: str, used: Mapping[str, Any], *, after: str = "") -> None:
        rows = self._filter_applied(identifier, used)
        if after:
            applied_at = (
                AppliedConfiguration.objects.filter(pk=after).values_list("applied_at", flat=True).first()
            )
            rows = rows.filter(applied_at__gt=applied_at) if applied_at else rows.exclude(pk=after)
        now = self._now()
        self._writes.append(lambda: rows.update(removed_at=now))

    def keep_plan(self, identifier: str, used: Mapping[str, Any], content: str, *, destroys: bool) -> None:
        key = self._get_key("plan")
        columns = {
            "execution": self._execution,
            "identifier": identifier,
            "place": self._place,
            "parameters": json.dumps(used),
            "content": content,
            "destroys": destroys,
            "planned_at": self._now(),
        }
        self._writes.append(lambda: StoredPlan.objects.get_or_create(pk=key, defaults=columns))

    def plan(self, identifier: str) -> PlannedRun | None:
        places = {_get_place(stage) for stage in self._execution.stages.all()}
        # A plan of a release that recorded no place is of the only one, or of any.
        known = [self._place, ""] if len(places) == 1 else [self._place]
        rows = StoredPlan.objects.filter(execution=self._execution, identifier=identifier, place__in=known)
        row = rows.order_by("-planned_at").first()
        if row is None or not row.content:
            return None
        return PlannedRun(str(row.pk), json.loads(row.parameters), row.destroys)

    def free_plan(self, plan_id: str) -> None:
        self._writes.append(lambda: StoredPlan.objects.filter(pk=plan_id).update(content=""))

    def flush(self) -> None:
        """Write the changes; inside a fenced commit."""
        for write in self._writes:
            write()
        self._writes = []

    def _filter_identifier(self, identifier: str) -> QuerySet[AppliedConfiguration]:
        rows = AppliedConfiguration.objects.filter(scope=self._execution.scope, identifier=identifier)
        return rows.filter(removed_at=None)

    def _filter_applied(
        self, identifier: str, used: Mapping[str, Any] | None
    ) -> QuerySet[AppliedConfiguration]:
        rows = self._filter_identifier(identifier)
        state_key = get_state_key(used) if used else ""
        # Rows of releases that recorded no place have that of their step, as long as it exists.
        earlier = [
            row.pk
            for row in rows.filter(place="", step__isnull=False).select_related("step__stage")
            if row.step
            and _get_place(row.step.stage) == self._place
            and (not state_key or get_state_key(json.loads(row.parameters)) == state_key)
        ]
        placed = Q(place=self._place, state_key=state_key) if state_key else Q(place=self._place)
        return rows.filter(placed | Q(pk__in=earlier))

    def _get_key(self, kind: str) -> UUID:
        """Return the same key for a repetition of the step after a crash."""
        return uuid5(_NAMES, f"{kind} {self._step.pk} {self._step.run} {self._attempt}")


def _get_place(stage: StageExecution) -> str:
    """Return the path of the stage's environment, and its infrastructure."""
    return f"{stage.environment}/{stage.values.get('infra', {}).get('identifier', '')}"


def _build_run(row: AppliedConfiguration | None) -> AppliedRun | None:
    return None if row is None else AppliedRun(str(row.pk), json.loads(row.parameters), row.applied_by)


def read_stored_plan(plan_id: str) -> str:
    """Return the content of a stored plan, base64. Raises `Undelivered` if it expired."""
    try:
        row = StoredPlan.objects.filter(pk=plan_id).first()
    except ValidationError:
        row = None
    if row is None or not row.content:
        raise Undelivered("PLAN_GONE", "The plan is no longer kept. Run the step that plans again.")
    return str(row.content)
