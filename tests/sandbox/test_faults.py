"""Trouble on demand looks to a client like the real thing."""

import socket
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError, ReadTimeoutError

from tests.contract.endpoint import CLUSTER, PRETEND_KEY, Aws, client


@pytest.mark.parametrize(
    ("kind", "service", "code"),
    [
        ("throttle", "ecs", "ThrottlingException"),
        ("throttle", "elbv2", "Throttling"),
        ("denied", "ecs", "AccessDeniedException"),
        ("denied", "elbv2", "AccessDenied"),
        ("denied", "ec2", "UnauthorizedOperation"),
        ("error500", "ecs", "ServerException"),
    ],
)
def test_an_error_comes_in_the_protocol_of_its_service(aws: Aws, kind: str, service: str, code: str) -> None:
    operations = {"ecs": "list_clusters", "elbv2": "describe_target_groups", "ec2": "describe_subnets"}
    ask = getattr(aws.client(service), operations[service])
    aws.sandbox.fault(kind, service=service, count=1)
    with pytest.raises(ClientError) as caught:
        ask()
    assert caught.value.response["Error"]["Code"] == code
    ask()


def test_a_denial_names_the_action(aws: Aws) -> None:
    aws.sandbox.fault("denied", service="ecs", operation="UpdateService")
    aws.create()
    with pytest.raises(ClientError, match="is not authorized to perform: ecs:UpdateService on resource"):
        aws.update(desiredCount=2)
    assert aws.service()["desiredCount"] == 1


def test_a_lost_answer_has_its_effect_and_cuts_the_connection(aws: Aws) -> None:
    aws.create()
    aws.sandbox.fault("lost_answer", service="ecs", operation="UpdateService", count=1)
    with pytest.raises(ConnectionClosedError):
        aws.update(desiredCount=2)
    assert aws.service()["desiredCount"] == 2
    (entry,) = [e for e in aws.sandbox.journal() if e["operation"] == "UpdateService"]
    assert entry["effect"] is True
    assert entry["fault"] == "lost_answer"


def test_an_answer_can_be_lost_as_a_server_error(aws: Aws) -> None:
    aws.create()
    aws.sandbox.fault("lost_answer", operation="UpdateService", count=1, **{"as": "error500"})
    with pytest.raises(ClientError, match="ServerException"):
        aws.update(desiredCount=2)
    assert aws.service()["desiredCount"] == 2


def test_a_refusing_fault_changes_nothing_and_is_in_the_journal(aws: Aws) -> None:
    aws.create()
    after = aws.sandbox.last_number()
    aws.sandbox.fault("throttle", operation="UpdateService", count=1)
    with pytest.raises(ClientError):
        aws.update(desiredCount=2)
    (entry,) = aws.sandbox.journal(after)
    assert (entry["effect"], entry["error"], entry["fault"]) == (False, "ThrottlingException", "throttle")


def test_stale_reads_show_the_past_and_keep_the_present(aws: Aws) -> None:
    aws.create()
    aws.sandbox.fault("stale_reads", service="ecs", seconds=20)
    aws.update(desiredCount=3)
    assert aws.service()["desiredCount"] == 1
    aws.advance(10)
    assert aws.tasks() == []
    aws.advance(11)
    assert aws.service()["desiredCount"] == 3
    assert len(aws.tasks()) == 3


def test_a_fault_lasts_for_its_seconds_of_sandbox_time(aws: Aws) -> None:
    aws.sandbox.fault("throttle", service="ecs", seconds=5)
    for _ in range(3):
        with pytest.raises(ClientError):
            aws.ecs.list_clusters()
    aws.advance(6)
    aws.ecs.list_clusters()


def test_a_hanging_call_outlasts_the_patience_of_its_client(aws: Aws) -> None:
    ecs = client(aws.sandbox.url, "ecs", patience=0.2)
    aws.sandbox.fault("hang", operation="ListClusters", count=1, seconds=30)
    with pytest.raises(ReadTimeoutError):
        ecs.list_clusters()
    aws.create()
    aws.sandbox.clear_faults()


