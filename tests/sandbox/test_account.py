"""The account survives a restart, and time does as it is told."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError

import pytest

from sandbox.process import SandboxProcess, start_sandbox
from tests.contract.endpoint import Aws
from tests.fixtures.processes import wait_until

Start = Callable[..., Aws]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts sandboxes that keep their state in the same folder."""
    with ExitStack() as stack:

        def start_account(*, paused: bool = True, speed: float = 1.0) -> Aws:
            process = start_sandbox(paused=paused, speed=speed, state=tmp_path)
            stack.callback(process.kill)
            return Aws.pretend(process)

        yield start_account


def test_a_deployment_goes_on_where_a_restart_interrupted_it(start: Start) -> None:
    aws = start()
    aws.create()
    aws.advance(90)
    new = aws.roll("v2")["deployments"][0]["id"]
    aws.advance(10)
    events, tasks, last = aws.events(), aws.tasks(), aws.sandbox.last_number()
    load_balancer = aws.client("elbv2").create_load_balancer(Name="lb", Subnets=list(aws.endpoint.subnets))
    aws.sandbox.stop()

    account = start()
    assert account.sandbox.seed()["subnets"] == list(aws.endpoint.subnets)
    assert account.events() == events
    assert [t["taskArn"] for t in account.tasks()] == [t["taskArn"] for t in tasks]
    assert account.sandbox.journal()[-1]["number"] > last
    balancers = account.client("elbv2").describe_load_balancers(Names=["lb"])["LoadBalancers"]
    assert [b["LoadBalancerArn"] for b in balancers] == [
        b["LoadBalancerArn"] for b in load_balancer["LoadBalancers"]
    ]
    account.advance(90)
    (deployment,) = account.service()["deployments"]
    assert (deployment["id"], deployment["rolloutState"]) == (new, "COMPLETED")
    assert revision_of(account.register("v3")) == 3


def revision_of(arn: str) -> int:
    return int(arn.rpartition(":")[2])


def test_a_killed_account_has_every_write_that_it_answered(start: Start) -> None:
    aws = start()
    aws.create()
    for count in (5, 6):
        aws.update(desiredCount=count)
        aws.sandbox.kill()
        aws = start()
        assert aws.service()["desiredCount"] == count


@pytest.mark.parametrize("content", [b"not a pickle", b"\x80\xff of no protocol"])
def test_a_state_of_another_version_is_left_aside(
    start: Start, tmp_path: Path, capfd: pytest.CaptureFixture[str], content: bytes
) -> None:
    file = tmp_path / "sandbox.state"
    file.write_bytes(content)
    aws = start()
    assert "starting empty" in capfd.readouterr().err
    assert (tmp_path / "sandbox.discarded").read_bytes() == content
    aws.create()


def test_an_account_that_could_not_be_saved_is_saved_later(
    start: Start, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    aws = start()
    aws.create()
    aws.advance(1)
    saved = aws.sandbox.control("GET", "health")["saved"]
    (tmp_path / "sandbox.draft").mkdir()
    aws.advance(30)
    wait_until(lambda: "not saved" in capfd.readouterr().err, "the save that fails", 30)
    (tmp_path / "sandbox.draft").rmdir()

    wait_until(lambda: aws.sandbox.control("GET", "health")["saved"] > saved, "the next save", 30)


def test_the_ids_of_the_seed_are_the_same_every_time(aws: Aws, sandbox_process: SandboxProcess) -> None:
    before = sandbox_process.seed()
    sandbox_process.reset()
    assert sandbox_process.seed() == before
    assert before["cluster"] == "demo"
    role_arn = aws.client("iam").get_role(RoleName="ecsTaskExecutionRole")["Role"]["Arn"]
    assert role_arn == aws.endpoint.execution_role_arn


def test_a_reset_empties_the_account(aws: Aws, sandbox_process: SandboxProcess) -> None:
    aws.create()
    sandbox_process.reset()
    assert aws.ecs.list_services(cluster="demo")["serviceArns"] == []
    assert aws.ecs.list_task_definitions()["taskDefinitionArns"] == []
    assert sandbox_process.control("GET", "clock")["elapsed"] == 0


def test_time_stands_until_it_is_moved(aws: Aws) -> None:
    before = aws.sandbox.control("GET", "clock")
    assert before["paused"] is True
    aws.advance(2.5)
    assert aws.sandbox.control("GET", "clock")["elapsed"] == before["elapsed"] + 2.5


def test_time_runs_as_fast_as_it_is_told(aws: Aws) -> None:
    aws.create()
    aws.sandbox.control("POST", "clock", {"speed": 500, "paused": False})
    try:
        while aws.service()["deployments"][0]["rolloutState"] != "COMPLETED":
            pass
    finally:
        aws.sandbox.control("POST", "clock", {"speed": 1, "paused": True})


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "moon", None, 404),
        ("POST", "clock", {"advance": -1}, 400),
        ("POST", "clock", {"advance": "soon"}, 400),
        ("GET", "journal?after=x", None, 400),
    ],
)
def test_the_control_api_says_what_is_wrong(
    aws: Aws, method: str, path: str, body: dict[str, object] | None, status: int
) -> None:
    with pytest.raises(HTTPError) as caught:
        aws.sandbox.control(method, path, body)
    with caught.value as answer:
        assert answer.code == status
        assert json.load(answer)["error"]


def test_health_answers(aws: Aws) -> None:
    assert aws.sandbox.control("GET", "health")["status"] == "ok"
