"""Each row of the page of outcomes is played: its status, its outcome, and the line that names the cause."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors.models import FileNode
from deployments.execution.operations import abort_execution, roll_back_execution
from deployments.journal.runtime import set_hook
from deployments.models import Execution, StepExecution
from tests.deployments.engine.simulator.schedule import Death
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "outcomes.md"
ROW = re.compile(
    r"^\| (?P<what>[^|]+) \| (?P<status>[A-Z_]+) \| (?P<outcome>[A-Z_]+) \| (?P<line>[^|]+) \|$", re.MULTILINE
)
SERVICE = {"cluster": "demo", "service": "myapp"}
Play = Callable[[Drive], Execution]


def deploy(tag: str) -> Play:
    """Deploy a version and wait for its end."""
    return lambda drive: drive.run(tag)


def disturb(operation: str, **params: object) -> Play:
    """Make a call from outside while a good version is deployed."""

    def play(drive: Drive) -> Execution:
        execution = drive.start("1.28")
        drive.pass_time(12)
        drive.call("ecs", operation, {**SERVICE, **params})
        # A rollback that asks a person waits for an hour.
        return drive.until_over(execution, most_seconds=5000)

    return play


def stop_new_tasks(drive: Drive) -> Execution:
    execution = drive.start("1.28")
    drive.pass_time(30)
    new = drive.service()["deployments"][0]["id"]
    for arn in drive.call("ecs", "ListTasks", {"cluster": "demo", "startedBy": new})["taskArns"]:
        drive.call("ecs", "StopTask", {"cluster": "demo", "task": arn})
    return drive.until_over(execution)


def delete_cluster(drive: Drive) -> Execution:
    execution = drive.start("1.28")
    drive.pass_time(12)
    drive.call("ecs", "DeleteService", {**SERVICE, "force": True})
    # The cluster can go once the tasks have.
    for arn in drive.call("ecs", "ListTasks", {"cluster": "demo"})["taskArns"]:
        drive.call("ecs", "StopTask", {"cluster": "demo", "task": arn})
    drive.sandbox.advance(60)
    drive.call("ecs", "DeleteCluster", {"cluster": "demo"})
    return drive.until_over(execution, most_seconds=5000)


def time_out(drive: Drive) -> Execution:
    drive.pipeline.yaml = drive.pipeline.yaml.replace("timeout: 30m", "timeout: 1m", 1)
    drive.pipeline.save(update_fields=["yaml"])
    return drive.run("slow")


def trip_breaker(drive: Drive) -> Execution:
    node = FileNode.objects.get(path="/ECS Tutorial/CreateServiceRequest.yaml")
    breaker = "deploymentConfiguration:\n  deploymentCircuitBreaker: {enable: true, rollback: true}"
    node.content = node.content.replace("deploymentConfiguration:", breaker)
    node.save()
    return drive.run("crash")


def abort(*, roll_back: bool) -> Play:
    def play(drive: Drive) -> Execution:
        execution = drive.start("1.28")
        drive.pass_time(12)
        abort_execution(actor=drive.deployer, execution=execution, roll_back=roll_back)
        return drive.until_over(execution)

    return play


def roll_back(drive: Drive) -> Execution:
    execution = drive.run("1.28")
    roll_back_execution(actor=drive.deployer, execution=execution)
    return drive.until_over(execution)


PLAYS: dict[str, Play] = {
    "the new version runs": deploy("1.28"),
    "somebody changes the count meanwhile": disturb("UpdateService", desiredCount=3),
    "somebody stops tasks meanwhile": stop_new_tasks,
    "somebody sets the count to 0": disturb("UpdateService", desiredCount=0),
    "the container crashes": deploy("crash"),
    "it crashes once ECS has called it completed": deploy("late"),
    "the image cannot be pulled": deploy("nopull"),
    "AWS says that memory ran out": deploy("oom"),
    "the container is killed, and AWS does not say why": deploy("killed"),
    "AWS takes the capacity away": deploy("spot"),
    "the step's time is over": time_out,
    "somebody else deploys": disturb("UpdateService", taskDefinition="fargate-task-definition:1"),
    "somebody forces a new deployment of the same revision": disturb(
        "UpdateService", forceNewDeployment=True
    ),
    "somebody deletes the service": disturb("DeleteService", force=True),
    "somebody deletes the cluster": delete_cluster,
    "nothing differs from the running version": lambda drive: drive.run("1.27"),
    "AWS's circuit breaker rolls back": trip_breaker,
    "a person aborts": abort(roll_back=False),
    "a person aborts and rolls back": abort(roll_back=True),
    "a person rolls a finished execution back": roll_back,
}
ROWS = [match.groupdict() for match in ROW.finditer(DOCUMENT.read_text())]


def test_every_row_is_played() -> None:
    assert [row["what"] for row in ROWS] == list(PLAYS)


@pytest.mark.parametrize("row", [pytest.param(row, id=row["what"]) for row in ROWS])
def test_it_ends_as_the_document_says(drive: Drive, row: dict[str, str]) -> None:
    drive.run("1.27")
    execution = PLAYS[row["what"]](drive)
    execution.refresh_from_db()
    assert (execution.status, execution.outcome) == (row["status"], row["outcome"])
    assert any(row["line"] in line for line in drive.log(execution)), drive.log(execution)[-20:]
    if execution.failure is not None and execution.status == "FAILED":
        assert row["line"] in execution.failure["message"]


def test_an_abort_with_rollback_behind_the_last_step_still_rolls_back(drive: Drive) -> None:
    execution = drive.start("1.27")
    commits: list[str] = []

    def abort(name: str) -> None:
        """Behind the last step, before its stage is closed: the worker dies, and a person aborts."""
        step = StepExecution.objects.filter(stage__execution=execution, identifier="ecs_rolling_deploy")
        is_between = step.filter(status="SUCCESS", stage__status="RUNNING").exists()
        if name == "commit.after" and is_between and not commits:
            commits.append(name)
            raise Death

    set_hook(abort)
    try:
        with pytest.raises(Death):
            drive.until_over(execution)
    finally:
        set_hook(None)
    abort_execution(actor=drive.deployer, execution=execution, roll_back=True)
    drive.clock.move(61)
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("ABORTED", "ROLLED_BACK"), drive.log(execution)[-5:]
    assert drive.service()["status"] != "ACTIVE"
    assert any("aborted this execution and asked for a rollback" in line for line in drive.log(execution))
