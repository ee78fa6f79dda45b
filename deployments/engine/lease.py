"""Lease and fencing token, which let one worker reconcile an execution at a time."""

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
    """Loss of the lease to another worker; the uncommitted changes are rolled back."""


@dataclass(frozen=True)
class Lease:
    """Right of one worker to reconcile one execution, for at most a minute (rules 2 and 3)."""

    execution_id: UUID
    fence: int
    runtime: EngineRuntime
    claimed: float
    expires_at: datetime
    execution: Execution = field(repr=False, compare=False)
    """State at the time of the claim."""

    def publish_changes(self) -> None:
        """Publish that the execution has changed; after a commit."""
        publish_log(self.execution_id, {"type": "state.changed"})
        publish_change("executions", self.execution_id)

    def is_pass_over(self) -> bool:
        """Return whether this reconcile pass has used up its thirty seconds."""
        return self.runtime.monotonic() - self.claimed >= PASS_SECONDS

    def has_time_to_write(self) -> bool:
        """Return whether enough time of the lease is left to start a write."""
        remaining = LEASE_DURATION.total_seconds() - (self.runtime.monotonic() - self.claimed)
        return remaining >= WRITE_NEEDS_SECONDS

    def build_release_columns(
        self, next_due_at: datetime | None, service_wait: ServiceWait | None
    ) -> dict[str, Any]:
        """Return the columns that release the lease. A wake during the pass keeps its earlier time."""
        due_at = Case(
            When(due_at__lt=self.expires_at, then=F("due_at")),
            default=next_due_at,
            output_field=Execution._meta.get_field("due_at"),
        )
        wait_columns = build_wait_columns(service_wait, unless_woken=self.expires_at)
        return {"lease_expires_at": None, "due_at": due_at, "dispatch_backoff_until": None, **wait_columns}

    def filter_owned(self) -> QuerySet[Execution]:
        """Return the execution unless another worker has claimed it."""
        return Execution.objects.filter(pk=self.execution_id, fence=self.fence)


def claim_lease(execution_id: UUID, *, owner: str, runtime: EngineRuntime) -> Lease | None:
    """Take the lease if the execution is due and nobody holds it; otherwise None."""
    # Read before the claim, so that the lease never seems to last longer than it does.
    now, claimed_at = runtime.now(), runtime.monotonic()
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
                # Reset until this pass has evaluated it: after a crash the service may be unchanged.
                observed_state="",
            )
        )
        if not claimed:
            return None
        execution = load_execution(execution_id)
    failpoint("lease.claimed")
    return Lease(execution_id, execution.fence, runtime, claimed_at, expires_at, execution)


def load_execution(execution_id: UUID) -> Execution:
    """Return an execution with annotations that save queries in a pass.

    They are: whether interrupts exist, whether a step waits for its ECS service, and whether the steps of one
    stage change several services.
    """
    interrupts = Interrupt.objects.filter(execution=OuterRef("pk"), applied_at=None)
    waiting = list_waiting_claims().filter(stage__execution=OuterRef("pk")).order_by()
    other_claims = ServiceLockClaim.objects.filter(stage__execution=OuterRef("pk")).exclude(
        ecs_service=F("stage__ecs_service")
    )
    rows = Execution.objects.select_related("scope", "pipeline").annotate(
        has_interrupts=Exists(interrupts),
        has_waiting_claims=Exists(waiting),
        changes_several_services=Exists(other_claims),
    )
    return rows.get(pk=execution_id)


def wake_execution(execution_id: UUID, now: datetime) -> None:
    """Make the execution due now; only for executions that are open or about to reopen.

    A waiting execution is reconciled immediately, whatever the state of its service.
    """
    not_due = Q(due_at__gt=now) | Q(due_at__isnull=True) | ~Q(waits_for_service="")
    Execution.objects.filter(not_due, pk=execution_id).update(
        due_at=now, dispatch_backoff_until=None, waits_for_service=""
    )


def wake_for_answer(execution_id: UUID, now: datetime) -> None:
    """Make the execution due now for the answer of a delegate; events about its service still count."""
    not_due = Q(due_at__gt=now) | Q(due_at__isnull=True) | ~Q(waits_for_service="")
    Execution.objects.filter(not_due, pk=execution_id).update(
        due_at=now, dispatch_backoff_until=None, observed_state=""
    )


ABORT_KINDS = (Interrupt.Kind.ABORT, Interrupt.Kind.ABORT_AND_ROLL_BACK)


def is_abort_requested(execution_id: Any) -> bool:
    """Return whether an abort of this execution is requested and not applied yet."""
    return Interrupt.objects.filter(execution_id=execution_id, applied_at=None, kind__in=ABORT_KINDS).exists()
