"""The step that hands a service of CodeDeploy to ECS: only a steady one, once, and back on a rollback."""

from typing import Any

import pytest

from deployments.execution.operations import roll_back_execution
from deployments.journal.runtime import set_hook
from deployments.models import AwsCall
from deployments.preview.documents import PreviewDetails
from deployments.preview.operations import preview_pipeline
from tests.deployments.engine.conftest import DEPLOY, Write, pipeline_text, stage_text
from tests.deployments.engine.simulator.schedule import Death
from tests.fixtures.engine_driver import Drive
from tests.inventory.adoption.foreign_services import create_foreign_service

pytestmark = pytest.mark.django_db(transaction=True)

NAME = "legacy"
CODE_DEPLOY = {"type": "CODE_DEPLOY"}


def change_text(service: str = NAME) -> str:
    """A pipeline that changes the controller of a service, with its rollback step."""
    step = f"- step: {{identifier: take, type: EcsChangeController, spec: {{service: {service}}}}}\n"
    text = pipeline_text(stage_text(step))
    rollback = "          - step: {identifier: back_app"
    assert rollback in text
    give_back = "- step: {identifier: give_back, type: EcsChangeControllerRollback}"
    return text.replace(rollback, f"          {give_back}\n    {rollback}")


@pytest.fixture
def theirs(drive: Drive) -> Drive:
    group = drive.sandbox.seed()["load_balancer"]["target_groups"]["api1"]
    balancers = [{"targetGroupArn": group, "containerName": "web", "containerPort": 80}]
    create_foreign_service(drive, NAME, loadBalancers=balancers, deploymentController=CODE_DEPLOY)
    return drive


def get_controller(drive: Drive) -> Any:
    return drive.service(NAME)["deploymentController"]["type"]


def test_a_service_is_taken_over_and_given_back(write: Write, theirs: Drive) -> None:
    before = theirs.service(NAME)
    execution = write(change_text()).run()
    assert execution.outcome == "COMPLETED", execution.failure
    taken = theirs.service(NAME)
    assert taken["deploymentController"] == {"type": "ECS"}
    assert (taken["taskDefinition"], taken["runningCount"]) == (before["taskDefinition"], 2)
    assert any("AWS CodeDeploy cannot deploy" in line for line in theirs.log(execution))
    roll_back_execution(actor=theirs.deployer, execution=execution)
    theirs.until_over(execution)
    assert execution.outcome == "ROLLED_BACK", theirs.log(execution)[-6:]
    assert get_controller(theirs) == "CODE_DEPLOY"


def test_a_service_of_ecs_stays_as_it_is(write: Write, drive: Drive) -> None:
    create_foreign_service(drive, NAME)
    mark = drive.mark()
    execution = write(change_text()).run()
    assert execution.outcome == "COMPLETED", execution.failure
    assert drive.effects(mark) == []


def test_a_service_whose_tasks_are_not_steady_is_left_alone(write: Write, theirs: Drive) -> None:
    theirs.call("ecs", "UpdateService", {"cluster": "demo", "service": NAME, "desiredCount": 4})
    mark = theirs.mark()
    execution = write(change_text()).run()
    assert execution.failure["code"] == "CONTROLLER_NOT_CHANGED"
    assert "of 4 tasks are running. Wait until its tasks are steady" in execution.failure["message"]
    assert theirs.effects(mark) == []
    assert get_controller(theirs) == "CODE_DEPLOY"


def test_a_service_that_does_not_exist_yet_is_no_obstacle(write: Write, drive: Drive) -> None:
    mark = drive.mark()
    execution = write(change_text("nothing")).run()
    assert execution.outcome == "COMPLETED", execution.failure
    assert any("There is no ECS service nothing" in line for line in drive.log(execution))
    assert drive.effects(mark) == []


def test_the_rollback_of_a_first_deployment_is_not_mistaken_for_a_deletion_by_others(
    write: Write, drive: Drive
) -> None:
    step = "- step: {identifier: take, type: EcsChangeController, spec: {service: myapp}}\n"
    text = pipeline_text(stage_text(step + DEPLOY)).rstrip()
    give_back = "          - step: {identifier: give_back, type: EcsChangeControllerRollback}"
    lines = text.splitlines()
    number = next(index for index, line in enumerate(lines) if "back_app" in line)
    indent = lines[number][: len(lines[number]) - len(lines[number].lstrip())]
    lines.insert(number + 1, indent + give_back.lstrip())
    execution = write("\n".join(lines) + "\n").run("crash")
    assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK"), drive.log(execution)[-8:]
    assert not any("outside Slipway" in line for line in drive.log(execution))


@pytest.mark.parametrize("place", ["call.sent", "call.answered"])
def test_a_worker_that_dies_at_the_write_changes_the_controller_once(
    write: Write, theirs: Drive, place: str
) -> None:
    mark = theirs.mark()
    execution = write(change_text()).start()

    def die(name: str) -> None:
        if name == place and AwsCall.objects.filter(operation="UpdateService").exists():
            raise Death

    set_hook(die)
    try:
        with pytest.raises(Death):
            theirs.pass_time(30)
    finally:
        set_hook(None)
    theirs.clock.move(61)
    theirs.sandbox.advance(61)
    theirs.until_over(execution)
    assert execution.outcome == "COMPLETED", execution.failure
    assert theirs.effects(mark) == ["UpdateService"]
    assert get_controller(theirs) == "ECS"


def test_a_preview_says_that_the_controller_changes(write: Write, theirs: Drive) -> None:
    drive = write(change_text())
    details = preview_pipeline(actor=drive.deployer, pipeline=drive.pipeline)
    assert isinstance(details, PreviewDetails)
    (step,) = details.to_json()["steps"]
    assert step["failure"] is None
    assert f"Service {NAME} is deployed by ECS from now on, in place." in step["changes"]
