"""Effect of alarms of CloudWatch on executions that watch them: the next check comes at once."""

from collections.abc import Sequence
from datetime import datetime

from delegates.event_queues.coverage import CoveredReads, QueueCoverage, select_covered
from delegates.event_queues.events import AlarmEvent, AwsEvent
from deployments.models import ActionRun, Execution
from steps.states import ActionState

# Parameter of the actions that watch alarms.
_ALARMS = "alarms"


def record_alarms(coverage: QueueCoverage, events: Sequence[AwsEvent], now: datetime) -> bool:
    """Make the checks of executions due that watch one of these alarms; return whether there are any.

    An event decides nothing: the check reads the alarm.
    """
    names = {event.alarm for event in events if isinstance(event, AlarmEvent)}
    if not names:
        return False
    actions = ActionRun.objects.filter(
        state=ActionState.STARTED,
        step__stage__execution__due_at__gt=now,
        step__stage__region=coverage.region,
        parameters__has_key=_ALARMS,
    ).select_related("step__stage__execution__scope")
    reads = {
        action.step.stage.execution_id: _build_reads(action)
        for action in actions
        if names & set(action.parameters[_ALARMS])
    }
    covered = select_covered(list(reads.values()), [coverage])
    watching = [pk for pk, read in reads.items() if read in covered]
    rows = Execution.objects.filter(pk__in=watching, due_at__gt=now)
    return rows.update(due_at=now, dispatch_backoff_until=None) > 0


def _build_reads(action: ActionRun) -> CoveredReads:
    stage = action.step.stage
    return CoveredReads(stage.connector_id, stage.execution.scope.path, stage.account, stage.region)
