"""Lease and fencing token that let one worker reconcile an execution at a time."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, When

from deployments.engine.service_waits import ServiceWait, build_wait_columns
from deployments.execution.queries import list_waiting_claims
from deployments.journal.runtime import EngineRuntime, failpoint
from deployments.log import publish_log
from deployments.models import Execution, Interrupt, ServiceLockClaim
from web.live import publish_change

LEASE_DURATION = timedelta(seconds=60)
PASS_SECONDS = 30
WRITE_NEEDS_SECONDS = 20
SEND_WITHIN_SECONDS = 5


class LeaseLostError(Exception):
    """Another worker has taken this execution over; whatever this one still wanted is rolled back."""


@dataclass(frozen=True)
class Lease:
    """One worker's right to move one execution on, for a minute at most (rules 2 and 3)."""

    execution_id: UUID
    fence: int
    runtime: EngineRuntime
    claimed: float
    expires_at: datetime
    execution: Execution = field(repr=False, compare=False)
    """As it was when it was claimed."""

    def notify_watchers(self) -> None:
        """Say that the execution has changed; after a commit."""
        publish_log(self.execution_id, {"type": "state.changed"})
        publish_change("executions", self.execution_id)

    def is_pass_over(self) -> bool:
        """Return whether this reconcile pass has used up its thirty seconds."""
        return self.runtime.monotonic() - self.claimed >= PASS_SECONDS

    def may_write(self) -> bool:
        """Return whether enough of the lease is left to begin a write."""
        left = LEASE_DURATION.total_seconds() - (self.runtime.monotonic() - self.claimed)
        return left >= WRITE_NEEDS_SECONDS

    def columns_at_release(
        self, next_due_at: datetime | None, service_wait: ServiceWait | None
    ) -> dict[str, Any]:
        """Return the columns that release the lease. A wake during the pass keeps its earlier time."""
        woken = Case(
            When(due_at__lt=self.expires_at, then=F("due_at")),
            default=next_due_at,
            output_field=Execution._meta.get_field("due_at"),
        )
        wait_columns = build_wait_columns(service_wait, unless_woken=self.expires_at)
        return {"lease_expires_at": None, "due_at": woken, "dispatch_backoff_until": None, **wait_columns}

    def still_ours(self) -> QuerySet[Execution]:
        """Return the execution while nobody else has claimed it."""
        return Execution.objects.filter(pk=self.execution_id, fence=self.fence)


def claim_lease(execution_id: UUID, *, owner: str, runtime: EngineRuntime) -> Lease | None:
    """Take the lease if the execution is due and nobody holds it; otherwise None."""
    # Before the claim: a lease must never seem to last longer than it does.
    now, began = runtime.now(), runtime.monotonic()
    expires_at = now + LEASE_DURATION
    with transaction.atomic():
        claimed = (
            Execution.objects.filter(pk=execution_id, due_at__lte=now)
            .filter(Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lte=now))
            .update(
                lease_owner=owner,
                fence=F("fence") + 1,
                lease_expires_at=expires_at,
                due_at=expires_at,
                # Until this pass has evaluated it: if its worker dies, the service may be as it was before.
                observed_state="",
            )
        )
        if not claimed:
            return None
        execution = load_execution(execution_id)
    failpoint("lease.claimed")
    return Lease(execution_id, execution.fence, runtime, began, expires_at, execution)


def load_execution(execution_id: UUID) -> Execution:
    """Return an execution with what spares a pass further questions.

    Whether people want something of it, whether a step waits for its ECS service, and whether steps of one
    stage change several.
    """
    interrupts = Interrupt.objects.filter(execution=OuterRef("pk"), applied_at=None)
    waiting = list_waiting_claims().filter(stage__execution=OuterRef("pk")).order_by()
    others = ServiceLockClaim.objects.filter(stage__execution=OuterRef("pk")).exclude(
        ecs_service=F("stage__ecs_service")
    )
    rows = Execution.objects.select_related("scope", "pipeline").annotate(
        has_interrupts=Exists(interrupts),
        has_waiting_claims=Exists(waiting),
        changes_several_services=Exists(others),
    )
    return rows.get(pk=execution_id)


def wake_execution(execution_id: UUID, now: datetime) -> None:
    """Make the execution due now; only for executions that are open or asked to reopen.

    A waiting execution is reconciled at once, whatever the state of its service.
    """
    later = Q(due_at__gt=now) | Q(due_at__isnull=True) | ~Q(waits_for_service="")
    Execution.objects.filter(later, pk=execution_id).update(
        due_at=now, dispatch_backoff_until=None, waits_for_service=""
    )


ABORT_KINDS = (Interrupt.Kind.ABORT, Interrupt.Kind.ABORT_AND_ROLL_BACK)


def is_abort_requested(execution_id: Any) -> bool:
    """Return whether an abort of this execution is requested and not applied yet."""
    return Interrupt.objects.filter(execution_id=execution_id, applied_at=None, kind__in=ABORT_KINDS).exists()
