"""Branches that change ECS services: each queues for its own, and nobody waits for ever."""

from datetime import timedelta

import pytest
from django.test import Client

from deployments.execution.documents import build_execution_document
from deployments.execution.operations import abort_execution, roll_back_execution
from deployments.models import Execution, ServiceLock, StepExecution
from tests.deployments.engine.conftest import DEPLOY, Write, job, pipeline_text, stage_text
from tests.deployments.preview.comparison import load_preview
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)


def _build_scale_step(name: str, service: str, count: int) -> str:
    spec = f"{{service: {service}, instances: {count}}}"
    return f"- step: {{identifier: {name}, type: EcsScale, spec: {spec}}}\n"


def _build_parallel(*branches: str) -> str:
    lines = "".join(branches).splitlines(keepends=True)
    return "- parallel:\n" + "".join(f"    {line}" for line in lines)


def _build_pipeline(*steps: str) -> str:
    stage = stage_text("".join(steps))
    unscale = "- step: {identifier: unscale, type: EcsScaleRollback}\n"
    return pipeline_text(stage.replace("rollbackSteps:\n", f"rollbackSteps:\n          {unscale}"))


def _get_step(execution: Execution, name: str) -> StepExecution:
    return StepExecution.objects.get(stage__execution=execution, identifier=name)


def _wait_for_status(drive: Drive, execution: Execution, name: str, status: str) -> None:
    for _ in range(120):
        if _get_step(execution, name).status == status:
            execution.refresh_from_db()
            return
        drive.pass_time(1)
    raise AssertionError(f"{name} is {_get_step(execution, name).status}: {drive.log(execution)[-5:]}")


@pytest.fixture
def worker(drive: Drive) -> str:
    """The name of another ECS service in the cluster, with one task."""
    assert drive.run("1.27").outcome == "COMPLETED"
    definition = drive.service()["taskDefinition"]
    service_fields = {
        "cluster": "demo",
        "serviceName": "worker",
        "taskDefinition": definition,
        "desiredCount": 1,
    }
    copied_fields = {name: drive.service()[name] for name in ("launchType", "networkConfiguration")}
    drive.call("ecs", "CreateService", {**copied_fields, **service_fields})
    drive.sandbox.advance(60)
    return "worker"


def test_branches_change_different_services_at_once_and_both_are_put_back(
    write: Write, drive: Drive, worker: str
) -> None:
    before = drive.service()["taskDefinition"]
    pipeline_drive = write(_build_pipeline(_build_parallel(DEPLOY, _build_scale_step("more", worker, 3))))
    execution = pipeline_drive.start("1.28")
    drive.pass_time(4)
    assert {slot.key.rpartition("/")[2] for slot in ServiceLock.objects.all()} == {"myapp", "worker"}
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), execution.failure
    assert drive.service("worker")["runningCount"] == 3
    assert not ServiceLock.objects.exists()
    # The page shows the ECS service that is deployed, whichever branch came last.
    stage = execution.stages.get()
    assert (stage.ecs_service, stage.deployment_id) == (
        "myapp",
        _get_step(execution, "deploy").outputs["deploymentId"],
    )

    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    assert execution.outcome == "ROLLED_BACK", drive.log(execution)[-5:]
    assert (drive.service()["taskDefinition"], drive.service("worker")["desiredCount"]) == (before, 1)


def test_a_branch_goes_on_while_another_waits_for_its_service(write: Write, drive: Drive) -> None:
    pipeline_drive = write(_build_pipeline(_build_parallel(DEPLOY, job(drive, "migrate"))))
    first, second = pipeline_drive.start("slow"), pipeline_drive.start("1.28")
    _wait_for_status(drive, second, "migrate", "SUCCESS")
    assert _get_step(first, "deploy").status != "SUCCESS"
    drive.pass_time(16)
    second.refresh_from_db()
    queue = build_execution_document(second, drive.deployer)["queue"]
    assert (second.status, second.stages.get().status) == ("QUEUED", "QUEUED")
    queue_entry = {"position": 1, "waits_for": f"#{first.number}", "ecs_service": "myapp", "step": "deploy"}
    assert queue == {**queue_entry, "steps": [queue_entry]}
    drive.until_over(first)
    drive.until_over(second)
    assert (second.status, second.outcome) == ("SUCCESS", "COMPLETED")


