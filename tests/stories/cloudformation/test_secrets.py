"""Secrets that a stack is given: AWS gets the value, nobody reads it, not even from what AWS says."""

import json

import pytest

from connectors.operations import create_secret
from connectors.usages import find_usages
from deployments.models import ActionRun, AwsCall, RollbackValue
from rbac.models import Scope, User
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.secret_watch.marker import planted
from tests.stories.cloudformation.conftest import CLUSTER, TEMPLATE, create_step, step_of

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
