"""A script that says the secret output of a step before it: nowhere is it kept so that people can read it."""

from dataclasses import replace

import pytest

from delegates.models import DelegateTask, TaskAttempt, TaskLogChunk
from delegates.protocol.completions import complete_task
from delegates.task_owners import TaskAnswer, register_task_owner
from delegates.task_queue import route_waiting_tasks
from deployments.journal.aws_access import CALL_OWNER
from deployments.journal.call_owner import CallOwner
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.secrecy.planted_secrets import Planted, Search
from tests.secret_watch.marker import planted
from tests.steps.kinds.conftest import Worker
from tests.steps.kinds.test_script import script_step, serve_until_over
from tests.stories.provisioning.conftest import script_step as provisioner_step
from tests.stories.terraform.conftest import States, needs_terraform, states, terraform_step
from web.clock import get_database_time

__all__ = ["states"]

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = planted("made-by-a-step-4711")
# Put together by the shell: the text of a script is no secret.
MAKING = f"KEY='{SECRET[:4]}'; KEY=\"${{KEY}}{SECRET[4:]}\"\n"
KEPT = "outputVariables: [{name: key, type: Secret, value: KEY}]\n"
SAYING = 'echo "opens with <+steps.run.output.key>, or $K"; echo -n "$K" | base64; echo "$K" | cut -c1-99 >&2'
GIVEN = "environmentVariables: [{name: K, type: String, value: x<+steps.run.output.key>x}]\n"


def _searched() -> list[str]:
    search = Search([Planted("the output", SECRET)])
    search.search_database()
    assert search.searched_bytes["database"] > 10_000
    return search.findings


class _OldAgent(Worker):
    """An agent that redacts only the values it was given."""

    def take(self) -> DelegateTask | None:
        task = super().take()
        if task is not None:
            self.payloads[-1] = replace(self.payloads[-1], mask=())
        return task


@pytest.fixture
def old_agent(drive: Drive, worker: Worker) -> Worker:
    register_task_owner(CALL_OWNER, CallOwner(drive.runtime))
    return _OldAgent(worker.instance)


@pytest.mark.parametrize("agent", ["worker", "old_agent"])
@pytest.mark.parametrize(
    "saying", [script_step(SAYING, "say", options=GIVEN), provisioner_step(SAYING, "say", GIVEN)]
)
def test_a_secret_output_is_hidden_in_what_a_later_script_prints(
    write: Write, drive: Drive, request: pytest.FixtureRequest, agent: str, saying: str
) -> None:
    served_by: Worker = request.getfixturevalue(agent)
    ready = write(pipeline_text(stage_text(script_step(MAKING, options=KEPT) + saying)))
    execution = serve_until_over(drive, ready.start(), served_by)
    assert "opens with •••, or x•••x" in drive.log(execution)
    assert TaskLogChunk.objects.filter(lines__contains="opens with").exists()
    assert _searched() == []
    last = served_by.payloads[-1]
    assert last.mask == ((SECRET,) if agent == "worker" else ())


def test_an_agent_is_told_no_secret_that_its_task_does_not_hold(
    write: Write, drive: Drive, worker: Worker
) -> None:
    steps = script_step(MAKING, options=KEPT) + script_step("echo nothing of it", "say")
    execution = serve_until_over(drive, write(pipeline_text(stage_text(steps))).start(), worker)
    assert execution.status == "SUCCESS", execution.failure
    assert worker.payloads[-1].mask == ()


@needs_terraform
@pytest.mark.parametrize("agent", ["worker", "old_agent"])
def test_a_secret_output_is_hidden_in_what_terraform_says(
    write: Write, drive: Drive, request: pytest.FixtureRequest, states: States, agent: str
) -> None:
    variables = "variables: [{name: name, type: String, value: x<+steps.run.output.key>x}]"
    steps = script_step(MAKING, options=KEPT) + terraform_step(states, variables=variables)
    execution = serve_until_over(
        drive, write(pipeline_text(stage_text(steps))).start(), request.getfixturevalue(agent)
    )
    assert execution.status == "SUCCESS", execution.failure
    assert states.inputs() == [f"x{SECRET}x"]
    assert _searched() == []


def test_the_error_of_an_agent_that_hides_nothing_is_kept_without_the_secret(
    write: Write, drive: Drive, old_agent: Worker
) -> None:
    steps = script_step(MAKING, options=KEPT) + script_step(SAYING, "say", options=GIVEN)
    execution = write(pipeline_text(stage_text(steps))).start()
    for _ in range(20):
        drive.reconcile()
        route_waiting_tasks(get_database_time())
        task = old_agent.take()
        if task is None:
            drive.clock.move(1)
        elif SECRET in str(old_agent.payloads[-1].params):
            break
        else:
            old_agent.complete(task, old_agent.perform(task))
    assert task is not None
    now = get_database_time()
    TaskAttempt.objects.create(task=task, fence=task.fence, instance=old_agent.instance, at=now)
    error = {"kind": "TaskError", "code": "DelegateError", "message": f"it broke with {SECRET}"}
    answer = TaskAnswer("FAILED", error={**error, "capability": False})
    assert complete_task(old_agent.instance, task.pk, fence=task.fence, answer=answer)
    drive.until_over(execution)
    assert (execution.failure or {})["message"] == "It broke with •••."
    assert DelegateTask.objects.get(pk=task.pk).reason == "it broke with •••"
    assert _searched() == []
