"""Stacks that a real agent makes: once, whatever becomes of the agent, and with secrets that stay hidden."""

import json

import pytest

from connectors.operations import create_secret
from deployments.execution.operations import run_pipeline
from deployments.log import iterate_lines
from deployments.models import AwsCall, Execution
from pipelines.models import Pipeline
from pipelines.operations.pipelines import save_pipeline
from rbac.models import Scope, User
from tests.deployments.engine.conftest import pipeline_text, stage_text
from tests.fixtures.processes import wait_until
from tests.secret_watch.marker import planted
from tests.stories.cloudformation.conftest import CLUSTER, create_step
from tests.stories.cloudformation.test_secrets import WITH_SECRET
from tests.stories.delegate_deployments.conftest import StartDying
from tests.stories.delegate_deployments.demo_deployments import Work

pytestmark = pytest.mark.django_db(transaction=True)
PASSWORD = "{name: Password, type: Secret, value: db_password}"


def _saved(value: str) -> Pipeline:
    admin, project = User.objects.get(username="admin"), Scope.objects.get(path="account/default/demo")
    create_secret(actor=admin, scope=project, identifier="db_password", name="db", value=value)
    text = pipeline_text(stage_text(create_step(WITH_SECRET, parameters=f"{CLUSTER}, {PASSWORD}")))
    return save_pipeline(actor=admin, scope=project, yaml=text)


def _outputs(work: Work, execution: Execution) -> dict[str, str]:
    outputs: dict[str, str] = execution.stages.get().steps.get(identifier="infra").all_outputs
    return outputs


@pytest.mark.parametrize("dies_at", ["", "task.acquired:CreateStack", "task.performed:CreateStack"])
def test_an_agent_makes_a_stack_once(work: Work, start: StartDying, dies_at: str) -> None:
    value = planted("stack-by-agent")
    pipeline = _saved(value)
    first, mark = start("one", dies_at=dies_at), work.mark()
    execution = run_pipeline(actor=work.deployer, pipeline=pipeline)
    if dies_at:
        wait_until(lambda: not first.is_alive, f"the death at {dies_at}", 60)
        start("two")
    work.until_over(execution, 300)
    work.check_once(execution, after=mark)
    assert work.effects(mark)["CreateStack"] == 1
    assert _outputs(work, execution)["told"] == f"password={value}"
    texts = [
        json.dumps(call.preview) + call.parameters for call in AwsCall.objects.filter(execution=execution)
    ]
    texts += [line["text"] for line in iterate_lines(execution.pk)]
    assert not any(value in text for text in texts)