def test_clearing_the_faults_lets_hanging_calls_go(aws: Aws) -> None:
    caught: list[Exception] = []

    def list_clusters() -> None:
        try:
            aws.ecs.list_clusters()
        except ConnectionClosedError as exc:
            caught.append(exc)

    aws.sandbox.fault("hang", operation="ListClusters", count=1, seconds=30)
    asking = Thread(target=list_clusters)
    asking.start()
    while not [e for e in aws.sandbox.journal() if e["operation"] == "ListClusters"]:
        pass
    aws.sandbox.clear_faults()
    asking.join(60)
    assert len(caught) == 1


def test_a_closed_door_refuses_connections_for_its_real_seconds(aws: Aws) -> None:
    aws.sandbox.fault("refuse", seconds=2)
    host, port = aws.sandbox.url.rpartition("/")[2].split(":")

    def is_open() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0

    while is_open():
        pass
    with pytest.raises(EndpointConnectionError):
        client(aws.sandbox.url, "ecs").list_clusters()
    while not is_open():
        pass
    client(aws.sandbox.url, "ecs").list_clusters()


@pytest.mark.parametrize(
    "record", [{"kind": "moon"}, {"kind": "throttle", "count": -1}, {"kind": "hang", "as": 3}]
)
def test_a_fault_that_makes_no_sense_is_refused(aws: Aws, record: dict[str, Any]) -> None:
    with pytest.raises(HTTPError) as caught:
        aws.sandbox.control("POST", "faults", record)
    assert caught.value.code == 400
    caught.value.close()


def test_the_journal_numbers_every_call_and_tells_which_changed_something(aws: Aws) -> None:
    after = max((e["number"] for e in aws.sandbox.journal()), default=0)
    aws.create(clientToken="once")
    aws.service()
    with pytest.raises(ClientError):
        aws.update(taskDefinition="ghost")
    aws.update(desiredCount=1)
    aws.update(desiredCount=2)
    entries = aws.sandbox.journal(after)
    calls = [(e["operation"], e["effect"], e["error"]) for e in entries]
    assert calls == [
        ("RegisterTaskDefinition", True, ""),
        ("CreateService", True, ""),
        ("DescribeServices", False, ""),
        ("UpdateService", False, "ClientException"),
        ("UpdateService", False, ""),
        ("UpdateService", True, ""),
    ]
    numbers = [e["number"] for e in entries]
    assert numbers == list(range(numbers[0], numbers[0] + 6))
    assert entries[-1]["params"] == {"cluster": CLUSTER, "service": "myapp", "desiredCount": 2}
    assert (entries[-1]["service"], entries[-1]["region"]) == ("ecs", "us-east-1")
    assert (entries[-1]["account"], entries[-1]["key"]) == ("123456789012", PRETEND_KEY)
    aws.sandbox.reset()
    aws.ecs.list_clusters()
    assert aws.sandbox.journal()[0]["number"] == numbers[-1] + 1, "numbers go on after a reset"


def test_a_query_call_is_in_the_journal_under_its_client_name(aws: Aws) -> None:
    aws.client("elbv2").describe_load_balancers(PageSize=5)
    entry = aws.sandbox.journal()[-1]
    assert (entry["service"], entry["operation"]) == ("elbv2", "DescribeLoadBalancers")
    assert entry["params"] == {"PageSize": "5"}


def test_a_web_page_cannot_reach_the_sandbox(aws: Aws) -> None:
    for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
        request = Request(f"{aws.sandbox.url}/sandbox/reset", data=b"{}", method="POST", headers=headers)
        with pytest.raises(HTTPError) as caught:
            urlopen(request, timeout=5)
        assert caught.value.code == 403
        caught.value.close()


def test_an_error_inside_moto_is_an_answer_and_in_the_journal(aws: Aws) -> None:
    # moto looks this service up without asking whether there is one.
    with pytest.raises(ClientError, match="InternalFailure"):
        aws.ecs.delete_task_set(cluster=CLUSTER, service="ghost", taskSet="t")
    assert aws.sandbox.journal()[-1]["error"] == "InternalFailure"
