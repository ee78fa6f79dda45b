"""Messages of event queues are hostile until checked."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from delegates.event_queues.events import AlarmEvent, PushEvent, UnusableEvent, parse_event

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
ACCOUNT, REGION = "123456789012", "eu-central-1"
PREFIX = f"arn:aws:ecs:{REGION}:{ACCOUNT}"


def build_message(kind: str = "ECS Deployment State Change", **changes: Any) -> dict[str, Any]:
    """Return an event as EventBridge sends it.

    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/ecs_service_deployment_events.html
    """
    message = {
        "version": "0",
        "id": "ddca6449-b258-46c0-8653-e0e3a6d0468b",
        "detail-type": kind,
        "source": "aws.ecs",
        "account": ACCOUNT,
        "time": "2026-11-27T11:59:58Z",
        "region": REGION,
        "resources": [f"{PREFIX}:service/demo/web"],
        "detail": {"eventType": "INFO", "eventName": "SERVICE_DEPLOYMENT_COMPLETED"},
    }
    return message | changes


def build_task_message(**detail: Any) -> dict[str, Any]:
    task = {"clusterArn": f"{PREFIX}:cluster/demo", "group": "service:web", "lastStatus": "STOPPED"}
    return build_message("ECS Task State Change", resources=[f"{PREFIX}:task/demo/1"], detail=task | detail)


def parse(message: Any) -> Any:
    return parse_event(json.dumps(message), account=ACCOUNT, region=REGION, now=NOW)


def test_an_event_names_its_service_and_time() -> None:
    event = parse(build_message())
    assert (event.cluster, event.service, event.is_decisive) == ("demo", "web", True)
    assert event.at == datetime(2026, 11, 27, 11, 59, 58, tzinfo=UTC)


def test_an_old_arn_takes_the_cluster_of_the_detail() -> None:
    detail = {"clusterArn": f"{PREFIX}:cluster/demo"}
    assert parse(build_message(resources=[f"{PREFIX}:service/web"], detail=detail)).cluster == "demo"


def test_only_a_failed_task_may_decide_a_wait() -> None:
    assert not parse(build_task_message(stopCode="ServiceSchedulerInitiated")).is_decisive
    assert parse(build_task_message(stopCode="EssentialContainerExited")).is_decisive


def test_an_event_of_a_task_names_it_with_its_version() -> None:
    arn = f"{PREFIX}:task/demo/1dc5c17a"
    event = parse(build_task_message(taskArn=arn, version=4))
    assert (event.task, event.version) == (arn, 4)
    assert (parse(build_message()).task, parse(build_message()).version) == ("", 0)


@pytest.mark.parametrize("version", [None, "4", True, -1, 2**40, 1.5])
def test_an_invalid_version_is_none(version: Any) -> None:
    assert parse(build_task_message(taskArn=f"{PREFIX}:task/demo/1", version=version)).version == 0


@pytest.mark.parametrize("arn", [None, 7, "web", "arn:aws:ecs:eu-west-1:999999999999:task/demo/1"])
def test_a_task_of_elsewhere_is_left_out(arn: Any) -> None:
    event = parse(build_task_message(taskArn=arn, version=4))
    assert (event.service, event.task, event.version) == ("web", "", 0)


def test_the_begin_of_a_deployment_decides_nothing_unless_it_is_a_rollback() -> None:
    detail = {"eventName": "SERVICE_DEPLOYMENT_IN_PROGRESS", "reason": "ECS deployment in progress."}
    assert not parse(build_message(detail=detail)).is_decisive
    reason = "ECS deployment circuit breaker: rolling back to deploymentId ecs-svc/1."
    assert parse(build_message(detail=detail | {"reason": reason})).is_decisive


def build_push_message(**detail: Any) -> dict[str, Any]:
    """Return a push as ECR reports it.

    https://docs.aws.amazon.com/AmazonECR/latest/userguide/ecr-eventbridge.html
    """
    push = {"result": "SUCCESS", "repository-name": "shop/web", "action-type": "PUSH", "image-tag": "v2"}
    return build_message("ECR Image Action", source="aws.ecr", resources=[], detail=push | detail)


def test_a_push_names_its_repository() -> None:
    assert parse(build_push_message()) == PushEvent(REGION, "shop/web")


@pytest.mark.parametrize(
    "detail", [{"result": "FAILURE"}, {"action-type": "DELETE"}, {"repository-name": "a b"}]
)
def test_what_is_no_push_is_dropped(detail: dict[str, str]) -> None:
    with pytest.raises(UnusableEvent):
        parse(build_push_message(**detail))
    with pytest.raises(UnusableEvent, match="another account"):
        parse(build_push_message() | {"account": "999999999999"})


def build_alarm_message(state: Any = "ALARM", name: Any = "errors") -> dict[str, Any]:
    """Return a change of an alarm as CloudWatch reports it.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch-and-eventbridge.html
    """
    detail = {"alarmName": name, "state": {"value": state}, "previousState": {"value": "OK"}}
    return build_message("CloudWatch Alarm State Change", source="aws.cloudwatch", detail=detail)


def test_an_alarm_names_itself() -> None:
    assert parse(build_alarm_message()) == AlarmEvent(REGION, "errors")


@pytest.mark.parametrize(("state", "name"), [("OK", "errors"), (None, "errors"), ("ALARM", ""), ("ALARM", 1)])
def test_what_is_no_alarm_is_dropped(state: Any, name: Any) -> None:
    with pytest.raises(UnusableEvent):
        parse(build_alarm_message(state, name))


@pytest.mark.parametrize("time", ["2036-01-01T00:00:00Z", "2036-01-01"])
def test_no_event_is_in_the_future(time: str) -> None:
    assert parse(build_message(time=time)).at == NOW


@pytest.mark.parametrize("time", [None, "yesterday", "0001-01-01T00:00:00+14:00", "0001-01-01"])
def test_an_event_without_a_time_that_can_be_stored_is_as_old_as_can_be(time: str | None) -> None:
    assert parse(build_message(time=time)).at == datetime.fromtimestamp(0, UTC)


@pytest.mark.parametrize(
    "message",
    [
        [],
        {},
        build_message(source="aws.ecr"),
        build_message(account="999999999999"),
        build_message(account=None),
        build_message(region="eu-west-1"),
        build_message(detail=[]),
        build_message(resources=[]),
        build_message(resources="web"),
        build_message(resources=[{"arn": "web"}]),
        build_message(resources=[f"{PREFIX}:service/demo/web\n"]),
        build_message(resources=[f"{PREFIX}:service/demo/{'w' * 300}"]),
        build_message(resources=[f"{PREFIX}:service/web"]),
        build_task_message(group="family:web"),
        build_task_message(group=["service:web"]),
        build_task_message(clusterArn=7),
    ],
)
def test_what_is_no_event_of_a_service_here_is_refused(message: Any) -> None:
    with pytest.raises(UnusableEvent):
        parse(message)


@pytest.mark.parametrize("body", ["", "not json", "[" * 100_000, "x" * 300_000, '{"a": NaN'])
def test_a_text_that_is_no_document_is_refused(body: str) -> None:
    with pytest.raises(UnusableEvent):
        parse_event(body, account=ACCOUNT, region=REGION, now=NOW)
