"""AWS access of the engine: calls with boto3 in this process, or delegate tasks."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from aws.caller import Caller
from connectors.models import Connector
from delegates.access import aws_access
from delegates.models import DelegateTask
from delegates.operations.tasks import TASK_TIMEOUT, submit_task
from deployments.journal import recent_reads
from deployments.models import AwsCall, StageExecution, StepExecution
from steps.states import TERMINAL_STATUSES
from web.clock import get_database_time

# Name of `CallOwner` in the registry of task owners.
CALL_OWNER = "call"
CALL_SECONDS = 60
# Least time in which a delegate may take a read.
FINAL_READ_TIME: Final = timedelta(seconds=60)
# Lifetime of a cached account id; credentials keep their account, so this only limits a wrong answer.
IDENTITY_SECONDS: Final = 600.0
MOST_CACHED_IDENTITIES: Final = 256
_identities: dict[Caller, tuple[float, dict[str, Any]]] = {}


@dataclass(frozen=True)
class CallSelectors:
    """Tags that a delegate must have, and the source of the requirement."""

    tags: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class InProcessAwsAccess:
    """AWS access from this process, with a cached account id and shared reads of scalable targets."""

    caller: Caller
    connector: Connector
    region: str

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of AWS, for GetCallerIdentity from the cache."""
        if operation == "GetCallerIdentity":
            return self._get_identity(service, operation, params)
        if operation != "DescribeScalableTargets":
            return self.caller.call(service, operation, params)
        started_at = get_database_time()
        answer = self.caller.call(service, operation, params)
        recent_reads.publish_targets(self.connector, self.region, params, answer, started_at=started_at)
        return answer

    def _get_identity(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        cached = _identities.get(self.caller)
        if cached is None or cached[0] < time.monotonic():
            answer = self.caller.call(service, operation, params)
            if len(_identities) >= MOST_CACHED_IDENTITIES:
                _identities.clear()
            cached = _identities[self.caller] = time.monotonic() + IDENTITY_SECONDS, answer
        return dict(cached[1])


@dataclass(frozen=True)
class DelegateTaskAwsAccess:
    """AWS access of the engine through delegates."""

    access: aws_access.DelegateAwsAccess

    def queue(self, call_id: int) -> None:
        """Create a delegate task for the planned call; inside the commit that plans it."""
        call = AwsCall.objects.select_related("step__stage", "execution__scope").get(pk=call_id)
        stage, selectors = call.step.stage, get_call_selectors(call.step, self.access.selectors)
        task = submit_task(
            scope=call.execution.scope,
            kind=DelegateTask.Kind.AWS,
            title=f"{call.service}:{call.operation} for {call.execution}",
            payload={"service": call.service, "operation": call.operation, "region": self.access.region},
            owner=CALL_OWNER,
            owner_ref=str(call.pk),
            is_write=call.is_write,
            repeatable=not call.is_write,
            selectors=selectors.tags,
            selectors_from=selectors.source,
            criterion=self.access.criterion(call.service),
            aws_account=stage.account if self.access.uses_own_credentials else "",
            environment=stage.environment,
            connector=self.access.connector,
            excluded_delegate_id=stage.excluded_delegate_id,
            timeout_seconds=CALL_SECONDS,
            deadline=get_call_deadline(call),
        )
        AwsCall.objects.filter(pk=call.pk).update(task=task)


def open_engine_access(connector: Connector, region: str) -> InProcessAwsAccess | DelegateTaskAwsAccess:
    """Open AWS access for a connector and region; raises like `delegates.access.aws_access`."""
    access = aws_access.open_aws_access(connector, region)
    if isinstance(access, aws_access.DelegateAwsAccess):
        return DelegateTaskAwsAccess(access)
    return InProcessAwsAccess(access, connector, region)


def get_call_selectors(step: StepExecution, connector_selectors: tuple[str, ...]) -> CallSelectors:
    """Return the tags of the step, stage or pipeline, else those of the connector."""
    if step.delegate_selectors:
        return CallSelectors(tuple(step.delegate_selectors), step.selectors_from)
    return CallSelectors(connector_selectors, "CONNECTOR" if connector_selectors else "")


def get_call_deadline(call: AwsCall) -> datetime:
    """Return the timeout of the step that waits for the call; for an undo its rollback step's.

    Always-actions run after the timeout of their step, and reads of its final check or checklist shortly
    after.
    """
    now = get_database_time()
    default_deadline = now + TASK_TIMEOUT
    if call.execution.final_status:
        return default_deadline
    if call.execution.rolling_back:
        deadline = _find_rollback_timeout(call.step.stage) or default_deadline
    elif call.step.status in TERMINAL_STATUSES:
        return default_deadline
    else:
        deadline = call.step.timeout_at or default_deadline
    return deadline if call.is_write else max(deadline, now + FINAL_READ_TIME)


def _find_rollback_timeout(stage: StageExecution) -> datetime | None:
    """Return the timeout of the stage's running rollback step; None without one."""
    rollback = stage.steps.filter(section=StepExecution.Section.ROLLBACK)
    running = rollback.exclude(started_at=None).exclude(status__in=TERMINAL_STATUSES)
    return running.order_by("position").values_list("timeout_at", flat=True).first()
