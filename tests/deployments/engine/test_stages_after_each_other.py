"""Executions of several stages and attempts: what a rollback or a retry of them brings back."""

import copy

import pytest
import yaml

from deployments.execution.operations import retry_execution, roll_back_execution
from deployments.models import Execution
from pipelines.models import Pipeline
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def two_stages(drive: Drive) -> Drive:
    """A pipeline that deploys to myapp, then to webshop by a canary; 1.27 runs everywhere."""
    first, second = (
        yaml.safe_load(Pipeline.objects.get(identifier=name).yaml)["pipeline"]
        for name in ("rolling_demo", "canary_demo")
    )
    second["stages"][0]["stage"]["identifier"] = "then"
    document = {"pipeline": {**first, "stages": first["stages"] + second["stages"]}}
    _write(drive, document)
    drive.run("1.27")
    return drive


def _write(drive: Drive, document: dict[str, object]) -> None:
    drive.pipeline.yaml = yaml.safe_dump(document)
    drive.pipeline.save(update_fields=["yaml"])


def _list_revisions(drive: Drive) -> list[str]:
    return [drive.service(name)["taskDefinition"] for name in ("myapp", "webshop")]


def _fail_second_stage(drive: Drive, operation: str) -> Execution:
    """Deploy 1.28, and have AWS refuse an operation of the second stage."""
    execution = drive.start("1.28")
    while "then" not in {stage.identifier for stage in execution.stages.filter(status="RUNNING")}:
        drive.pass_time(1)
    drive.sandbox.fault("denied", service="ecs", operation=operation)
    drive.until_over(execution)
    drive.sandbox.clear_faults()
    return execution


def _roll_back(drive: Drive, execution: Execution) -> Execution:
    rollback = roll_back_execution(actor=drive.deployer, execution=execution)
    drive.reconcile()
    drive.until_over(rollback)
    return rollback


def _retry(drive: Drive, execution: Execution) -> None:
    retry_execution(actor=drive.deployer, execution=execution)
    drive.reconcile()
    drive.until_over(execution)


def test_an_execution_whose_first_stage_stays_deployed_is_not_rolled_back_yet(two_stages: Drive) -> None:
    before = _list_revisions(two_stages)
    execution = _fail_second_stage(two_stages, "UpdateService")
    now = _list_revisions(two_stages)
    assert now[0] != before[0], "the first stage stays deployed"
    assert now[1] == before[1], "the second one is undone"
    assert (execution.status, execution.outcome) != ("FAILED", "ROLLED_BACK")

    _roll_back(two_stages, execution)
    assert _list_revisions(two_stages) == before
    assert execution.outcome == "ROLLED_BACK"


def test_a_retry_after_a_rollback_of_all_stages_begins_with_the_first_one(two_stages: Drive) -> None:
    before = _list_revisions(two_stages)
    execution = _fail_second_stage(two_stages, "RegisterTaskDefinition")
    _roll_back(two_stages, execution)
    assert _list_revisions(two_stages)[0] == before[0]

    _retry(two_stages, execution)
    assert execution.status == "SUCCESS", execution.failure
    now = _list_revisions(two_stages)
    assert now[0] != before[0]
    assert now[1] != before[1]


def test_a_retried_execution_is_newer_than_those_that_deployed_before_the_retry(drive: Drive) -> None:
    drive.run("1.26")
    drive.sandbox.fault("denied", service="ecs", operation="UpdateService")
    second = drive.run("1.27")
    assert second.status == "FAILED"
    drive.sandbox.clear_faults()
    third = drive.run("1.28")
    assert third.status == "SUCCESS", third.failure
    before = drive.service()["taskDefinition"]
    drive.clock.move(5)
    _retry(drive, second)
    assert second.status == "SUCCESS", second.failure
    assert drive.service()["taskDefinition"] != before

    rollback = _roll_back(drive, second)
    assert rollback.pk == second.pk, "it undoes its own change"
    assert drive.service()["taskDefinition"] == before


def test_a_canary_is_deleted_though_a_condition_skips_a_later_one(drive: Drive) -> None:
    drive.pipeline = Pipeline.objects.get(identifier="canary_demo")
    document = yaml.safe_load(drive.pipeline.yaml)
    steps = document["pipeline"]["stages"][0]["stage"]["spec"]["execution"]["steps"]
    other = copy.deepcopy(steps[0])
    other["step"] |= {
        "identifier": "other",
        "name": "Other",
        "when": {"stageStatus": "Success", "condition": "<+env.type> == 'Nope'"},
    }
    steps.insert(1, other)
    _write(drive, document)
    execution = drive.run("1.27")
    assert execution.status == "SUCCESS", execution.failure
    assert drive.service("webshopCanary").get("status") in (None, "INACTIVE")
