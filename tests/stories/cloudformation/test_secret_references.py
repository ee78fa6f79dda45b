"""Stack parameters from a secret manager: AWS gets the value; one that cannot be read stops the step."""

import pytest

from connectors.models import Connector, Secret
from connectors.operations import create_secret
from connectors.secret_managers.base import SecretReference
from connectors.secret_values import clear_cached_values
from rbac.models import Scope, User
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.secret_watch.marker import planted
from tests.stories.cloudformation.conftest import CLUSTER, create_step, step_of
from tests.stories.cloudformation.test_secrets import WITH_SECRET

pytestmark = pytest.mark.django_db(transaction=True)
PARAMETERS = f"{CLUSTER}, {{name: Password, type: Secret, value: db_password}}"


def refer(path: str) -> Secret:
    clear_cached_values()
    connector = Connector.objects.select_related("scope", "secret").get(identifier="sandbox_aws")
    return create_secret(
        actor=User.objects.get(username="admin"),
        scope=Scope.objects.get(path="account/default/demo"),
        identifier="db_password",
        name="db",
        reference=SecretReference("AwsSecretsManager", connector, path),
    )


def test_a_reference_is_read_for_the_stack_and_hidden_everywhere(write: Write, drive: Drive) -> None:
    value = planted("of-the-manager")
    drive.call("secretsmanager", "CreateSecret", {"Name": "prod/stack", "SecretString": value})
    secret = refer("prod/stack")
    ready = write(pipeline_text(stage_text(create_step(WITH_SECRET, parameters=PARAMETERS))))
    execution = ready.run()
    assert execution.status == "SUCCESS", execution.failure
    assert step_of(execution).outputs["told"] == "password=•••"
    assert not any(value in line for line in drive.log(execution))
    secret.refresh_from_db()
    assert "execution" in secret.last_read_by
    assert (secret.value, secret.last_read_problem) == ("", "")


def test_a_value_that_cannot_be_read_stops_the_step_before_anything_is_sent(
    write: Write, drive: Drive
) -> None:
    refer("prod/none")
    ready = write(pipeline_text(stage_text(create_step(WITH_SECRET, parameters=PARAMETERS))))
    execution = ready.start()
    mark = drive.mark()
    drive.until_over(execution)
    assert execution.failure is not None
    assert execution.failure["code"] == "SECRET_UNREADABLE"
    assert "AWS Secrets Manager (connector" in execution.failure["message"]
    assert "Check the path" in execution.failure["message"]
    assert drive.effects(mark) == []
