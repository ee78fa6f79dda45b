"""A step that runs tasks: it shows what they print, and ends as they end."""

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import yaml
from django.test import Client
from django.urls import reverse

from aws.apis.logs import LogPage, LogsClient
from connectors.models import Secret
from deployments.execution.documents import build_call_document, build_execution_document
from deployments.execution.operations import abort_execution, retry_execution
from deployments.models import AwsCall, Execution
from steps.actions.confirmations import CallRecord, Confirmation, Unconfirmed
from steps.actions.context import StepContext
from steps.actions.run_task.launch import RunTasks
from tests.fixtures.engine_driver import Drive
from tests.secret_watch import sinks
from tests.stories.run_task.conftest import DEFINITION, SIDECAR, request_text

pytestmark = pytest.mark.django_db(transaction=True)

Job = Callable[..., Drive]


def _get_result(execution: Execution) -> tuple[str, str]:
    return execution.status, execution.outcome


def tasks_of(drive: Drive, execution: Execution) -> list[dict[str, Any]]:
    """Every task in AWS that was started by the execution."""
    arns = []
    for status in ("RUNNING", "STOPPED"):
        query = {"cluster": "demo", "startedBy": str(execution.pk), "desiredStatus": status}
        arns += drive.call("ecs", "ListTasks", query)["taskArns"]
    if not arns:
        return []
    tasks: list[dict[str, Any]] = drive.call("ecs", "DescribeTasks", {"cluster": "demo", "tasks": arns})[
        "tasks"
    ]
    return tasks


def test_a_task_that_ends_well_is_followed_and_its_output_shown(job: Job) -> None:
    drive = job()
    execution = drive.run("done")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    log = drive.log(execution)
    for line in ("starting", "3 migrations to apply", "applied 3 of 3", "done"):
        assert log.count(f"migrate | {line}") == 1
    stage = build_execution_document(execution, drive.deployer)["stages"][0]
    assert stage["counts"] == {"running": 0, "desired": 1, "pending": 0, "ended": 1}
    outputs = stage["steps"][0]["outputs"]
    (task,) = tasks_of(drive, execution)
    assert outputs["taskArns"] == [task["taskArn"]]
    assert outputs["taskDefinitionArn"] == task["taskDefinitionArn"]
    assert outputs["exitCodes"] == {task["taskArn"].rsplit("/", 1)[-1]: {"migrate": 0}}
    assert "StopTask" not in drive.effects()


def test_an_exit_code_that_is_not_zero_fails_the_step_and_is_explained(job: Job) -> None:
    drive = job()
    execution = drive.run("crash")
    assert _get_result(execution)[0] == "FAILED"
    assert execution.failure["code"] == "CONTAINER_EXITED"
    assert (execution.failure["container"], execution.failure["exit_code"]) == ("migrate", 1)
    log = drive.log(execution)
    assert "  Container migrate exited with code 1" in log
    assert any(line.startswith("  | FATAL") for line in log)
    assert Counter(drive.effects())["DeregisterTaskDefinition"] == 1


def test_an_image_that_cannot_be_pulled_fails_the_step(job: Job) -> None:
    execution = job().run("nopull")
    assert _get_result(execution)[0] == "FAILED"
    assert execution.failure["code"] == "IMAGE_NOT_FOUND"


def test_a_sidecar_that_ends_badly_fails_the_step_and_is_called_not_essential(job: Job) -> None:
    execution = job(DEFINITION + SIDECAR).run("done")
    assert _get_result(execution)[0] == "FAILED"
    assert execution.failure["container"] == "helper"
    assert "helper, which is not essential, exited with code 1" in execution.failure["message"]


def test_more_than_ten_tasks_are_started_by_several_calls(job: Job) -> None:
    drive = job(more="count: 12")
    execution = drive.run("done")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    assert Counter(drive.effects())["RunTask"] == 2
    assert len(tasks_of(drive, execution)) == 12
    log = drive.log(execution)
    assert sum(line.endswith(" migrate | done") for line in log) == 12


def test_tasks_for_which_there_is_no_room_fail_the_step_in_words(job: Job) -> None:
    definition = """
family: large
networkMode: bridge
containerDefinitions:
  - {name: migrate, image: "example.com/migrate:done", memory: 7000}
"""
    drive = job(definition, request="launchType: EC2\ncount: 9")
    execution = drive.run()
    assert _get_result(execution)[0] == "FAILED"
    assert execution.failure["code"] == "TASK_NOT_STARTED"
    assert "No container instance has enough free memory" in execution.failure["message"]
    assert "RESOURCE:MEMORY" in execution.failure["message"]
    assert {task["lastStatus"] for task in tasks_of(drive, execution)} == {"STOPPED"}


def test_a_time_out_stops_the_tasks(job: Job) -> None:
    drive = job(timeout="2m")
    execution = drive.run("1.27")
    assert execution.failure["code"] == "TIMED_OUT"
    (task,) = tasks_of(drive, execution)
    assert (task["lastStatus"], task["stopCode"]) == ("STOPPED", "UserInitiated")


