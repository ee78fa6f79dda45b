"""Steps side by side: all go on in one look, one that fails stops the others, all that was done is undone."""

from dataclasses import dataclass, field

import pytest
import yaml
from django.test import Client

from delegates.models import DelegateTask
from delegates.task_owners import TaskAnswer, TaskPayload
from delegates.task_queue import route_waiting_tasks
from deployments.execution.documents import build_execution_document
from deployments.execution.operations import decide_step, roll_back_execution
from deployments.models import AwsCall, Execution, ServiceLock, StepExecution, StepGroup
from tests.deployments.engine.conftest import DEPLOY, Write, job, pipeline_text, stage_text
from tests.deployments.execution.conftest import until_asked  # noqa: F401
from tests.deployments.journal.test_delegate_calls import TAGS, remote  # noqa: F401
from tests.fixtures.engine_driver import Drive
from tests.fixtures.fake_delegates import Hand, hand
from tests.stories.run_task.conftest import DEFINITION
from tests.stories.run_task.test_run_task import tasks_of
from web.clock import get_database_time

pytestmark = pytest.mark.django_db(transaction=True)

IGNORE = "failureStrategies: [{onFailure: {errors: [AllErrors], action: {type: Ignore}}}]"
MARK = "failureStrategies: [{onFailure: {errors: [AllErrors], action: {type: MarkAsFailure}}}]"
CRASH = "example.com/migrate:crash"


def _build_parallel(*branches: str) -> str:
    lines = "".join(branches).splitlines(keepends=True)
    return "- parallel:\n" + "".join(f"    {line}" for line in lines)


def _get_steps(execution: Execution) -> dict[str, StepExecution]:
    return {step.identifier: step for step in StepExecution.objects.filter(stage__execution=execution)}


def _build_crashing_step(drive: Drive, name: str, fields: str = "") -> str:
    return job(drive, name, fields).replace("example.com/migrate:done", CRASH)


def test_branches_run_at_the_same_time_and_what_follows_waits_for_all(write: Write, drive: Drive) -> None:
    pipeline_drive = write(
        pipeline_text(stage_text(_build_parallel(DEPLOY, job(drive, "migrate")) + job(drive, "after")))
    )
    execution = pipeline_drive.run("1.27")
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED")
    steps = _get_steps(execution)
    deploy, migrate, after = (steps[name] for name in ("deploy", "migrate", "after"))
    assert deploy.ended_at
    assert migrate.ended_at
    assert migrate.started_at < deploy.ended_at
    assert deploy.started_at < migrate.ended_at
    assert after.started_at >= max(deploy.ended_at, migrate.ended_at)
    assert not ServiceLock.objects.exists()
    step_rows = build_execution_document(execution, pipeline_drive.deployer)["stages"][0]["steps"]
    assert [(step["depth"], [header["text"] for header in step["heads"]]) for step in step_rows] == [
        (1, ["Parallel"]),
        (1, []),
        (0, []),
        (0, []),
    ]


def test_a_branch_that_fails_stops_the_others_and_the_stage_is_rolled_back(
    write: Write, drive: Drive
) -> None:
    drive.run("1.27")
    before = drive.service()["taskDefinition"]
    pipeline_drive = write(
        pipeline_text(stage_text(_build_parallel(DEPLOY, _build_crashing_step(drive, "migrate"))))
    )
    execution = pipeline_drive.run("slow-start")
    assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK")
    assert execution.failure["step"] == "migrate"
    steps = _get_steps(execution)
    assert (steps["deploy"].status, steps["migrate"].status) == ("ABORTED", "FAILED")
    assert drive.service()["taskDefinition"] == before
    assert any("is stopped together with step" in line for line in drive.log(execution))


def test_what_waits_for_a_person_in_one_branch_does_not_hold_up_the_other(write: Write, drive: Drive) -> None:
    intervention = "{type: ManualIntervention, spec: {timeout: 1h, onTimeout: {action: {type: Ignore}}}}"
    strategy = f"failureStrategies: [{{onFailure: {{errors: [AllErrors], action: {intervention}}}}}]"
    pipeline_drive = write(
        pipeline_text(stage_text(_build_parallel(DEPLOY, _build_crashing_step(drive, "migrate", strategy))))
    )
    execution = pipeline_drive.start("1.27")
    for _ in range(300):
        pipeline_drive.pass_time(1)
        steps = _get_steps(execution)
        if steps["migrate"].intervention and steps["deploy"].status == "SUCCESS":
            break
    execution.refresh_from_db()
    assert steps["deploy"].status == "SUCCESS"
    assert execution.status == "INTERVENTION_WAITING"
    pipeline_drive.until_over(execution, most_seconds=5000)
    assert execution.status == "IGNORE_FAILED"


