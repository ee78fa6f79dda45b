"""A step may say when a deployment that goes wrong is given up (P03)."""

from typing import Any

import pytest

from connectors.models import FileNode
from deployments.models import Execution, StepExecution
from pipelines.editor.suggestions import build_full_schema
from pipelines.operations.pipelines import PipelineNotRunnable, save_pipeline
from rbac.models import User
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)


def _set_fail_fast(drive: Drive, text: str) -> str:
    yaml_text = drive.pipeline.yaml.replace("spec: {}", f"spec: {{failFast: {text}}}", 1)
    assert "failFast" in yaml_text
    return yaml_text


def _set(drive: Drive, text: str) -> None:
    drive.pipeline.yaml = _set_fail_fast(drive, text)
    drive.pipeline.save(update_fields=["yaml"])


def _failed_tasks(drive: Drive) -> int:
    arns = drive.call("ecs", "ListTasks", {"cluster": "demo", "desiredStatus": "STOPPED"})["taskArns"]
    tasks = drive.call("ecs", "DescribeTasks", {"cluster": "demo", "tasks": arns})["tasks"] if arns else []
    return sum(task["stopCode"] != "ServiceSchedulerInitiated" for task in tasks)


def _seconds(execution: Execution) -> float:
    step = StepExecution.objects.get(stage__execution=execution, type="EcsRollingDeploy")
    assert step.started_at is not None
    assert step.ended_at is not None
    return (step.ended_at - step.started_at).total_seconds()


@pytest.mark.parametrize("count", [1, 2, 4])
def test_so_many_failed_tasks_end_it(drive: Drive, count: int) -> None:
    drive.run("1.27")
    _set(drive, f"{{failedTasks: {count}}}")
    execution = drive.run("crash")
    assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK")
    words = "1 task of" if count == 1 else f"{count} tasks of"
    assert execution.failure["message"].startswith(words)
    assert _failed_tasks(drive) == count


def test_without_any_rule_it_goes_on_until_its_time_out(drive: Drive) -> None:
    drive.run("1.27")
    _set(drive, "{failedTasks: 0, onFatalReason: false}")
    drive.pipeline.yaml = drive.pipeline.yaml.replace("timeout: 30m", "timeout: 5m", 1)
    drive.pipeline.save(update_fields=["yaml"])
    execution = drive.run("nopull")
    assert execution.failure["code"] == "IMAGE_NOT_FOUND"
    assert execution.failure["message"].startswith("The step did not end within its time-out of 5 minutes.")
    assert _seconds(execution) >= 300


def test_a_fatal_reason_may_be_given_three_tries(drive: Drive) -> None:
    drive.run("1.27")
    _set(drive, "{onFatalReason: false}")
    execution = drive.run("nopull")
    assert execution.failure["code"] == "IMAGE_NOT_FOUND"
    assert execution.failure["message"].startswith("3 tasks of this deployment failed")


def test_minutes_without_a_healthy_task_end_it(drive: Drive) -> None:
    drive.run("1.27")
    _set(drive, "{failedTasks: 0, minutesWithoutHealthyTask: 2}")
    execution = drive.run("sick")
    assert execution.failure["code"] == "NO_HEALTHY_TASK"
    assert "after 2 minutes" in execution.failure["message"]
    assert 120 <= _seconds(execution) <= 175
    assert execution.outcome == "ROLLED_BACK"


def test_the_clock_goes_on_where_nobody_looked_for_a_while(drive: Drive) -> None:
    """What counts is in the database: a worker that dies, or looks late, starts no clock anew."""
    drive.run("1.27")
    _set(drive, "{failedTasks: 0, minutesWithoutHealthyTask: 2}")
    execution = drive.start("sick")
    drive.pass_time(10)
    drive.clock.move(110)
    drive.sandbox.advance(110)
    drive.reconcile()
    drive.pass_time(45)
    execution.refresh_from_db()
    assert execution.failure is not None
    assert execution.failure["code"] == "NO_HEALTHY_TASK"
    drive.until_over(execution)
    assert _seconds(execution) <= 170


