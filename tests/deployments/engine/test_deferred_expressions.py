"""A step may name what is only known once it begins: the outputs of the steps before it."""

import pytest

from catalog.models import Environment, Service
from deployments.models import ActionRun, Execution, StepExecution
from pipelines.operations.pipelines import PipelineNotRunnable
from tests.deployments.engine.conftest import DEPLOY, Write, job, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)


def _build_second_step(drive: Drive, path: str) -> str:
    """Build a second step that runs the task definition registered by the first."""
    return job(drive, "again", task_fields=f"taskDefinitionArn: {path}\n")


def _get_step(execution: Execution, step: str) -> StepExecution:
    return StepExecution.objects.get(stage__execution=execution, identifier=step)


def test_an_output_of_an_earlier_step_is_filled_in_when_the_step_begins(write: Write, drive: Drive) -> None:
    path = "<+execution.steps.first.output.taskDefinitionArn>"
    pipeline_drive = write(pipeline_text(stage_text(job(drive, "first") + _build_second_step(drive, path))))
    execution = pipeline_drive.start("done")
    assert _get_step(execution, "again").spec["taskDefinitionArn"] == path
    pipeline_drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED")
    first, second = _get_step(execution, "first"), _get_step(execution, "again")
    arn = first.outputs["taskDefinitionArn"]
    assert second.spec["taskDefinitionArn"] == arn == second.outputs["taskDefinitionArn"]
    fetch = ActionRun.objects.get(step=second, name="FetchRunTask")
    assert fetch.parameters["definition_arn"] == arn


def test_an_output_that_the_step_did_not_have_fails_the_step_that_names_it(
    write: Write, drive: Drive
) -> None:
    path = "<+steps.first.output.exitCodes.nothing>"
    pipeline_drive = write(pipeline_text(stage_text(job(drive, "first") + _build_second_step(drive, path))))
    execution = pipeline_drive.run("done")
    assert execution.status == "FAILED"
    assert execution.failure is not None
    assert execution.failure["code"] == "UNKNOWN_EXPRESSION"
    assert execution.failure["step"] == "again"
    assert (
        "taskDefinitionArn: <+steps.first.output.exitCodes.nothing> is unknown"
        in execution.failure["message"]
    )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("<+steps.frist.output.arn>", "no step frist runs before this one. Did you mean first?"),
        ("<+execution.steps.deploy.output.arn>", "step deploy does not end before this step starts"),
        ("<+steps.again.output.arn>", "step again does not end before this step starts"),
        (
            "<+steps.first.output.taskDefinitionAm>",
            "no output taskDefinitionAm. Did you mean <+steps.first.output.taskDefinitionArn>?",
        ),
        ("<+execution.steps.first.output.q>", "no output q. It has exitCodes, leftTasks,"),
        ("<+steps.first>", "use <+steps.identifier.output.name>"),
    ],
)
def test_what_no_step_can_have_found_out_by_then_is_refused_where_it_is_named(
    write: Write, drive: Drive, path: str, message: str
) -> None:
    with pytest.raises(PipelineNotRunnable) as error_info:
        write(pipeline_text(stage_text(job(drive, "first") + _build_second_step(drive, path) + DEPLOY)))
    (error,) = error_info.value.errors
    assert message in error["message"]
    assert error["path"].endswith("steps.1.step.spec.taskDefinitionArn")
    assert error["line"]


def test_what_a_run_is_told_is_never_read_as_an_expression(write: Write, drive: Drive) -> None:
    combined_path = "<+pipeline.variables.a>:<+steps.first.output.taskDefinitionArn>"
    text = stage_text(job(drive, "first") + _build_second_step(drive, combined_path))
    pipeline_drive = write(pipeline_text(text, variables="{a: x}"))
    execution = pipeline_drive.run("done", inputs={"a": "<+steps.first.output.taskArns>"})
    assert (
        _get_step(execution, "again")
        .spec["taskDefinitionArn"]
        .startswith("<+steps.first.output.taskArns>:arn:aws:")
    )


def test_variables_of_service_and_environment_count_in_conditions_and_fields_alike(
    write: Write, drive: Drive
) -> None:
    Service.objects.update(variables={"pause": "1s", "go": "true"})
    Environment.objects.update(variables={"go": "yes"})
    steps = """- stepGroup:
    identifier: g
    when: {condition: <+serviceVariables.go> == 'yes' && <+service.variables.go>}
    steps:
      - step:
          identifier: rest
          type: Wait
          when: {condition: <+variables.go> == <+env.variables.go>}
          spec: {duration: <+service.variables.pause>}
- step: {identifier: never, type: Wait, when: {condition: <+env.variables.go> == 'no'}, spec: {duration: 1m}}
"""
    stage = stage_text(steps, fields="when: {condition: <+env.variables.go> == 'yes'}")
    execution = write(pipeline_text(stage)).run()
    assert execution.status == "SUCCESS", execution.failure
    steps_by_name = {step.identifier: step for step in StepExecution.objects.filter(section="EXECUTION")}
    assert steps_by_name["rest"].spec == {"duration": "1s"}
    assert (steps_by_name["rest"].status, steps_by_name["never"].status) == ("SUCCESS", "SKIPPED")
