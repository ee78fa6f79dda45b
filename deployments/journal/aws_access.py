"""AWS access of the engine: boto3 in this process, or a delegate task for each call."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from aws.caller import Caller
from connectors.models import Connector
from delegates.access import aws_access
from delegates.models import DelegateTask
from delegates.operations.tasks import TASK_TIMEOUT, submit_task
from deployments.journal import recent_reads
from deployments.models import AwsCall, StepExecution
from steps.states import TERMINAL_STATUSES
from web.clock import get_database_time

# The name under which `delegated.CallOwner` hears of the tasks.
CALL_OWNER = "call"
CALL_SECONDS = 60
# Credentials stay with their account; this only bounds how long a process believes a wrong answer.
IDENTITY_SECONDS: Final = 600.0
MOST_CACHED_IDENTITIES: Final = 256
_identities: dict[Caller, tuple[float, dict[str, Any]]] = {}


@dataclass(frozen=True)
class CallSelectors:
    """The tags that a delegate must have, and who asked for them."""

    tags: tuple[str, ...]
    place: str


@dataclass(frozen=True)
class InProcessAwsAccess:
    """Calls from this process: the account is asked once for its credentials, scalable targets are shared."""

    caller: Caller
    connector: Connector
    region: str

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of AWS, of GetCallerIdentity the one that these credentials got before."""
        if operation == "GetCallerIdentity":
            return self._identity(service, operation, params)
        if operation != "DescribeScalableTargets":
            return self.caller.call(service, operation, params)
        begun = get_database_time()
        answer = self.caller.call(service, operation, params)
        recent_reads.publish_targets(self.connector, self.region, params, answer, begun=begun)
        return answer

    def _identity(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        known = _identities.get(self.caller)
        if known is None or known[0] < time.monotonic():
            answer = self.caller.call(service, operation, params)
            if len(_identities) >= MOST_CACHED_IDENTITIES:
                _identities.clear()
            known = _identities[self.caller] = time.monotonic() + IDENTITY_SECONDS, answer
        return dict(known[1])


@dataclass(frozen=True)
class DelegateTaskAwsAccess:
    """The engine's way to AWS through delegates."""

    way: aws_access.DelegateAwsAccess

    def queue(self, call_id: int) -> None:
        """Make the planned call a delegate task; inside the commit that plans it."""
        call = AwsCall.objects.select_related("step__stage", "execution__scope").get(pk=call_id)
        stage, asked = call.step.stage, get_call_selectors(call.step, self.way.selectors)
        task = submit_task(
            scope=call.execution.scope,
            kind=DelegateTask.Kind.AWS,
            title=f"{call.service}:{call.operation} for {call.execution}",
            payload={"service": call.service, "operation": call.operation, "region": self.way.region},
            owner=CALL_OWNER,
            owner_ref=str(call.pk),
            is_write=call.is_write,
            repeatable=not call.is_write,
            selectors=asked.tags,
            selectors_from=asked.place,
            criterion=self.way.criterion(call.service),
            aws_account=stage.account if self.way.uses_own_credentials else "",
            environment=stage.environment,
            connector=self.way.connector,
            timeout_seconds=CALL_SECONDS,
            deadline=get_call_deadline(call),
        )
        AwsCall.objects.filter(pk=call.pk).update(task=task)


def open_engine_access(connector: Connector, region: str) -> InProcessAwsAccess | DelegateTaskAwsAccess:
    """Open AWS access for a connector and region; raises like `delegates.access.aws_access`."""
    found = aws_access.open_aws_access(connector, region)
    if isinstance(found, aws_access.DelegateAwsAccess):
        return DelegateTaskAwsAccess(found)
    return InProcessAwsAccess(found, connector, region)


def get_call_selectors(step: StepExecution, of_connector: tuple[str, ...]) -> CallSelectors:
    """Return the step's, the stage's or the pipeline's tags; the connector's where none of them names any."""
    if step.delegate_selectors:
        return CallSelectors(tuple(step.delegate_selectors), step.selectors_from)
    return CallSelectors(of_connector, "CONNECTOR" if of_connector else "")


def get_call_deadline(call: AwsCall) -> datetime:
    """Return when the step that waits for the call runs out of time; an undo has its rollback step's."""
    patience = get_database_time() + TASK_TIMEOUT
    if not call.execution.rolling_back:
        return call.step.timeout_at or patience
    rollback = StepExecution.objects.filter(stage=call.step.stage, section=StepExecution.Section.ROLLBACK)
    under_way = rollback.exclude(started_at=None).exclude(status__in=TERMINAL_STATUSES)
    return under_way.order_by("position").values_list("timeout_at", flat=True).first() or patience
