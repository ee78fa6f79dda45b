"""Opening a connector's door, onto the pretend AWS account."""

import pytest
from cryptography.fernet import Fernet
from pytest_django import Settings

from aws.caller import BotoCaller
from aws.clients import AccessKey
from connectors.models import Connector, Secret
from connectors.operations import create_connector, create_secret, update_connector
from delegates.access import aws_access
from delegates.access.connector_tests import run_connector_test
from rbac.models import AuditEntry, Scope, User
from rbac.policy import Forbidden
from sandbox.process import SandboxProcess
from tests.secret_watch.marker import planted


@pytest.fixture
def secret(project: Scope, admin: User) -> Secret:
    return create_secret(
        actor=admin, scope=project, identifier="key", name="Key", value=planted("secret-of-the-sandbox")
    )


@pytest.fixture
def connector(
    project: Scope, admin: User, secret: Secret, sandbox: SandboxProcess, settings: Settings
) -> Connector:
    settings.ALLOW_AWS_ENDPOINTS = True
    spec = {"credentials": "AccessKey", "access_key_id": "AKIASANDBOX", "endpoint_url": sandbox.url}
    return create_connector(
        actor=admin, scope=project, identifier="aws", name="AWS", spec=spec, secret=secret
    )


def test_a_door_calls_with_the_credentials_of_its_connector(
    connector: Connector, sandbox: SandboxProcess
) -> None:
    expected = BotoCaller(
        AccessKey("AKIASANDBOX", planted("secret-of-the-sandbox")), "us-east-1", sandbox.url
    )
    assert aws_access.open_aws_access(connector, "us-east-1") == expected
    assert "secret-of" not in repr(aws_access.open_aws_access(connector, "us-east-1"))


def test_a_test_says_who_we_are_and_what_is_there(connector: Connector, admin: User) -> None:
    tested = run_connector_test(actor=admin, connector=connector)
    assert tested.ok
    assert tested.account_id == "123456789012"
    assert "1 ECS cluster in us-east-1." in tested.message
    connector.refresh_from_db()
    assert (connector.last_test_ok, connector.last_test_message) == (True, tested.message)
    assert connector.last_tested_at is not None
    entry = AuditEntry.objects.get(action="connector.test")
    assert entry.after == {"ok": True, "message": tested.message}


def test_a_test_that_is_denied_names_the_missing_action(
    connector: Connector, admin: User, sandbox: SandboxProcess
) -> None:
    sandbox.fault("denied", service="ecs", operation="ListClusters", count=1)
    tested = run_connector_test(actor=admin, connector=connector)
    assert not tested.ok
    assert tested.account_id == "123456789012"
    assert "AWS denied ecs:ListClusters" in tested.message


def test_a_test_of_a_place_where_nobody_answers_says_so(connector: Connector, admin: User) -> None:
    connector.spec = {**connector.spec, "endpoint_url": "http://127.0.0.1:9"}
    tested = run_connector_test(actor=admin, connector=connector)
    assert not tested.ok
    assert "was not sent" in tested.message


def test_a_connector_that_lacks_something_is_closed(
    connector: Connector, admin: User, settings: Settings
) -> None:
    keys = settings.FIELD_ENCRYPTION_KEYS
    settings.FIELD_ENCRYPTION_KEYS = (Fernet.generate_key().decode(),)
    with pytest.raises(aws_access.ConnectorUnavailable, match="FIELD_ENCRYPTION_KEY"):
        aws_access.open_aws_access(Connector.objects.get(pk=connector.pk), "us-east-1")
    settings.FIELD_ENCRYPTION_KEYS = keys
    Connector.objects.filter(pk=connector.pk).update(secret=None)
    with pytest.raises(aws_access.ConnectorUnavailable, match="no secret"):
        aws_access.open_aws_access(Connector.objects.get(pk=connector.pk), "us-east-1")
    settings.ALLOW_AWS_ENDPOINTS = False
    with pytest.raises(aws_access.ConnectorUnavailable, match="does not allow"):
        aws_access.open_aws_access(connector, "us-east-1")
    assert not run_connector_test(actor=admin, connector=connector).ok


def test_clusters_are_listed_by_name(connector: Connector, admin: User) -> None:
    (cluster,) = aws_access.list_clusters(actor=admin, connector=connector, region="us-east-1")
    assert cluster.name == "demo"
    assert cluster.arn.endswith(":cluster/demo")


def test_using_a_connector_needs_access_to_it(connector: Connector, viewer: User) -> None:
    with pytest.raises(Forbidden):
        run_connector_test(actor=viewer, connector=connector)
    with pytest.raises(Forbidden):
        aws_access.list_clusters(actor=viewer, connector=connector, region="us-east-1")


def test_a_changed_connector_has_another_door(connector: Connector, admin: User) -> None:
    before = aws_access.build_cache_key(connector)
    run_connector_test(actor=admin, connector=connector)
    assert aws_access.build_cache_key(Connector.objects.get(pk=connector.pk)) == before
    update_connector(actor=admin, connector=connector, spec={**connector.spec, "test_region": "eu-west-1"})
    assert aws_access.build_cache_key(connector) != before


def test_the_result_of_a_test_is_not_stored_on_a_connector_that_was_changed_meanwhile(
    connector: Connector, admin: User
) -> None:
    stale = Connector.objects.get(pk=connector.pk)
    update_connector(actor=admin, connector=connector, spec={**connector.spec, "test_region": "eu-west-1"})
    assert run_connector_test(actor=admin, connector=stale).ok
    connector.refresh_from_db()
    assert (connector.last_test_ok, connector.last_test_message) == (None, "")
    assert not AuditEntry.objects.filter(action="connector.test").exists()
