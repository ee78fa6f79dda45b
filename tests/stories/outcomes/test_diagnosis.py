"""The cause of a failure is what AWS says, a guess is called one, and not knowing it decides nothing."""

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from deployments.models import Execution
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)


def _deny(drive: Drive, operation: str) -> None:
    drive.sandbox.fault("denied", service="ecs", operation=operation)


def _get_result(execution: Execution) -> tuple[str, str]:
    return execution.status, execution.outcome


def test_a_denied_look_at_tasks_does_not_roll_back_a_healthy_deployment(drive: Drive) -> None:
    drive.run("1.27")
    _deny(drive, "DescribeTasks")
    execution = drive.start("1.28")
    drive.pass_time(30)
    arns = drive.call("ecs", "ListTasks", {"cluster": "demo"})["taskArns"]
    for arn in arns:
        drive.call("ecs", "StopTask", {"cluster": "demo", "task": arn, "reason": "so that somebody looks"})
    drive.until_over(execution)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    (line,) = [
        line
        for line in drive.log(execution)
        if line.startswith("The stopped reason of tasks is not available: ")
    ]
    assert "ecs:DescribeTasks" in line


@pytest.mark.parametrize(
    ("tag", "code", "words"),
    [
        ("oom", "OUT_OF_MEMORY", "exceeded its memory limit"),
        ("killed", "KILLED", "was killed (exit code 137). AWS gives no reason"),
        ("spot", "INTERRUPTED", "AWS reclaimed the capacity"),
    ],
)
def test_exit_code_137_is_out_of_memory_only_where_aws_says_so(
    drive: Drive, tag: str, code: str, words: str
) -> None:
    drive.run("1.27")
    execution = drive.run(tag)
    assert execution.failure["code"] == code
    assert words in execution.failure["message"]
    is_guess = any(line.startswith("What to do: A likely cause: ") for line in drive.log(execution))
    assert is_guess == (code == "KILLED")


def test_a_failure_says_what_to_do_and_quotes_the_last_lines_of_its_container(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.run("crash")
    output = [line.removeprefix("  | ") for line in drive.log(execution) if line.startswith("  | ")]
    assert 0 < len(execution.failure["last_output"]) <= 5
    assert execution.failure["last_output"] == output[-5:]
    client = Client()
    client.force_login(drive.deployer)
    page = client.get(reverse("execution", args=[execution.pk])).content.decode()
    (advice,) = {line for line in drive.log(execution) if line.startswith("What to do: ")}
    assert advice == f"What to do: {execution.failure['advice']}"
    assert f'<p class="advice">{escape(advice)}</p>' in page
    banner = page.partition('class="last-output"')[2].partition("</blockquote>")[0]
    assert banner.endswith(escape(execution.failure["last_output"][-1]))


def test_a_time_out_keeps_the_first_cause(drive: Drive) -> None:
    drive.run("1.27")
    yaml = drive.pipeline.yaml.replace("spec: {}", "spec: {failFast: {failedTasks: 0}}", 1)
    drive.pipeline.yaml = yaml.replace("timeout: 30m", "timeout: 3m", 1)
    drive.pipeline.save(update_fields=["yaml"])
    execution = drive.run("crash")
    assert execution.failure["message"] == (
        "The step did not end within its time-out of 3 minutes. Essential container nginx exited with code 1."
    )
    assert (execution.failure["container"], execution.failure["exit_code"]) == ("nginx", 1)


def test_a_version_that_crashes_once_ecs_has_said_completed_is_no_success(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.run("late")
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK")
    assert execution.failure["code"] == "CONTAINER_EXITED"
    assert "ECS reports completed, watching for 10 s" in drive.log(execution)