@pytest.mark.parametrize("roll_back", [True, False])
def test_an_abort_stops_the_tasks(job: Job, roll_back: bool) -> None:
    drive = job()
    execution = drive.start("1.27")
    drive.pass_time(40)
    abort_execution(actor=drive.deployer, execution=execution, roll_back=roll_back)
    drive.until_over(execution)
    assert _get_result(execution) == ("ABORTED", "ABORTED")
    assert [task["lastStatus"] for task in tasks_of(drive, execution)] == ["STOPPED"]
    effects = Counter(drive.effects())
    assert (effects["StopTask"], effects["DeregisterTaskDefinition"]) == (1, 1)


def test_a_task_that_ends_before_its_throttled_stop_is_repeated_does_not_hold_up_the_end(job: Job) -> None:
    drive = job()
    execution = drive.start("1.27")
    drive.pass_time(40)
    drive.sandbox.fault("throttle", service="ecs", operation="StopTask", count=1)
    abort_execution(actor=drive.deployer, execution=execution)
    drive.reconcile()
    (task,) = tasks_of(drive, execution)
    drive.call("ecs", "StopTask", {"cluster": "demo", "task": task["taskArn"]})
    drive.until_over(execution)
    assert _get_result(execution) == ("ABORTED", "ABORTED")
    assert Counter(drive.effects())["DeregisterTaskDefinition"] == 1
    assert not execution.calls.filter(state="NOT_SENT").exists(), "the next call replaced the stop"


def test_a_clean_up_whose_result_nobody_may_read_holds_up_the_end_for_minutes_only(job: Job) -> None:
    drive = job()
    execution = drive.start("1.27")
    drive.pass_time(40)
    drive.sandbox.fault("lost_answer", service="ecs", operation="DeregisterTaskDefinition", count=1)
    drive.sandbox.fault("denied", service="ecs", operation="DescribeTaskDefinition")
    abort_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    assert _get_result(execution) == ("ABORTED", "ABORTED")
    (line,) = [line for line in drive.log(execution) if line.startswith("Stop leftover tasks failed: ")]
    assert "The answer to DeregisterTaskDefinition was lost" in line
    assert Counter(drive.effects())["DeregisterTaskDefinition"] == 1


def test_a_lost_answer_runs_nothing_twice(job: Job) -> None:
    drive = job(more="count: 3")
    drive.sandbox.fault("lost_answer", service="ecs", operation="RunTask", count=1)
    execution = drive.run("done")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    assert Counter(drive.effects())["RunTask"] == 1
    assert len(tasks_of(drive, execution)) == 3


def test_a_lost_answer_stays_unknown_until_its_repetition_is_answered(job: Job) -> None:
    drive = job()
    execution = drive.start("1.27")
    drive.sandbox.fault("lost_answer", service="ecs", operation="RunTask", count=1)
    drive.reconcile()
    drive.sandbox.fault("throttle", service="ecs", operation="RunTask")
    drive.pass_time(60)
    call = execution.calls.get(operation="RunTask")
    assert call.send_number > 1
    assert (call.state, build_call_document(call)["adopted"]) == ("UNKNOWN", False)
    drive.sandbox.clear_faults()
    drive.pass_time(60)
    call.refresh_from_db()
    assert (call.state, build_call_document(call)["adopted"]) == ("ANSWERED", False)
    assert Counter(drive.effects())["RunTask"] == 1


def test_tasks_of_a_lost_answer_are_stopped_although_its_repetition_is_refused(job: Job) -> None:
    drive = job()
    execution = drive.start("1.27")
    drive.sandbox.fault("lost_answer", service="ecs", operation="RunTask", count=1)
    drive.reconcile()
    drive.sandbox.fault("denied", service="ecs", operation="RunTask")
    drive.until_over(execution)
    assert execution.status == "FAILED"
    assert [task["lastStatus"] for task in tasks_of(drive, execution)] == ["STOPPED"]


def test_tasks_of_a_lost_answer_are_stopped_by_an_abort(job: Job) -> None:
    drive = job()
    execution = drive.start("1.27")
    drive.sandbox.fault("lost_answer", service="ecs", operation="RunTask", count=1)
    drive.reconcile()
    abort_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    assert [task["lastStatus"] for task in tasks_of(drive, execution)] == ["STOPPED"]


def test_skipping_the_check_starts_the_tasks_and_leaves_them_running(job: Job) -> None:
    drive = job(fields="skipSteadyStateCheck: true\n")
    execution = drive.run("1.27")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    assert "Skipped Steady State Check" in drive.log(execution)
    drive.pass_time(60)
    assert [task["lastStatus"] for task in tasks_of(drive, execution)] == ["RUNNING"]


def test_a_retry_runs_new_tasks(job: Job) -> None:
    drive = job()
    execution = drive.run("crash")
    retry_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    assert _get_result(execution)[0] == "FAILED"
    assert len(tasks_of(drive, execution)) == 2
    effects = Counter(drive.effects())
    assert (effects["RegisterTaskDefinition"], effects["DeregisterTaskDefinition"]) == (2, 2)


