"""Events of EventBridge, read from messages of a queue, and the parts that listen to them."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from delegates.event_queues.coverage import QueueCoverage
from guards.limits import EVENT_CHARACTERS

_SERVICE_ARN: Final = re.compile(
    r"arn:aws[\w-]{0,20}:ecs:[\w-]{1,40}:\d{12}:service/(?:([\w-]{1,255})/)?([\w-]{1,255})\Z", re.ASCII
)
_CLUSTER_ARN: Final = re.compile(
    r"arn:aws[\w-]{0,20}:ecs:[\w-]{1,40}:\d{12}:cluster/([\w-]{1,255})\Z", re.ASCII
)
_TASK_ARN: Final = re.compile(
    r"arn:aws[\w-]{0,20}:ecs:[\w-]{1,40}:\d{12}:task/(?:[\w-]{1,255}/)?[\w-]{1,64}\Z", re.ASCII
)
_MOST_VERSION: Final = 2**31
_GROUP: Final = re.compile(r"service:([\w-]{1,255})\Z", re.ASCII)
_ACCOUNT: Final = re.compile(r"\d{12}\Z", re.ASCII)
_TASK_CHANGE: Final = "ECS Task State Change"
_DECISIVE_TYPES: Final = (
    "ECS Deployment State Change",
    "ECS Service Action",
    "ECS Hook State Change",
)
_SOURCES: Final = ("aws.ecs", "aws.ecr", "aws.cloudwatch")
_ALARM_TYPE: Final = "CloudWatch Alarm State Change"
_ALARM_CHARACTERS: Final = 255
_PUSH_TYPE: Final = "ECR Image Action"
_REPOSITORY: Final = re.compile(r"[a-z0-9][a-z0-9._/-]{1,255}\Z", re.ASCII)
_DEPLOYMENT_BEGUN: Final = "SERVICE_DEPLOYMENT_IN_PROGRESS"
# Stops that the scheduler did not order: a deployment may have failed.
_FAILED_STOPS: Final = ("TaskFailedToStart", "EssentialContainerExited")


class UnusableEvent(Exception):
    """Error raised for a message that is no usable event of this account and region."""


@dataclass(frozen=True)
class ServiceEvent:
    """An event of ECS about one service. It may be late, repeated or out of order: reads decide."""

    account: str
    region: str
    cluster: str
    service: str
    at: datetime
    is_decisive: bool
    """Whether a wait for the service may end; otherwise a task only went on."""
    task: str = ""
    """ARN of the task that the event is about; empty for the service itself."""
    version: int = 0
    """Version of the task, which grows with each of its events."""


@dataclass(frozen=True)
class PushEvent:
    """A push to a repository of ECR. A look at the repository shows what was pushed."""

    region: str
    repository: str


@dataclass(frozen=True)
class AlarmEvent:
    """An alarm of CloudWatch that went into ALARM; a read shows its state."""

    region: str
    alarm: str


AwsEvent = ServiceEvent | PushEvent | AlarmEvent
EventListener = Callable[[QueueCoverage, Sequence[AwsEvent], datetime], None]
"""Records the effect of events of one queue, in the transaction before the deletion of their messages."""
_listeners: Final[list[EventListener]] = []


def register_event_listener(listener: EventListener) -> None:
    """Register a part that events concern."""
    if listener not in _listeners:
        _listeners.append(listener)


def notify_listeners(coverage: QueueCoverage, events: Sequence[AwsEvent], now: datetime) -> None:
    """Pass events of a queue to all listeners."""
    for listener in _listeners:
        listener(coverage, events, now)


StopListener = Callable[[QueueCoverage, datetime], None]
"""Records that no events of a queue come until it is read again."""
_stop_listeners: Final[list[StopListener]] = []


def register_stop_listener(listener: StopListener) -> None:
    """Register a part that relies on events while they come."""
    if listener not in _stop_listeners:
        _stop_listeners.append(listener)


def notify_stop_listeners(coverage: QueueCoverage, now: datetime) -> None:
    """Tell all listeners that a queue is not read any more."""
    for listener in _stop_listeners:
        listener(coverage, now)


def parse_event(body: str, *, account: str, region: str, now: datetime) -> AwsEvent:
    """Return the event in a message. Raises `UnusableEvent` with the reason.

    A message is a text of anyone who may write to the queue, so account and region have to be those of the
    connector.
    """
    document = _parse_document(body)
    if document.get("source") not in _SOURCES:
        raise UnusableEvent(f"The message is no event of {', '.join(_SOURCES)}.")
    if document.get("account") != account or not _ACCOUNT.match(account):
        raise UnusableEvent("The event is of another account than the connector.")
    if document.get("region") != region:
        raise UnusableEvent("The event is of another region than the queue.")
    detail = document.get("detail")
    if not isinstance(detail, Mapping):
        raise UnusableEvent("The event has no detail.")
    if document["source"] == "aws.ecr":
        return _parse_push(document, detail, region)
    if document["source"] == "aws.cloudwatch":
        return _parse_alarm(document, detail, region)
    kind = document.get("detail-type")
    cluster, service = _get_task_service(detail) if kind == _TASK_CHANGE else _get_service(document, detail)
    if not cluster or not service:
        raise UnusableEvent("The event names no ECS service.")
    at, is_decisive = _parse_time(document, now), _is_decisive(kind, detail)
    task, version = _get_task(detail, f":{region}:{account}:") if kind == _TASK_CHANGE else ("", 0)
    return ServiceEvent(account, region, cluster, service, at, is_decisive, task, version)


def _parse_push(document: Mapping[str, Any], detail: Mapping[str, Any], region: str) -> PushEvent:
    repository = detail.get("repository-name")
    facts = (document.get("detail-type"), detail.get("action-type"), detail.get("result"))
    if facts != (_PUSH_TYPE, "PUSH", "SUCCESS"):
        raise UnusableEvent("The event of Amazon ECR is no successful push.")
    if not isinstance(repository, str) or not _REPOSITORY.match(repository):
        raise UnusableEvent("The event names no repository.")
    return PushEvent(region, repository)


def _parse_alarm(document: Mapping[str, Any], detail: Mapping[str, Any], region: str) -> AlarmEvent:
    state, alarm = detail.get("state"), detail.get("alarmName")
    value = state.get("value") if isinstance(state, Mapping) else None
    if (document.get("detail-type"), value) != (_ALARM_TYPE, "ALARM"):
        raise UnusableEvent("The event of CloudWatch is of no alarm in ALARM.")
    if not isinstance(alarm, str) or not 0 < len(alarm) <= _ALARM_CHARACTERS:
        raise UnusableEvent("The event names no alarm.")
    return AlarmEvent(region, alarm)


def _is_decisive(kind: Any, detail: Mapping[str, Any]) -> bool:
    if detail.get("eventName") == _DEPLOYMENT_BEGUN:
        # A rollback by a circuit breaker begins with the same event.
        return "rolling back" in str(detail.get("reason"))
    return kind in _DECISIVE_TYPES or detail.get("stopCode") in _FAILED_STOPS


def _parse_document(body: str) -> Mapping[str, Any]:
    if len(body) > EVENT_CHARACTERS:
        raise UnusableEvent(f"An event must have at most {EVENT_CHARACTERS}.")
    try:
        document = json.loads(body)
    # Deep nesting ends the parser with a RecursionError.
    except (ValueError, RecursionError) as error:
        raise UnusableEvent("The message is not JSON.") from error
    if not isinstance(document, dict):
        raise UnusableEvent("The message is no JSON object.")
    return document


def _get_service(document: Mapping[str, Any], detail: Mapping[str, Any]) -> tuple[str, str]:
    resources = document.get("resources")
    first = resources[0] if isinstance(resources, list) and resources else ""
    match = _SERVICE_ARN.match(first) if isinstance(first, str) else None
    if match is None:
        return "", ""
    # An old ARN of a service does not have its cluster.
    return match[1] or _get_cluster(detail), match[2]


def _get_task_service(detail: Mapping[str, Any]) -> tuple[str, str]:
    group = detail.get("group")
    match = _GROUP.match(group) if isinstance(group, str) else None
    return _get_cluster(detail), match[1] if match else ""


def _get_task(detail: Mapping[str, Any], location: str) -> tuple[str, int]:
    """Return ARN and version of the task; both empty unless valid."""
    arn, version = detail.get("taskArn"), detail.get("version")
    if not (isinstance(arn, str) and _TASK_ARN.match(arn) and location in arn):
        return "", 0
    if not isinstance(version, int) or isinstance(version, bool) or not 0 < version < _MOST_VERSION:
        return arn, 0
    return arn, version


def _get_cluster(detail: Mapping[str, Any]) -> str:
    arn = detail.get("clusterArn")
    match = _CLUSTER_ARN.match(arn) if isinstance(arn, str) else None
    return match[1] if match else ""


def _parse_time(document: Mapping[str, Any], now: datetime) -> datetime:
    """Return the time of an event, never in the future; one without a time is as old as can be.

    A time in the first hours of year 1 could be stored, and not be read again.
    """
    oldest = datetime.fromtimestamp(0, UTC)
    try:
        at = datetime.fromisoformat(str(document.get("time")))
    except ValueError:
        return oldest
    return min(max(at if at.tzinfo else at.replace(tzinfo=UTC), oldest), now)
