"""Secrets that a stack is given: AWS gets the value, nobody reads it, not even from what AWS says."""

import json

import pytest

from connectors.models import Connector
from connectors.operations import create_secret
from connectors.usages import find_usages
from deployments.execution.operations import roll_back_execution
from deployments.models import ActionRun, AwsCall, RollbackCheck, RollbackValue
from rbac.models import Scope, User
from tests.deployments.engine.conftest import DEPLOY, Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.secret_watch import sinks
from tests.secret_watch.marker import planted
from tests.stories.cloudformation.conftest import CLUSTER, TEMPLATE, add_rollback, create_step, step_of

pytestmark = pytest.mark.django_db(transaction=True)
# An output that says the secret, as careless templates do.
WITH_SECRET = TEMPLATE.replace(
    "Parameters:\n", "Parameters:\n  Password: {Type: String, NoEcho: true}\n"
).replace("Outputs:\n", "Outputs:\n  told: {Value: !Sub 'password=${Password}'}\n")


@pytest.mark.parametrize(
    "parameters",
    [
        "{name: Password, type: Secret, value: db_password}",
        "{name: Password, value: '<+secrets.getValue(\"db_password\")>'}",
    ],
)
def test_a_secret_reaches_the_stack_and_no_row_of_ours(write: Write, drive: Drive, parameters: str) -> None:
    value = planted("stack")
    admin, project = User.objects.get(username="admin"), Scope.objects.get(path="account/default/demo")
    secret = create_secret(actor=admin, scope=project, identifier="db_password", name="db", value=value)
    ready = write(pipeline_text(stage_text(create_step(WITH_SECRET, parameters=f"{CLUSTER}, {parameters}"))))
    execution = ready.run()
    assert execution.status == "SUCCESS", execution.failure
    outputs = drive.call("cloudformation", "DescribeStacks", {"StackName": "shop"})["Stacks"][0]["Outputs"]
    assert {"OutputKey": "told", "OutputValue": f"password={value}"} in outputs
    step = step_of(execution)
    assert step.outputs["told"] == "password=•••"
    texts = [
        json.dumps([call.preview, call.error]) + call.parameters for call in AwsCall.objects.filter(step=step)
    ]
    texts += [row.value for row in RollbackValue.objects.filter(step=step)]
    texts += [json.dumps(row.parameters) for row in ActionRun.objects.filter(step=step)]
    texts += [json.dumps([step.outputs, step.spec]), *drive.log(execution)]
    assert not any(value in text for text in texts)
    created = AwsCall.objects.get(step=step, operation="CreateStack")
    assert {parameter["ParameterValue"] for parameter in created.preview["Parameters"]} == {"•••"}
    assert created.preview["TemplateBody"].endswith("characters")
    assert [use.title for use in find_usages(secret, admin).visible] == ["pipeline Flow"]


def test_a_secret_that_is_gone_stops_the_step_before_anything_is_sent(write: Write, drive: Drive) -> None:
    admin, project = User.objects.get(username="admin"), Scope.objects.get(path="account/default/demo")
    secret = create_secret(
        actor=admin, scope=project, identifier="db_password", name="db", value=planted("gone")
    )
    more = "{name: Password, type: Secret, value: db_password}"
    ready = write(pipeline_text(stage_text(create_step(WITH_SECRET, parameters=f"{CLUSTER}, {more}"))))
    execution = ready.start()
    secret.delete()
    mark = drive.mark()
    drive.until_over(execution)
    assert execution.failure is not None
    assert execution.failure["code"] == "SECRET_MISSING"
    assert drive.effects(mark) == []


def test_a_checklist_hides_a_secret_that_the_stack_shows(write: Write, drive: Drive) -> None:
    value = planted("shown")
    admin, project = User.objects.get(username="admin"), Scope.objects.get(path="account/default/demo")
    create_secret(actor=admin, scope=project, identifier="db_password", name="db", value=value)
    template = WITH_SECRET.replace(", NoEcho: true", "")
    more = f"{CLUSTER}, {{name: Password, type: Secret, value: db_password}}"
    for retention in (7, 14):
        parameters = f"{more}, {{name: Retention, value: '{retention}'}}"
        text = pipeline_text(stage_text(create_step(template, parameters=parameters) + DEPLOY))
        execution = write(add_rollback(text)).run(f"1.{retention}")
        assert execution.status == "SUCCESS", execution.failure
    shown = drive.call("cloudformation", "DescribeStacks", {"StackName": "shop"})["Stacks"][0]["Parameters"]
    assert value in [parameter["ParameterValue"] for parameter in shown]
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    checks = RollbackCheck.objects.filter(step__stage__execution=execution)
    texts = [text for check in checks for text in (check.expected, check.actual, check.note)]
    assert any("•••" in text for text in texts), texts
    assert not any(value in text for text in texts)


def test_an_undo_that_fails_hides_the_secrets_in_its_reason(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The name of an operation, which AWS says when it denies the call.
    monkeypatch.setattr(sinks, "insists", False)
    drive.run("1.27")
    execution = drive.run("1.28")
    secret = Connector.objects.get(identifier="sandbox_aws").secret
    assert secret is not None
    secret.value = "UpdateService"
    secret.save()
    drive.sandbox.fault("denied", service="ecs", operation="UpdateService", count=1)
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    row = ActionRun.objects.get(step__stage__execution=execution, state="NOT_RESTORED")
    assert "AWS denied ecs:•••" in row.detail


def test_a_value_that_reads_as_a_secret_is_given_to_the_stack_as_text(write: Write, drive: Drive) -> None:
    value, text = planted("foreign"), '<+secrets.getValue("account.db_password")>'
    admin = User.objects.get(username="admin")
    create_secret(
        actor=admin, scope=Scope.objects.account(), identifier="db_password", name="db", value=value
    )
    template = TEMPLATE.replace("Parameters:\n", "Parameters:\n  Note: {Type: String}\n").replace(
        "Outputs:\n", "Outputs:\n  note: {Value: !Ref Note}\n"
    )
    steps = create_step(template, parameters=f"{CLUSTER}, {{name: Note, value: <+pipeline.variables.note>}}")
    ready = write(pipeline_text(stage_text(steps), variables="{note: <+input>}"))
    execution = ready.run(inputs={"note": text})
    assert execution.status == "SUCCESS", execution.failure
    outputs = drive.call("cloudformation", "DescribeStacks", {"StackName": "shop"})["Stacks"][0]["Outputs"]
    assert {"OutputKey": "note", "OutputValue": text} in outputs
    assert step_of(execution).outputs["note"] == text
