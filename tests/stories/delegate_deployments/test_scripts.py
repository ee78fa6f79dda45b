"""A script that a real agent runs: its lines arrive while it runs, and an abort ends it."""

import pytest

from deployments.execution.operations import abort_execution, run_pipeline
from deployments.log import iterate_lines
from deployments.models import Execution
from pipelines.models import Pipeline
from pipelines.operations.pipelines import save_pipeline
from rbac.models import Scope, User
from tests.delegates.agent.held_tasks import choose_duration, list_sleepers
from tests.deployments.engine.conftest import pipeline_text, stage_text
from tests.fixtures.processes import wait_until
from tests.fixtures.script_gates import Gate
from tests.steps.kinds.test_script import script_step
from tests.stories.delegate_deployments.conftest import StartDying
from tests.stories.delegate_deployments.demo_deployments import Work

pytestmark = pytest.mark.django_db(transaction=True)


def _saved(script: str) -> Pipeline:
    admin, project = User.objects.get(username="admin"), Scope.objects.get(path="account/default/demo")
    text = pipeline_text(stage_text(script_step(script).replace("[scripts]", "[prod]")))
    return save_pipeline(actor=admin, scope=project, yaml=text)


def _has_line(execution: Execution, text: str) -> bool:
    return text in [line["text"] for line in iterate_lines(execution.pk)]


def test_what_a_script_prints_is_seen_at_once_and_an_abort_ends_it(
    work: Work, start: StartDying, gate: Gate
) -> None:
    start("one")
    nap = choose_duration()
    script = f'sleep {nap} &\necho "the first line"\n{gate.passing}\necho over'
    execution = run_pipeline(actor=work.deployer, pipeline=_saved(script))
    wait_until(lambda: _has_line(execution, "the first line"), "the first line", 60)
    assert not Execution.objects.get(pk=execution.pk).is_over
    gate.is_open.set()
    assert work.until_over(execution).status == "SUCCESS", execution.failure
    assert _has_line(execution, "over")
    assert not list_sleepers(nap)

    gate.is_open.clear()
    next_run = run_pipeline(actor=work.deployer, pipeline=execution.pipeline)
    wait_until(lambda: gate.visitors == 2 and list_sleepers(nap), "the second script", 60)
    abort_execution(actor=work.deployer, execution=next_run)
    assert work.until_over(next_run).status == "ABORTED"
    wait_until(lambda: not list_sleepers(nap), "the end of the script", 60)


@pytest.mark.parametrize("dies_at", ["task.acquired:shell"])
def test_a_script_whose_agent_dies_fails_and_is_never_begun_again(
    work: Work, start: StartDying, gate: Gate, dies_at: str
) -> None:
    dying = start("one", dies_at=dies_at)
    execution = run_pipeline(actor=work.deployer, pipeline=_saved(gate.passing))
    wait_until(lambda: not dying.is_alive, f"the death at {dies_at}", 60)
    start("two")
    work.until_over(execution)
    assert execution.failure is not None
    assert execution.failure["code"] == "DELEGATE_LOST"
    assert gate.visitors == 0