def test_a_slow_deployment_whose_tasks_are_healthy_is_not_ended_by_the_clock(drive: Drive) -> None:
    node = FileNode.objects.get(path="/ECS Tutorial/CreateServiceRequest.yaml")
    node.content = node.content.replace("desiredCount: 1", "desiredCount: 3")
    node.content = node.content.replace("maximumPercent: 200", "maximumPercent: 134")
    assert "desiredCount: 3" in node.content
    assert "maximumPercent: 134" in node.content
    node.save()
    drive.run("1.27")
    _set(drive, "{minutesWithoutHealthyTask: 2}")
    execution = drive.run("slow")
    assert execution.outcome == "COMPLETED"
    assert _seconds(execution) > 240


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("{failedTasks: -1}", "spec.failFast.failedTasks", "from 0 to 1,000 tasks, not -1"),
        ("{failedTasks: many}", "spec.failFast.failedTasks", "must be a whole number"),
        ("{failedTasks: true}", "spec.failFast.failedTasks", "must be a whole number"),
        ("{minutesWithoutHealthyTask: 2881}", "spec.failFast.minutesWithoutHealthyTask", "to 2,880 minutes"),
        ("{onFatalReason: 1}", "spec.failFast.onFatalReason", "true or false"),
        ("{failedTask: 1}", "spec.failFast.failedTask", "it has failedTasks, minutesWithoutHealthyTask"),
        ("3", "spec.failFast", "must be a mapping"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_saved(
    drive: Drive, text: str, place: str, message: str
) -> None:
    admin = User.objects.get(username="admin")
    with pytest.raises(PipelineNotRunnable) as refused:
        save_pipeline(
            actor=admin, scope=drive.pipeline.scope, pipeline=drive.pipeline, yaml=_set_fail_fast(drive, text)
        )
    (error,) = refused.value.errors
    assert error["path"].endswith(f"step.{place}")
    assert message in error["message"]
    assert error["line"] is not None


def test_an_expression_may_stand_there_and_counts_when_a_run_starts(drive: Drive) -> None:
    admin = User.objects.get(username="admin")
    text = _set_fail_fast(drive, "{failedTasks: <+pipeline.variables.most>}")
    text = text.replace("  name: Rolling demo\n", "  name: Rolling demo\n  variables: {most: 2}\n")
    save_pipeline(actor=admin, scope=drive.pipeline.scope, pipeline=drive.pipeline, yaml=text)
    drive.pipeline.refresh_from_db()
    drive.run("1.27")
    execution = drive.run("crash")
    assert execution.failure["message"].startswith("2 tasks of")


def test_a_step_without_it_does_as_it_always_did(drive: Drive) -> None:
    def get_fail_fast() -> dict[str, Any]:
        step = StepExecution.objects.get(stage__execution=drive.start("1.27"), type="EcsRollingDeploy")
        return step.actions.get(name="WaitForSteadyState").parameters["fail_fast"]

    assert get_fail_fast() == {
        "failedTasks": 3,
        "minutesWithoutHealthyTask": 0,
        "onFatalReason": True,
        "stableSeconds": 10,
    }


def test_the_editor_knows_its_fields() -> None:
    kinds = build_full_schema()["$defs"]["steps"]["items"]["properties"]["step"]["oneOf"]
    (spec,) = [
        kind["properties"]["spec"]["properties"]
        for kind in kinds
        if kind["properties"]["type"]["const"] == "EcsRollingDeploy"
    ]
    assert spec["forceNewDeployment"] == {"type": "boolean"}
    assert spec["failFast"]["properties"] == {
        "failedTasks": {"type": "integer"},
        "minutesWithoutHealthyTask": {"type": "integer"},
        "onFatalReason": {"type": "boolean"},
        "stableSeconds": {"type": "integer"},
    }
