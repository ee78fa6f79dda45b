"""Retention periods of rows of deployments."""

import contextlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import OperationalError, transaction
from django.db.models import Exists, OuterRef, QuerySet

from deployments.execution.queries import SUCCEEDED
from deployments.models import (
    AwsCall,
    AwsEvent,
    Execution,
    LogChunk,
    PreviewRequest,
    ServiceLockClaim,
    StepExecution,
    StoredPlan,
    StoredText,
    StoredTextUse,
)
from deployments.partition_pruning import drop_expired_months
from deployments.partitions import is_partitioned, maintain_partitions
from guards.limits import TRIGGER_FIRING_DAYS
from pipelines.models import TriggerFiring
from steps.states import TERMINAL_STATUSES
from web.retention import RetentionRule

# Executions have thousands of rows each, which one transaction deletes.
EXECUTIONS_PER_BATCH: Final = 20
# The others have their turn in the next prune: a Celery task has 45 seconds.
MOST_BATCHES: Final = 25
DETAIL_TABLES: Final = (LogChunk, AwsCall, AwsEvent)
# Longer than a month and a run that goes on into the next one.
MONTH_SLACK: Final = timedelta(days=62)


def filter_superseded_executions() -> QuerySet[Execution]:
    """Return the ended executions that no rollback and no attribution needs any more.

    Needed are the newest run of each pipeline; the newest deployment of each ECS service that succeeded, and
    all after it (rule 14); and an attempt whose results a running one reuses.
    """
    newer_successes = (
        ServiceLockClaim.objects.filter(
            key=OuterRef("key"),
            # Locks tell the order: who waits for an approval deploys after those created later.
            granted_at__gt=OuterRef("granted_at"),
            stage__execution__in=Execution.objects.filter(SUCCEEDED),
        )
        .exclude(stage__deployment_id="")
        .order_by()
    )
    needed_claims = ServiceLockClaim.objects.filter(
        ~Exists(newer_successes), stage__execution=OuterRef("pk"), granted_at__isnull=False
    )
    newer_runs = Execution.objects.filter(pipeline=OuterRef("pipeline"), number__gt=OuterRef("number"))
    running_attempts = Execution.objects.filter(first_attempt=OuterRef("first_attempt")).exclude(
        status__in=TERMINAL_STATUSES
    )
    later_attempts = Execution.objects.filter(first_attempt=OuterRef("pk")).exclude(
        status__in=TERMINAL_STATUSES
    )
    return Execution.objects.filter(
        ~Exists(needed_claims),
        ~Exists(running_attempts),
        ~Exists(later_attempts),
        Exists(newer_runs),
        ended_at__isnull=False,
        status__in=TERMINAL_STATUSES,
        # No rollback or retry was requested.
        due_at__isnull=True,
    )


def delete_details(execution_ids: Sequence[Any], now: datetime) -> None:
    """Delete the log, the AWS calls and the AWS events of ended executions, which stay without them."""
    with transaction.atomic():
        # First: whoever reads the execution afterwards expects no lines.
        rows = Execution.objects.filter(pk__in=execution_ids)
        # By the condition too: a retry may have been requested since they were listed.
        rows.filter(due_at__isnull=True).update(details_deleted_at=now, next_line_number=1)
        cleared = list(rows.exclude(details_deleted_at=None).values_list("pk", flat=True))
        StepExecution.objects.filter(stage__execution__in=cleared).update(first_line=None)
        for model in DETAIL_TABLES:
            model._base_manager.filter(execution__in=cleared).delete()


class DetailRetention(RetentionRule):
    """Rule for the details of executions: whole months where tables are partitioned, the rest by row.

    There, rows stay until their month has expired; those that were still needed then go one by one.
    """

    def filter_expired(self, now: datetime) -> QuerySet[Execution]:
        return super().filter_expired(now - MONTH_SLACK if is_partitioned() else now)

    def prune(self, now: datetime) -> int:
        if not is_partitioned():
            return super().prune(now)
        # Months exist ahead, so a lock that is not free now can wait for the next prune.
        with contextlib.suppress(OperationalError):
            maintain_partitions(now.date())
        # First: a month that takes too long to drop must not keep the details of others.
        pruned = super().prune(now)
        expired = super().filter_expired(now)
        return pruned + (drop_expired_months(expired, now - self.period) if self.period else 0)


PLAN_RETENTION = RetentionRule(
    "Contents of Terraform plans",
    # An execution that a restore has paused goes on with its plan, however old.
    StoredPlan.objects.exclude(content="").filter(execution__status__in=TERMINAL_STATUSES),
    "planned_at",
    timedelta(days=7),
    clear={"content": ""},
)
# A new execution may use a text again while its row is written.
TEXT_RETENTION = RetentionRule(
    "Unused manifests of executions",
    StoredText.objects.filter(~Exists(StoredTextUse.objects.filter(text=OuterRef("pk")))),
    "used_at",
    timedelta(days=1),
)
EXECUTION_RETENTION = RetentionRule(
    "Executions",
    filter_superseded_executions(),
    "ended_at",
    setting="SLIPWAY_KEEP_EXECUTIONS_DAYS",
    batch_size=EXECUTIONS_PER_BATCH,
    most_batches=MOST_BATCHES,
)
DETAIL_RETENTION = DetailRetention(
    "Logs, AWS calls and AWS events of executions",
    filter_superseded_executions().filter(details_deleted_at=None),
    "ended_at",
    setting="SLIPWAY_KEEP_EXECUTION_DETAILS_DAYS",
    batch_size=EXECUTIONS_PER_BATCH,
    most_batches=MOST_BATCHES,
    remove=delete_details,
)
EXECUTION_RETENTIONS = (EXECUTION_RETENTION, DETAIL_RETENTION)
DEPLOYMENT_RETENTION = (
    PLAN_RETENTION,
    TEXT_RETENTION,
    RetentionRule("Previews", PreviewRequest.objects.all(), "requested_at", timedelta(minutes=10)),
    RetentionRule(
        "Payloads of triggers",
        TriggerFiring.objects.filter(status=TriggerFiring.Status.STARTED).exclude(payload={}),
        "received_at",
        timedelta(days=TRIGGER_FIRING_DAYS),
        clear={"payload": {}},
    ),
    # Those that started a run are shown with their execution, as long as there is one.
    RetentionRule(
        "Firings of triggers",
        TriggerFiring.objects.exclude(status=TriggerFiring.Status.WAITING).filter(
            ~Exists(Execution.objects.filter(pk=OuterRef("execution_id")))
        ),
        "received_at",
        timedelta(days=TRIGGER_FIRING_DAYS),
    ),
)
