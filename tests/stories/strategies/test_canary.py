"""A canary: one task of the new version in an ECS service of its own, its deletion, then all tasks."""

import pytest
import yaml

from deployments.execution.operations import abort_execution
from deployments.models import Execution, Interrupt
from pipelines.models import Pipeline
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)

CANARY = "webshopCanary"


@pytest.fixture
def canary(drive: Drive) -> Drive:
    drive.pipeline = Pipeline.objects.get(identifier="canary_demo")
    return drive


def _get_result(execution: Execution) -> tuple[str, str]:
    return execution.status, execution.outcome


def _is_gone(drive: Drive) -> bool:
    return bool(drive.service(CANARY).get("status", "INACTIVE") == "INACTIVE")


def _until_logged(drive: Drive, execution: Execution, text: str) -> None:
    for _ in range(600):
        if any(line.startswith(text) for line in drive.log(execution)):
            return
        drive.pass_time(1)
    raise AssertionError(f"{text} was never logged: {drive.log(execution)[-5:]}")


def test_one_task_is_tried_and_deleted_before_all_are_replaced(canary: Drive) -> None:
    execution = canary.run("1.27")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    assert _is_gone(canary)
    assert canary.service("webshop")["runningCount"] == 2
    log = canary.log(execution)
    expected = [
        "Creating Service webshopCanary with task definition "
        "arn:aws:ecs:us-east-1:123456789012:task-definition/webshop:1 and desired count 1",
        "Service webshopCanary reached steady state",
        "Deleting service webshopCanary..",
        "Existing Service webshopCanary reached inactive state",
        "Canary service webshopCanary deleted",
        "Service webshop reached steady state",
    ]
    assert [line for line in log if line in expected] == expected


def test_a_canary_that_crashes_never_touches_the_service_and_is_deleted(canary: Drive) -> None:
    canary.run("1.27")
    before = canary.service("webshop")
    execution = canary.run("crash")
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK")
    assert _is_gone(canary)
    after = canary.service("webshop")
    assert [deployment["id"] for deployment in after["deployments"]] == [
        deployment["id"] for deployment in before["deployments"]
    ]


def test_a_canary_of_the_live_content_uses_its_revision_and_its_rollback_keeps_it(canary: Drive) -> None:
    canary.run("1.27")
    revision, mark = canary.service("webshop")["taskDefinition"], canary.mark()
    canary.sandbox.fault("lost_answer", service="ecs", operation="CreateService", count=1)
    stopped = canary.start("1.27")
    _until_logged(canary, stopped, "Service webshopCanary reached steady state")
    assert canary.service(CANARY)["taskDefinition"] == revision
    Interrupt.objects.create(execution=stopped, kind=Interrupt.Kind.ABORT_AND_ROLL_BACK)
    canary.until_over(stopped)
    assert stopped.outcome == "ROLLED_BACK", canary.log(stopped)
    assert _is_gone(canary)
    assert _get_result(canary.run("1.27")) == ("SUCCESS", "COMPLETED")
    effects = canary.effects(after=mark)
    assert not {"RegisterTaskDefinition", "DeregisterTaskDefinition"} & set(effects)
    assert effects.count("CreateService") == 2
    definition = canary.call("ecs", "DescribeTaskDefinition", {"taskDefinition": revision})["taskDefinition"]
    assert definition["status"] == "ACTIVE"


def test_a_canary_that_was_left_behind_becomes_the_next_one(canary: Drive) -> None:
    canary.run("1.27")
    stopped = canary.start("slow")
    _until_logged(canary, stopped, "Creating Service webshopCanary")
    abort_execution(actor=canary.deployer, execution=Execution.objects.get(pk=stopped.pk))
    canary.until_over(stopped)
    assert not _is_gone(canary)
    execution = canary.run("1.28")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    assert any("is a leftover of an earlier deployment" in line for line in canary.log(execution))
    assert _is_gone(canary)


def test_two_runs_on_one_service_queue_although_they_begin_with_a_canary(canary: Drive) -> None:
    first, second = canary.start("1.27"), canary.start("1.28")
    canary.pass_time(4)
    second.refresh_from_db()
    assert second.status == "QUEUED"
    assert _get_result(canary.until_over(first)) == ("SUCCESS", "COMPLETED")
    assert _get_result(canary.until_over(second)) == ("SUCCESS", "COMPLETED")


def test_a_rollback_of_which_only_the_first_part_succeeded_is_not_called_rolled_back(canary: Drive) -> None:
    """The rolling deployment is undone, the canary stays."""
    canary.run("1.27")
    document = yaml.safe_load(canary.pipeline.yaml)
    execution_of_stage = document["pipeline"]["stages"][0]["stage"]["spec"]["execution"]
    del execution_of_stage["steps"][1]
    canary.pipeline.yaml = yaml.safe_dump(document)
    canary.pipeline.save(update_fields=["yaml"])
    execution = canary.start("1.28")
    _until_logged(canary, execution, "Updating Service webshop with")
    canary.sandbox.fault("denied", service="ecs", operation="DeleteService", seconds=7200)
    abort_execution(actor=canary.deployer, execution=Execution.objects.get(pk=execution.pk), roll_back=True)
    canary.until_over(execution)
    assert not _is_gone(canary)
    assert _get_result(execution) == ("ABORTED", "ABORTED")