def test_a_registered_task_definition_is_run_by_its_name(job: Job) -> None:
    drive = job()
    first = drive.run("done")
    job("", fields="taskDefinitionArn: migration\n")
    second = drive.run()
    assert _get_result(second) == ("SUCCESS", "COMPLETED")
    assert Counter(drive.effects())["RegisterTaskDefinition"] == 1
    assert tasks_of(drive, second)[0]["taskDefinitionArn"] == tasks_of(drive, first)[0]["taskDefinitionArn"]


def test_what_a_request_says_of_the_task_definition_is_ignored_with_a_warning(job: Job) -> None:
    drive = job(more="taskDefinition: other:1\n")
    execution = drive.run("done")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    assert any("taskDefinition: is ignored" in line for line in drive.log(execution))


def test_a_request_that_does_not_go_with_its_definition_fails_before_any_write(job: Job) -> None:
    definition = DEFINITION.replace("networkMode: awsvpc\n", "").replace(
        "requiresCompatibilities: [FARGATE]\n", ""
    )
    definition = definition.replace("    logConfiguration:", "    memory: 128\n    logConfiguration:")
    drive = job(definition)
    mark = drive.mark()
    execution = drive.run("done")
    assert execution.failure["code"] == "BAD_MANIFEST"
    assert "runTaskRequestDefinition, line" in execution.failure["message"]
    assert drive.effects(after=mark) == []


def test_later_edits_do_not_change_a_run_under_way(job: Job, drive: Drive) -> None:
    job()
    execution = drive.start("done")
    job(more="count: 5", request=request_text(drive, "count: 5"))
    drive.until_over(execution)
    assert len(tasks_of(drive, execution)) == 1


@pytest.mark.parametrize("kind", ["throttle", "error500"])
def test_no_line_is_lost_or_told_twice_where_a_look_is_cut_short(
    job: Job, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive = job(more="count: 2")
    reads, read = count(1), LogsClient.read

    def read_and_fail(self: LogsClient, *arguments: Any) -> LogPage:
        # The second read of a look fails, after the first one has told its lines.
        if next(reads) in (2, 6):
            # More often than the client itself tries again.
            drive.sandbox.fault(kind, service="logs", operation="GetLogEvents", count=4)
        else:
            drive.sandbox.clear_faults()
        return read(self, *arguments)

    monkeypatch.setattr(LogsClient, "read", read_and_fail)
    execution = drive.run("done")
    lines = [line.split(" | ")[1] for line in drive.log(execution) if " migrate | " in line]
    assert Counter(lines) == dict.fromkeys(lines, 2)
    assert len(lines) == 8


def test_secrets_in_what_a_container_prints_are_masked(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    # A container of the sandbox prints its own words.
    monkeypatch.setattr(sinks, "insists", False)
    drive = job()
    secret = Secret.objects.get(identifier="sandbox_secret_key")
    secret.value = "applied 3"
    secret.save()
    execution = drive.run("done")
    log = drive.log(execution)
    assert not any("applied 3" in line for line in log)
    assert any(line.startswith("migrate | ") and line.endswith(" of 3") for line in log)


def test_a_lost_answer_does_not_bring_in_the_task_of_a_parallel_step(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive, confirm, checks = job(), RunTasks.confirm, count(1)

    def confirm_late(self: RunTasks, context: StepContext, call: CallRecord) -> Confirmation:
        return Unconfirmed() if next(checks) == 1 else confirm(self, context, call)

    monkeypatch.setattr(RunTasks, "confirm", confirm_late)
    drive.sandbox.fault("lost_answer", operation="RunTask", count=1)
    execution = drive.start("done")
    while not AwsCall.objects.filter(execution=execution, operation="RunTask", state="UNKNOWN").exists():
        drive.pass_time(1)
    definition = drive.call("ecs", "RegisterTaskDefinition", yaml.safe_load(DEFINITION) | {"family": "other"})
    request = yaml.safe_load(request_text(drive, "")) | {
        "cluster": "demo",
        "taskDefinition": definition["taskDefinition"]["taskDefinitionArn"],
        "startedBy": str(execution.pk),
    }
    (other,) = drive.call("ecs", "RunTask", request)["tasks"]
    mark = drive.mark()
    drive.until_over(execution)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED"), drive.log(execution)[-8:]
    (own,) = execution.stages.get().steps.get(identifier="migrate").outputs["taskArns"]
    assert own != other["taskArn"]
    assert "RunTask" not in drive.effects(mark), "the repetition has the token of the lost call"
    assert "StopTask" not in drive.effects(mark)


def test_the_page_that_runs_it_does_not_offer_to_keep_tasks(job: Job, client: Client) -> None:
    drive = job()
    client.force_login(drive.deployer)
    page = client.get(reverse("run-pipeline", args=[drive.pipeline.pk])).content.decode()
    assert "EcsRunTask" in page
    assert "Keep tasks if nothing changed" not in page
