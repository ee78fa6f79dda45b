"""A real agent whose answers do not fit their tasks: the engine goes on, and a person reads what is wrong."""

import json
import sys

import pytest

from delegates.models import DelegateTask
from deployments.execution.operations import run_pipeline
from deployments.models import AwsCall
from pipelines.operations.pipelines import save_pipeline
from rbac.models import Scope, User
from tests.deployments.engine.conftest import pipeline_text, stage_text
from tests.fixtures.script_gates import Gate
from tests.steps.kinds.test_script import script_step
from tests.stories.delegate_deployments.conftest import StartDying
from tests.stories.delegate_deployments.demo_deployments import Work

pytestmark = pytest.mark.django_db(transaction=True)
LYING_AGENT = (sys.executable, "-m", "tests.stories.delegate_deployments.wrong_result_agent")


def test_a_script_whose_answer_does_not_fit_fails_and_says_where(
    work: Work, start: StartDying, gate: Gate
) -> None:
    gate.is_open.set()
    start("liar", program=LYING_AGENT, LIES=json.dumps({"shell": {"outputs": 5}}))
    admin, project = User.objects.get(username="admin"), Scope.objects.get(path="account/default/demo")
    script = script_step(gate.passing).replace("[scripts]", "[prod]")
    pipeline = save_pipeline(actor=admin, scope=project, yaml=pipeline_text(stage_text(script)))
    execution = work.until_over(run_pipeline(actor=work.deployer, pipeline=pipeline))
    assert execution.status == "FAILED"
    assert execution.failure is not None
    assert execution.failure["code"] == "BAD_ANSWER"
    message = execution.failure["message"]
    assert "The delegate liar on " in message
    assert "Shell script. result.exit_code is missing" in message
    task = DelegateTask.objects.get(kind="shell")
    assert (task.status, task.result) == ("FAILED", "")
    assert task.reason.startswith("The delegate liar on ")
    # What ran once does not run again.
    assert gate.visitors == 1


def test_a_write_whose_answer_does_not_fit_is_looked_up_and_never_sent_twice(
    work: Work, start: StartDying
) -> None:
    start("liar", program=LYING_AGENT, LIES=json.dumps({"CreateService": {"service": ["no", "service"]}}))
    after = work.mark()
    execution = work.deploy("1.27")
    work.check_once(execution, after=after)
    call = AwsCall.objects.get(execution=execution, operation="CreateService")
    assert (call.state, call.is_confirmed) == ("ANSWERED", True)
    assert call.task is not None
    assert "result.service must be a mapping, and is a list" in call.task.reason
