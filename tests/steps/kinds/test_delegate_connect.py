"""The step that waits until a task of the stage's deployment is connected as a delegate."""

from datetime import timedelta

import pytest
from django.utils import timezone

from delegates.models import Delegate, DelegateEvent, DelegateInstance
from deployments.models import Execution, StepExecution
from deployments.preview.documents import PreviewDetails
from deployments.preview.operations import preview_pipeline
from pipelines.operations.pipelines import PipelineNotRunnable
from rbac.models import Scope
from tests.deployments.engine.conftest import DEPLOY, Write, pipeline_text, stage_text
from tests.fixtures.delegates import make_delegate, make_instance
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)


def _await(name: str = "eu", before: str = DEPLOY) -> str:
    step = f"- step: {{identifier: connect, type: DelegateConnect, timeout: 2m, spec: {{delegate: {name}}}}}"
    return pipeline_text(stage_text(before + step))


def _list_tasks(drive: Drive) -> list[str]:
    arns: list[str] = drive.call("ecs", "ListTasks", {"cluster": "demo", "serviceName": "myapp"})["taskArns"]
    return arns


def _step(execution: Execution) -> StepExecution:
    return StepExecution.objects.get(stage__execution=execution, identifier="connect")


@pytest.fixture
def delegate() -> Delegate:
    return make_delegate(Scope.objects.get(path="account/default/demo"))


def test_it_succeeds_once_a_task_of_the_deployment_connects(
    write: Write, drive: Drive, delegate: Delegate
) -> None:
    make_instance(delegate, "arn:aws:ecs:us-east-1:123456789012:task/demo/earlier")
    execution = write(_await()).start("1.27")
    drive.pass_time(100)
    execution.refresh_from_db()
    assert not execution.is_over
    task = _list_tasks(drive)[0]
    make_instance(delegate, task, heartbeat_at=timezone.now() + timedelta(minutes=2))
    drive.until_over(execution, most_seconds=60)
    assert execution.outcome == "COMPLETED", execution.failure
    assert _step(execution).all_outputs["connectedTask"] == task


def test_without_a_connection_it_fails_with_the_refusal_and_the_deployment_is_rolled_back(
    write: Write, drive: Drive, delegate: Delegate
) -> None:
    execution = write(_await()).start("1.27")
    drive.pass_time(90)
    DelegateEvent.objects.create(
        scope=delegate.scope,
        name="eu",
        kind=DelegateEvent.Kind.REFUSED,
        at=drive.clock.now(),
        text="The token is revoked.",
    )
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK")
    assert execution.failure is not None
    assert execution.failure["code"] == "DELEGATE_NOT_CONNECTED"
    assert execution.failure["message"].endswith("its registration was refused. The token is revoked.")
    assert _list_tasks(drive) == []


@pytest.mark.parametrize(
    ("text", "code"), [(_await("us"), "DELEGATE_MISSING"), (_await(before=""), "NO_DEPLOYMENT")]
)
def test_it_fails_at_once_without_its_delegate_or_a_deployment(
    write: Write, drive: Drive, delegate: Delegate, text: str, code: str
) -> None:
    execution = write(text).run("1.27")
    assert execution.failure is not None
    assert execution.failure["code"] == code


def test_a_delegate_of_another_project_is_not_found(write: Write, drive: Drive) -> None:
    organization = Scope.objects.get(path="account/default")
    other = Scope.objects.create(
        parent=organization,
        kind=Scope.Kind.PROJECT,
        identifier="other",
        path="account/default/other",
        name="O",
    )
    make_delegate(other)
    execution = write(_await()).run("1.27")
    assert execution.failure is not None
    assert execution.failure["code"] == "DELEGATE_MISSING"
    assert not DelegateInstance.objects.exists()


def test_what_is_no_name_is_refused_when_saved(write: Write) -> None:
    with pytest.raises(PipelineNotRunnable):
        write(_await('""'))


def test_a_preview_does_not_wait(write: Write, drive: Drive, delegate: Delegate) -> None:
    write(_await())
    details = preview_pipeline(actor=drive.deployer, pipeline=drive.pipeline, artifact_tag="1.28")
    assert isinstance(details, PreviewDetails)
    assert [step.failure for step in details.steps] == [None, None]
