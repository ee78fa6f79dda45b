"""Reasons why an execution waits that its rows do not have."""

from datetime import datetime

from deployments.engine.service_waits import get_rate_limit_key
from deployments.journal.rate_limits import RateLimitWait, find_rate_limit_wait
from deployments.models import Execution, StageExecution
from steps.states import TERMINAL_STATUSES
from web.work_delays import DelayCode, WorkDelay, list_installation_delays


def list_execution_delays(execution: Execution, now: datetime) -> list[WorkDelay]:
    """Return why an open execution waits: for a worker, or for a rate limit of AWS; one query and the broker.

    The document of the execution has waits for service locks, delegates and people.
    """
    if execution.is_over:
        return []
    wait = _find_wait(execution, now)
    return [*list_installation_delays(now), *([_describe_wait(wait)] if wait else [])]


def _find_wait(execution: Execution, now: datetime) -> RateLimitWait | None:
    open_stages = StageExecution.objects.filter(execution=execution).exclude(status__in=TERMINAL_STATUSES)
    stage = open_stages.select_related("connector").order_by("position").first()
    if stage is None or not stage.region:
        return None
    return find_rate_limit_wait(get_rate_limit_key(stage), holder=str(execution.pk), now=now)


def _describe_wait(wait: RateLimitWait) -> WorkDelay:
    until = f"until {wait.until:%H:%M:%S} UTC"
    rate = f" Slipway makes {wait.per_second:.3g} a second there, of a quota of {wait.quota:.3g}."
    if not wait.quota:
        rate = ""
    if wait.is_throttled:
        text = f"AWS throttled calls of this account and region: {wait.limit} pause {until}.{rate}"
        return WorkDelay(DelayCode.AWS_THROTTLED, text)
    return WorkDelay(DelayCode.AWS_RATE_LIMIT, f"Waits for an AWS rate limit: {wait.limit}, {until}.{rate}")