def _build_two_jobs(drive: Drive) -> tuple[str, str]:
    """Return a step whose failure is ignored, and one that starts a task of the same revision."""
    definition = DEFINITION.replace("<+primary.artifact.tag>", "1.27")
    drive.call("ecs", "RegisterTaskDefinition", yaml.safe_load(definition))
    named = "taskDefinitionArn: migration\n"
    return (
        job(drive, "unanswered", f"timeout: 1m\n    {IGNORE}", task_fields=named),
        job(drive, "other", "timeout: 30m", task_fields=f"{named}skipSteadyStateCheck: true\n"),
    )


def _assert_task_runs_on(drive: Drive, execution: Execution) -> None:
    drive.until_over(execution)
    assert execution.status == "IGNORE_FAILED", drive.log(execution)[-5:]
    (task,) = tasks_of(drive, execution)
    assert task["desiredStatus"] == "RUNNING"
    assert "StopTask" not in drive.effects()


@pytest.mark.parametrize("fault", ["", "lost_answer"])
def test_a_step_without_an_answer_leaves_the_task_of_another_branch_running(
    write: Write, drive: Drive, fault: str
) -> None:
    execution = write(pipeline_text(stage_text(_build_parallel(*_build_two_jobs(drive))))).start("1.27")
    drive.sandbox.fault("throttle", operation="RunTask")
    while _get_steps(execution)["unanswered"].status != "IGNORE_FAILED":
        drive.pass_time(1)
    drive.sandbox.clear_faults()
    if fault:
        drive.sandbox.fault(fault, operation="RunTask", count=1)
    _assert_task_runs_on(drive, execution)


def test_a_step_without_an_answer_leaves_the_task_of_the_next_step_running(
    write: Write, drive: Drive
) -> None:
    execution = write(pipeline_text(stage_text("".join(_build_two_jobs(drive))))).start("1.27")
    drive.sandbox.fault("error500", operation="RunTask")
    drive.pass_time(45)
    drive.sandbox.clear_faults()
    _assert_task_runs_on(drive, execution)


@dataclass
class _HoldingDelegate:
    """A delegate that makes its calls at once, except those that it holds back."""

    hand: Hand
    holds: set[tuple[str, str]]
    held: dict[tuple[str, str], tuple[DelegateTask, TaskPayload]] = field(default_factory=dict)

    def serve(self) -> None:
        route_waiting_tasks(get_database_time())
        while (task := self.hand.take()) is not None:
            call = AwsCall.objects.get(task=task)
            key = (call.step.identifier, call.operation)
            if key in self.holds:
                self.held[key] = (task, self.hand.payloads[-1])
            else:
                self.hand.complete(task, self.hand.perform(task))

    def perform(self, step: str, operation: str, *, answers: bool) -> TaskAnswer:
        """Make a call that was held back, and answer it or not."""
        task, payload = self.held.pop((step, operation))
        self.hand.payloads.append(payload)
        answer = self.hand.perform(task)
        if answers:
            self.holds.remove((step, operation))
            self.hand.complete(task, answer)
        return answer

    def pass_time(self, drive: Drive, seconds: int) -> None:
        for _ in range(seconds):
            drive.pass_time(1)
            self.serve()