def test_an_execution_that_deploys_after_a_later_one_says_so(write: Write, drive: Drive) -> None:
    pipeline_drive = write(_build_pipeline(DEPLOY))
    later = pipeline_drive.run("1.28")
    slow = pipeline_drive.start("1.27")
    Execution.objects.filter(pk=slow.pk).update(created_at=later.created_at - timedelta(seconds=1))
    drive.until_over(slow)
    text = (
        f"Execution {later.number} was started later and has deployed Service myapp already. "
        "This one replaces that."
    )
    assert [note["text"] for note in slow.notes] == [text]
    assert text in drive.log(slow)
    last = pipeline_drive.run("1.28")
    assert last.notes == []


def test_every_step_that_waits_for_its_service_is_named_with_who_is_ahead_of_it(
    write: Write, drive: Drive, worker: str, client: Client
) -> None:
    pipeline_drive = write(_build_pipeline(_build_parallel(DEPLOY, _build_scale_step("more", worker, 3))))
    first = pipeline_drive.start("slow")
    drive.pass_time(4)
    second = pipeline_drive.start("1.28")
    drive.pass_time(4)
    queue_entries = build_execution_document(second, drive.deployer)["queue"]["steps"]
    assert {(entry["step"], entry["ecs_service"]) for entry in queue_entries} == {
        ("deploy", "myapp"),
        ("more", "worker"),
    }
    assert {(entry["position"], entry["waits_for"]) for entry in queue_entries} == {(1, f"#{first.number}")}
    client.force_login(drive.deployer)
    page = client.get(f"/deployments/{second.pk}/").content.decode()
    for name, service in (("deploy", "myapp"), ("more", "worker")):
        assert f"Step {name} waits for the lock of ECS service {service}: position 1." in page
    drive.until_over(first)
    drive.until_over(second)
    assert build_execution_document(second, drive.deployer)["queue"] is None


def test_who_is_aborted_while_it_waits_for_its_service_ends_at_once(drive: Drive) -> None:
    first, second = drive.start("slow"), drive.start("1.28")
    drive.pass_time(4)
    abort_execution(actor=drive.deployer, execution=second, roll_back=True)
    drive.pass_time(2)
    second.refresh_from_db()
    first.refresh_from_db()
    assert (second.status, first.is_over) == ("ABORTED", False)


def test_two_branches_that_turn_out_to_change_one_service_are_refused(write: Write, drive: Drive) -> None:
    drive.run("1.27")
    pipeline_drive = write(
        _build_pipeline(
            _build_parallel(DEPLOY, _build_scale_step("more", "<+pipeline.variables.name>", 3))
        ).replace("variables: {}", "variables: {name: myapp}")
    )
    failure = load_preview(drive, "1.28")["steps"][1]["failure"]
    assert failure["code"] == "SERVICE_CHANGED_BESIDE"
    execution = pipeline_drive.run("1.28")
    assert execution.status == "FAILED"
    assert execution.failure["code"] == "SERVICE_CHANGED_BESIDE"
    assert "run one after the other" in execution.failure["message"]


def test_of_two_that_wait_for_each_other_the_later_one_gives_way(
    write: Write, drive: Drive, worker: str
) -> None:
    first = write(_build_pipeline(DEPLOY, _build_scale_step("more", worker, 2))).start("1.28")
    other = write(_build_pipeline(_build_scale_step("more", worker, 3), DEPLOY)).start("1.29")
    drive.until_over(first)
    drive.until_over(other)
    executions_by_status = {first.status: first, other.status: other}
    assert set(executions_by_status) == {"SUCCESS", "FAILED"}
    failed_execution = executions_by_status["FAILED"]
    assert failed_execution.failure["code"] == "SERVICES_CROSSED"
    assert f"#{executions_by_status['SUCCESS'].number} holds" in failed_execution.failure["message"]
    assert failed_execution.outcome in ("ROLLED_BACK", "FAILED")
    assert not ServiceLock.objects.exists()
