"""Steps side by side: all go on in one look, one that fails stops the others, all that was done is undone."""

import pytest
from django.test import Client

from deployments.execution.documents import build_execution_document
from deployments.execution.operations import decide_step, roll_back_execution
from deployments.models import Execution, ServiceLock, StepExecution, StepGroup
from tests.deployments.engine.conftest import DEPLOY, Write, job, pipeline_text, stage_text
from tests.deployments.execution.conftest import until_asked  # noqa: F401
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)

IGNORE = "failureStrategies: [{onFailure: {errors: [AllErrors], action: {type: Ignore}}}]"
MARK = "failureStrategies: [{onFailure: {errors: [AllErrors], action: {type: MarkAsFailure}}}]"
CRASH = "example.com/migrate:crash"


def _parallel(*branches: str) -> str:
    lines = "".join(branches).splitlines(keepends=True)
    return "- parallel:\n" + "".join(f"    {line}" for line in lines)


def _steps(execution: Execution) -> dict[str, StepExecution]:
    return {step.identifier: step for step in StepExecution.objects.filter(stage__execution=execution)}


def _crashing(drive: Drive, name: str, more: str = "") -> str:
    return job(drive, name, more).replace("example.com/migrate:done", CRASH)


def test_branches_run_at_the_same_time_and_what_follows_waits_for_all(write: Write, drive: Drive) -> None:
    ready = write(pipeline_text(stage_text(_parallel(DEPLOY, job(drive, "migrate")) + job(drive, "after"))))
    execution = ready.run("1.27")
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED")
    steps = _steps(execution)
    deploy, migrate, after = (steps[name] for name in ("deploy", "migrate", "after"))
    assert deploy.ended_at
    assert migrate.ended_at
    assert migrate.started_at < deploy.ended_at
    assert deploy.started_at < migrate.ended_at
    assert after.started_at >= max(deploy.ended_at, migrate.ended_at)
    assert not ServiceLock.objects.exists()
    shown = build_execution_document(execution, ready.deployer)["stages"][0]["steps"]
    assert [(step["depth"], [head["text"] for head in step["heads"]]) for step in shown] == [
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
    ready = write(pipeline_text(stage_text(_parallel(DEPLOY, _crashing(drive, "migrate")))))
    execution = ready.run("slow-start")
    assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK")
    assert execution.failure["step"] == "migrate"
    steps = _steps(execution)
    assert (steps["deploy"].status, steps["migrate"].status) == ("ABORTED", "FAILED")
    assert drive.service()["taskDefinition"] == before
    assert any("is stopped together with step" in line for line in drive.log(execution))


def test_what_waits_for_a_person_in_one_branch_does_not_hold_up_the_other(write: Write, drive: Drive) -> None:
    ask = "{type: ManualIntervention, spec: {timeout: 1h, onTimeout: {action: {type: Ignore}}}}"
    asking = f"failureStrategies: [{{onFailure: {{errors: [AllErrors], action: {ask}}}}}]"
    ready = write(pipeline_text(stage_text(_parallel(DEPLOY, _crashing(drive, "migrate", asking)))))
    execution = ready.start("1.27")
    for _ in range(300):
        ready.pass_time(1)
        steps = _steps(execution)
        if steps["migrate"].intervention and steps["deploy"].status == "SUCCESS":
            break
    execution.refresh_from_db()
    assert steps["deploy"].status == "SUCCESS"
    assert execution.status == "INTERVENTION_WAITING"
    ready.until_over(execution, most_seconds=5000)
    assert execution.status == "IGNORE_FAILED"


def test_people_decide_about_two_branches_that_wait_at_once_each_by_itself(
    write: Write, drive: Drive
) -> None:
    ask = "{type: ManualIntervention, spec: {timeout: 1h, onTimeout: {action: {type: Abort}}}}"
    asking = f"failureStrategies: [{{onFailure: {{errors: [AllErrors], action: {ask}}}}}]"
    branches = _parallel(_crashing(drive, "one", asking), _crashing(drive, "other", asking))
    ready = write(pipeline_text(stage_text(branches + job(drive, "after"))))
    execution = ready.start("1.27")
    for _ in range(120):
        ready.pass_time(1)
        if sum(step.intervention is not None for step in _steps(execution).values()) == 2:
            break
    failed = _steps(execution)
    assert failed["one"].intervention, drive.log(execution)[-5:]
    assert failed["other"].intervention, drive.log(execution)[-5:]

    decide_step(actor=ready.deployer, execution=execution, step="other", decision="MARK_AS_SUCCESS")
    ready.pass_time(2)
    execution.refresh_from_db()
    steps = _steps(execution)
    assert (steps["one"].status, steps["other"].status) == ("INTERVENTION_WAITING", "SUCCESS")
    assert (execution.status, steps["after"].status) == ("INTERVENTION_WAITING", "QUEUED")
    # The failure of the branch that is still open is not forgotten with that of the other.
    assert build_execution_document(execution, ready.deployer)["failure"]["step"] == "one"

    decide_step(actor=ready.deployer, execution=execution, step="one", decision="IGNORE")
    ready.until_over(execution, most_seconds=300)
    assert _steps(execution)["after"].status == "SUCCESS"
    assert execution.status == "IGNORE_FAILED"


def test_what_runs_after_a_failure_runs_and_the_rest_is_skipped_with_the_reason(
    write: Write, drive: Drive
) -> None:
    first = stage_text(
        _crashing(drive, "fails", MARK)
        + job(drive, "never")
        + job(drive, "tells", "when: {stageStatus: Failure}"),
        "first",
    )
    second = stage_text(job(drive, "not_now"), "second")
    third = stage_text(
        job(drive, "cleans"), "third", "when: {pipelineStatus: All, condition: <+env.type> != 'x'}"
    )
    execution = write(pipeline_text(first, second, third)).run("done")
    assert execution.status == "FAILED"
    assert execution.failure["step"] == "fails"
    found = {name: step.status for name, step in _steps(execution).items() if not name.startswith("back")}
    assert found == {
        "fails": "FAILED",
        "never": "SKIPPED",
        "tells": "SUCCESS",
        "not_now": "SKIPPED",
        "cleans": "SUCCESS",
    }
    assert _steps(execution)["never"].skip_reason == "because a step before it failed"
    stages = dict(execution.stages.values_list("identifier", "status"))
    assert stages == {"first": "FAILED", "second": "SKIPPED", "third": "SUCCESS"}


def test_an_ignored_failure_beside_the_deployment_says_nothing_of_the_deployment(
    write: Write, drive: Drive, client: Client
) -> None:
    beside = _parallel(DEPLOY, _crashing(drive, "checks", IGNORE))
    ready = write(pipeline_text(stage_text(beside)))
    execution = ready.start("1.27")
    for _ in range(60):
        ready.pass_time(1)
        if _steps(execution)["checks"].status == "IGNORE_FAILED":
            break
    execution.refresh_from_db()
    assert (execution.status, execution.outcome) == ("RUNNING", "")
    ready.until_over(execution)
    assert (execution.status, execution.outcome) == ("IGNORE_FAILED", "COMPLETED")
    assert build_execution_document(execution, drive.deployer)["ignored_failures"] == 1
    client.force_login(drive.deployer)
    shown = client.get(f"/deployments/{execution.pk}/").content.decode()
    assert "1 failure ignored" in shown
    assert "Failure ignored" in client.get("/deployments/").content.decode()
    # What was deployed in spite of a failure beside it is what a rollback of a later one goes back to.
    write(pipeline_text(stage_text(DEPLOY))).run("1.28")
    drive.run("1.29")
    older = Execution.objects.get(artifact__tag="1.28")
    assert roll_back_execution(actor=drive.deployer, execution=older).rerun_of == execution


def test_what_failed_first_is_why_it_failed_though_another_failure_is_ignored_later(
    write: Write, drive: Drive
) -> None:
    cleans = f"when: {{stageStatus: All}}\n    {IGNORE}"
    steps = _crashing(drive, "fails", MARK) + _crashing(drive, "cleans", cleans)
    execution = write(pipeline_text(stage_text(steps))).run("done")
    assert (execution.status, execution.failure["step"]) == ("FAILED", "fails")


def test_a_condition_is_asked_when_its_group_would_begin(write: Write, drive: Drive) -> None:
    group = f"""- stepGroup:
    identifier: only_if
    when: {{condition: "<+steps.first.output.exitCodes> == 5 || <+pipeline.variables.go>"}}
    steps:
      {DEPLOY}"""
    last = job(drive, "last", "when: {condition: <+pipeline.variables.go> == 'yes'}")
    ready = write(pipeline_text(stage_text(job(drive, "first") + group + last), variables="{go: 'false'}"))
    execution = ready.run("done")
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED")
    steps = _steps(execution)
    assert (steps["deploy"].status, steps["last"].status) == ("SKIPPED", "SKIPPED")
    assert StepGroup.objects.get().status == "SKIPPED"
    assert steps["last"].skip_reason == "because this is false: <+pipeline.variables.go> == 'yes'"
    assert "UpdateService" not in drive.effects()
    asked = ready.run("done", inputs={"go": "maybe"})
    assert asked.failure["code"] == "UNCLEAR_CONDITION"
    assert "'maybe' is neither true nor false" in asked.failure["message"]