def test_leftover_tasks_are_listed_again_after_the_answer_to_a_similar_call(
    drive: Drive, write: Write, request: pytest.FixtureRequest
) -> None:
    jobs = _build_two_jobs(drive)
    request.getfixturevalue("remote")
    holds = {("unanswered", "RunTask"), ("other", "DescribeTaskDefinition"), ("other", "RunTask")}
    delegate = _HoldingDelegate(hand("prod-eu", tags=TAGS), holds)
    execution = write(pipeline_text(stage_text(_build_parallel(*jobs)))).start("1.27")
    lists = AwsCall.objects.filter(step__identifier="unanswered", operation="ListTasks", phase="look")
    while not lists.exists():
        delegate.pass_time(drive, 1)
    # Its list was made before the task starts, and then waits for the call of the other step.
    delegate.serve()
    delegate.perform("other", "DescribeTaskDefinition", answers=True)
    while ("other", "RunTask") not in delegate.held:
        delegate.pass_time(drive, 1)
    started = delegate.perform("unanswered", "RunTask", answers=False)
    delegate.pass_time(drive, 40)
    delegate.perform("other", "RunTask", answers=True)
    while not execution.is_over:
        delegate.pass_time(drive, 1)
        execution.refresh_from_db()
    stops = [
        call.parsed_parameters["task"] for call in drive.calls(execution) if call.operation == "StopTask"
    ]
    assert started.result is not None
    assert stops == [started.result["tasks"][0]["taskArn"]], drive.log(execution)


def test_people_decide_about_two_branches_that_wait_at_once_each_by_itself(
    write: Write, drive: Drive
) -> None:
    intervention = "{type: ManualIntervention, spec: {timeout: 1h, onTimeout: {action: {type: Abort}}}}"
    strategy = f"failureStrategies: [{{onFailure: {{errors: [AllErrors], action: {intervention}}}}}]"
    branches = _build_parallel(
        _build_crashing_step(drive, "one", strategy), _build_crashing_step(drive, "other", strategy)
    )
    pipeline_drive = write(pipeline_text(stage_text(branches + job(drive, "after"))))
    execution = pipeline_drive.start("1.27")
    for _ in range(120):
        pipeline_drive.pass_time(1)
        if sum(step.intervention is not None for step in _get_steps(execution).values()) == 2:
            break
    failed_steps = _get_steps(execution)
    assert failed_steps["one"].intervention, drive.log(execution)[-5:]
    assert failed_steps["other"].intervention, drive.log(execution)[-5:]

    decide_step(actor=pipeline_drive.deployer, execution=execution, step="other", decision="MARK_AS_SUCCESS")
    pipeline_drive.pass_time(2)
    execution.refresh_from_db()
    steps = _get_steps(execution)
    assert (steps["one"].status, steps["other"].status) == ("INTERVENTION_WAITING", "SUCCESS")
    assert (execution.status, steps["after"].status) == ("INTERVENTION_WAITING", "QUEUED")
    # The failure of the branch that is still open is not forgotten with that of the other.
    assert build_execution_document(execution, pipeline_drive.deployer)["failure"]["step"] == "one"

    decide_step(actor=pipeline_drive.deployer, execution=execution, step="one", decision="IGNORE")
    pipeline_drive.until_over(execution, most_seconds=300)
    assert _get_steps(execution)["after"].status == "SUCCESS"
    assert execution.status == "IGNORE_FAILED"


def test_a_retry_shows_the_failure_of_the_branch_that_still_waits_before_an_ignored_one(
    write: Write, drive: Drive
) -> None:
    intervention = "{type: ManualIntervention, spec: {timeout: 1h, onTimeout: {action: {type: Abort}}}}"
    strategy = f"failureStrategies: [{{onFailure: {{errors: [AllErrors], action: {intervention}}}}}]"
    ignored = stage_text(_build_crashing_step(drive, "checks", IGNORE), "first")
    names = ("one", "other")
    branches = _build_parallel(*(_build_crashing_step(drive, name, strategy) for name in names))
    pipeline_drive = write(pipeline_text(ignored, stage_text(branches, "second")))
    execution = pipeline_drive.start("1.27")
    for _ in range(180):
        pipeline_drive.pass_time(1)
        if all(_get_steps(execution)[name].intervention for name in names):
            break
    execution.refresh_from_db()
    assert execution.failure["stage"] == "second"
    retried = execution.failure["step"]
    (waiting,) = {*names} - {retried}

    decide_step(actor=pipeline_drive.deployer, execution=execution, step=retried, decision="RETRY")
    pipeline_drive.pass_time(1)
    decide_step(actor=pipeline_drive.deployer, execution=execution, step=waiting, decision="ROLL_BACK")
    pipeline_drive.until_over(execution)
    assert (execution.failure["stage"], execution.failure["step"]) == ("second", waiting)
    assert f"Rolling back: {execution.failure['message']}" in drive.log(execution)


