"""Further attempts of a run: the stages that have completed stay as they are, the others run."""

import pytest

from catalog.models import Environment
from deployments.execution.operations import retry_execution, roll_back_execution, start_attempt
from deployments.models import AwsCall, Execution, StageExecution
from tests.deployments.engine.conftest import DEPLOY, Write, job, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from web.http.problems import Conflict

pytestmark = pytest.mark.django_db(transaction=True)

WAIT = "- step: {{identifier: {name}, type: Wait, spec: {{duration: 10s}}}}\n"


def _get_stage(execution: Execution, identifier: str) -> StageExecution:
    return execution.stages.get(identifier=identifier)


def _list_statuses(execution: Execution) -> list[str]:
    return list(execution.stages.order_by("position").values_list("status", flat=True))


def _fail_at_use(drive: Drive, execution: Execution) -> None:
    """Let the second stage fail."""
    while _get_stage(execution, "build").status != "SUCCESS":
        drive.pass_time(1)
    drive.sandbox.fault("denied", service="ecs", operation="RunTask")
    drive.until_over(execution)
    drive.sandbox.clear_faults()


@pytest.fixture
def failed(write: Write, drive: Drive) -> Execution:
    """An execution whose second stage of three fails; it runs what the first one has registered."""
    again = job(drive, "again", task_fields="taskDefinitionArn: <+steps.first.output.taskDefinitionArn>\n")
    pause, rest = (WAIT.format(name=name) for name in ("pause", "rest"))
    steps = {"build": job(drive, "first"), "use": pause + again, "end": rest}
    stages = [stage_text(text, name) for name, text in steps.items()]
    execution = write(pipeline_text(*stages, variables="{a: x}")).start("done", inputs={"a": "given"})
    _fail_at_use(drive, execution)
    assert _list_statuses(execution) == ["SUCCESS", "FAILED", "SKIPPED"]
    return execution


def test_a_retry_begins_at_the_failed_stage_with_the_outputs_of_those_before(
    failed: Execution, drive: Drive
) -> None:
    mark = drive.mark()
    attempt = start_attempt(actor=drive.deployer, execution=failed)
    assert (attempt.number, attempt.attempt, attempt.first_attempt) == (failed.number + 1, 2, failed.pk)
    assert (attempt.artifact, attempt.inputs) == (failed.artifact, {"a": "given"})
    drive.until_over(attempt)
    assert (attempt.status, attempt.outcome) == ("SUCCESS", "COMPLETED"), drive.log(attempt)
    assert _list_statuses(attempt) == ["SKIPPED", "SUCCESS", "SUCCESS"]
    assert [name for name in drive.effects(after=mark) if name != "StopTask"] == ["RunTask"]

    build = _get_stage(attempt, "build")
    assert build.reused_from == _get_stage(failed, "build")
    assert build.skip_reason == f"because execution {failed.number} completed it"
    (first,) = build.steps.filter(section="EXECUTION")
    arn = _get_stage(failed, "build").steps.get(identifier="first").outputs["taskDefinitionArn"]
    assert (first.status, first.outputs["taskDefinitionArn"]) == ("SKIPPED", arn)
    assert _get_stage(attempt, "use").steps.get(identifier="again").outputs["taskDefinitionArn"] == arn
    assert not AwsCall.objects.filter(step__stage=build).exists()
    assert drive.log(attempt)[0] == (
        f"Attempt 2 of execution {failed.number}, started by deployer; not run again: stage {build.name}"
    )
    failed.refresh_from_db()
    assert (failed.status, failed.next_attempt) == ("FAILED", attempt)
    assert len(drive.log(failed)) > 5


def test_a_retry_of_a_retry_reuses_the_results_of_the_first_attempt(failed: Execution, drive: Drive) -> None:
    drive.sandbox.fault("denied", service="ecs", operation="RunTask")
    second = drive.until_over(start_attempt(actor=drive.deployer, execution=failed))
    assert _list_statuses(second) == ["SKIPPED", "FAILED", "SKIPPED"]
    drive.sandbox.clear_faults()
    third = drive.until_over(start_attempt(actor=drive.deployer, execution=second))
    assert (third.status, third.attempt, third.first_attempt) == ("SUCCESS", 3, failed.pk)
    assert _get_stage(third, "build").reused_from == _get_stage(failed, "build")


def test_a_whole_retry_runs_all_stages_and_reads_variables_again(failed: Execution, drive: Drive) -> None:
    Environment.objects.update(variables={"color": "blue"})
    mark = drive.mark()
    attempt = drive.until_over(start_attempt(actor=drive.deployer, execution=failed, whole=True))
    assert (attempt.status, attempt.attempt) == ("SUCCESS", 2)
    assert _list_statuses(attempt) == ["SUCCESS"] * 3
    assert drive.effects(after=mark).count("RunTask") == 2
    assert _get_stage(attempt, "build").values["env"]["variables"] == {"color": "blue"}
    assert drive.log(attempt)[0] == f"Attempt 2 of execution {failed.number}, started by deployer"


def test_a_retry_from_a_stage_keeps_the_variables_of_the_former_attempt(
    failed: Execution, drive: Drive
) -> None:
    Environment.objects.update(variables={"color": "blue"})
    attempt = drive.until_over(start_attempt(actor=drive.deployer, execution=failed, stage="build"))
    assert _list_statuses(attempt) == ["SUCCESS"] * 3
    assert _get_stage(attempt, "build").values["env"]["variables"] == {}
    assert _get_stage(attempt, "build").values["pipeline"]["number"] == attempt.number


def test_a_stage_that_was_rolled_back_since_is_not_reused(write: Write, drive: Drive) -> None:
    assert drive.run("1.27").status == "SUCCESS"
    before = drive.service()["taskDefinition"]
    steps = {"build": DEPLOY, "use": WAIT.format(name="pause") + job(drive, "again")}
    execution = write(pipeline_text(*(stage_text(text, name) for name, text in steps.items()))).start("1.28")
    _fail_at_use(drive, execution)
    drive.sandbox.fault("denied", service="ecs", operation="RunTask")
    attempt = drive.until_over(start_attempt(actor=drive.deployer, execution=execution))
    drive.sandbox.clear_faults()
    assert _list_statuses(attempt) == ["SKIPPED", "FAILED"]
    with pytest.raises(Conflict, match="changed nothing in AWS"):
        roll_back_execution(actor=drive.deployer, execution=attempt)

    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.reconcile()
    drive.until_over(execution)
    assert drive.service()["taskDefinition"] == before
    with pytest.raises(Conflict, match=f"before it was rolled back in execution {execution.number}"):
        start_attempt(actor=drive.deployer, execution=attempt, stage="use")
    third = drive.until_over(start_attempt(actor=drive.deployer, execution=attempt))
    assert (third.status, _list_statuses(third)) == ("SUCCESS", ["SUCCESS", "SUCCESS"])
    assert drive.service()["taskDefinition"] != before


def test_the_failed_step_of_a_retry_can_be_retried_in_place(failed: Execution, drive: Drive) -> None:
    drive.sandbox.fault("denied", service="ecs", operation="RunTask")
    attempt = drive.until_over(start_attempt(actor=drive.deployer, execution=failed))
    drive.sandbox.clear_faults()
    retry_execution(actor=drive.deployer, execution=attempt)
    drive.reconcile()
    drive.until_over(attempt)
    assert attempt.status == "SUCCESS", drive.log(attempt)[-5:]
    assert _list_statuses(attempt) == ["SKIPPED", "SUCCESS", "SUCCESS"]