def test_what_runs_after_a_failure_runs_and_the_rest_is_skipped_with_the_reason(
    write: Write, drive: Drive
) -> None:
    first = stage_text(
        _build_crashing_step(drive, "fails", MARK)
        + job(drive, "never")
        + job(drive, "tells", "when: {stageStatus: Failure}"),
        "first",
    )
    second = stage_text(job(drive, "not_now"), "second")
    third_stage = stage_text(
        job(drive, "cleans"), "third", "when: {pipelineStatus: All, condition: <+env.type> != 'x'}"
    )
    execution = write(pipeline_text(first, second, third_stage)).run("done")
    assert execution.status == "FAILED"
    assert execution.failure["step"] == "fails"
    statuses = {
        name: step.status for name, step in _get_steps(execution).items() if not name.startswith("back")
    }
    assert statuses == {
        "fails": "FAILED",
        "never": "SKIPPED",
        "tells": "SUCCESS",
        "not_now": "SKIPPED",
        "cleans": "SUCCESS",
    }
    assert _get_steps(execution)["never"].skip_reason == "because a step before it failed"
    stages = dict(execution.stages.values_list("identifier", "status"))
    assert stages == {"first": "FAILED", "second": "SKIPPED", "third": "SUCCESS"}


def test_an_ignored_failure_beside_the_deployment_says_nothing_of_the_deployment(
    write: Write, drive: Drive, client: Client
) -> None:
    group = _build_parallel(DEPLOY, _build_crashing_step(drive, "checks", IGNORE))
    pipeline_drive = write(pipeline_text(stage_text(group)))
    execution = pipeline_drive.start("1.27")
    for _ in range(60):
        pipeline_drive.pass_time(1)
        if _get_steps(execution)["checks"].status == "IGNORE_FAILED":
            break
    execution.refresh_from_db()
    assert (execution.status, execution.outcome) == ("RUNNING", "")
    pipeline_drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("IGNORE_FAILED", "COMPLETED")
    assert build_execution_document(execution, drive.deployer)["ignored_failures"] == 1
    client.force_login(drive.deployer)
    page = client.get(f"/deployments/{execution.pk}/").content.decode()
    assert "1 failure ignored" in page
    assert "Failure ignored" in client.get("/deployments/").content.decode()
    # What was deployed in spite of a failure beside it is what a rollback of a later one goes back to.
    write(pipeline_text(stage_text(DEPLOY))).run("1.28")
    drive.run("1.29")
    old_execution = Execution.objects.get(artifact__tag="1.28")
    assert roll_back_execution(actor=drive.deployer, execution=old_execution).rerun_of == execution


def test_what_failed_first_is_why_it_failed_though_another_failure_is_ignored_later(
    write: Write, drive: Drive
) -> None:
    cleans = f"when: {{stageStatus: All}}\n    {IGNORE}"
    steps = _build_crashing_step(drive, "fails", MARK) + _build_crashing_step(drive, "cleans", cleans)
    execution = write(pipeline_text(stage_text(steps))).run("done")
    assert (execution.status, execution.failure["step"]) == ("FAILED", "fails")


def test_a_condition_is_asked_when_its_group_would_begin(write: Write, drive: Drive) -> None:
    group = f"""- stepGroup:
    identifier: only_if
    when: {{condition: "<+steps.first.output.exitCodes> == 5 || <+pipeline.variables.go>"}}
    steps:
      {DEPLOY}"""
    last_step = job(drive, "last", "when: {condition: <+pipeline.variables.go> == 'yes'}")
    pipeline_drive = write(
        pipeline_text(stage_text(job(drive, "first") + group + last_step), variables="{go: 'false'}")
    )
    execution = pipeline_drive.run("done")
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED")
    steps = _get_steps(execution)
    assert (steps["deploy"].status, steps["last"].status) == ("SKIPPED", "SKIPPED")
    assert StepGroup.objects.get().status == "SKIPPED"
    assert steps["last"].skip_reason == "because this is false: <+pipeline.variables.go> == 'yes'"
    assert "UpdateService" not in drive.effects()
    unclear_execution = pipeline_drive.run("done", inputs={"go": "maybe"})
    assert unclear_execution.failure["code"] == "UNCLEAR_CONDITION"
    assert "'maybe' is neither true nor false" in unclear_execution.failure["message"]
