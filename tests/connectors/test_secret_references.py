"""References to secret managers of AWS: what they read, what they refuse, and what they never show."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from aws.clients import AccessKey, Endpoint, get_client
from connectors import secret_values
from connectors.models import Connector, Secret
from connectors.operations import (
    create_connector,
    create_secret,
    delete_connector,
    run_secret_test,
    update_connector,
    update_secret,
)
from connectors.required_access import MissingAccess
from connectors.secret_managers.base import SecretReference, SecretUnreadable, get_managers
from connectors.secret_values import MAX_CACHED_VALUES, fetch_secret_value, read_secret_value
from connectors.specs.aws import get_credentials
from rbac.models import AuditEntry, Role, RoleAssignment, Scope, User
from rbac.policy import Forbidden
from sandbox.process import SandboxProcess
from tests.fixtures.people import make_person
from tests.secret_watch.marker import planted
from web.http.problems import BadInput, Conflict, ResourceInUse

Browse = Callable[[User], Client]
VALUE = planted("value-of-the-manager")
DOCUMENT = f'{{"user": "app", "password": "{VALUE}", "port": 5432000, "list": [], "none": null}}'


@pytest.fixture
def aws(project: Scope, admin: User, sandbox: SandboxProcess, settings: Settings) -> Connector:
    settings.ALLOW_AWS_ENDPOINTS = True
    login = create_secret(
        actor=admin, scope=project, identifier="key", name="Key", value=planted("key-of-the-sandbox")
    )
    spec = {"credentials": "AccessKey", "access_key_id": "AKIASANDBOX", "endpoint_url": sandbox.url}
    return create_connector(actor=admin, scope=project, identifier="aws", name="AWS", spec=spec, secret=login)


@pytest.fixture
def clients(sandbox: SandboxProcess) -> Callable[[str], Any]:
    """The clients of the account's owner."""
    key = AccessKey("AKIASANDBOX", planted("key-of-the-sandbox"))
    return lambda service: get_client(key, "us-east-1", Endpoint(sandbox.url), service)


@pytest.fixture
def managed(clients: Callable[[str], Any]) -> None:
    manager, parameters = clients("secretsmanager"), clients("ssm")
    manager.create_secret(Name="prod/db", SecretString=DOCUMENT)
    manager.create_secret(Name="prod/plain", SecretString=VALUE)
    manager.create_secret(Name="prod/binary", SecretBinary=b"\x00\x01\x02\x03\x04\x05")
    manager.create_secret(Name="prod/short", SecretString="abc")
    parameters.put_parameter(Name="/prod/db/password", Value=VALUE, Type="SecureString")
    parameters.put_parameter(Name="/prod/hosts", Value="one-host,another-host", Type="StringList")


def refer(
    connector: Connector, path: str, key: str = "", version: str = "", manager: str = ""
) -> SecretReference:
    return SecretReference(manager or "AwsSecretsManager", connector, path, key, version)


def make_editor(scope: Scope, *permissions: str) -> User:
    """A user with these permissions only."""
    role = Role.objects.create(scope=scope, identifier="editor", name="Editor")
    role.set_permissions(list(permissions))
    person = make_person("editor")
    RoleAssignment.objects.create(scope=scope, role=role, user=person)
    return person


def make(admin: User, connector: Connector, reference: SecretReference, identifier: str = "db") -> Secret:
    return create_secret(
        actor=admin, scope=connector.scope, identifier=identifier, name="Database", reference=reference
    )


@pytest.mark.parametrize(
    ("manager", "path", "key", "version"),
    [
        ("AwsSecretsManager", "prod/db", "password", ""),
        ("AwsSecretsManager", "prod/db", "password", "AWSCURRENT"),
        ("AwsSecretsManager", "prod/plain", "", ""),
        ("AwsParameterStore", "/prod/db/password", "", ""),
        ("AwsParameterStore", "/prod/db/password", "", "1"),
    ],
)
@pytest.mark.usefixtures("managed")
def test_a_reference_reads_the_value_where_it_is(
    aws: Connector, admin: User, manager: str, path: str, key: str, version: str
) -> None:
    secret = make(admin, aws, refer(aws, path, key, version, manager))
    assert read_secret_value(secret, reader="test") == VALUE
    assert Secret.objects.get(pk=secret.pk).value == ""


@pytest.mark.usefixtures("managed")
def test_an_arn_names_its_own_region(aws: Connector, admin: User, clients: Callable[[str], Any]) -> None:
    arn = clients("secretsmanager").describe_secret(SecretId="prod/plain")["ARN"]
    aws.spec = {**aws.spec, "test_region": "eu-central-1"}
    aws.save()
    assert read_secret_value(make(admin, aws, refer(aws, arn)), reader="test") == VALUE


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        (("prod/none", ""), ("AWS Secrets Manager", "prod/none", "Check the path", "us-east-1")),
        (("prod/db", "nothing"), ("key nothing", "no such key", "Correct the key")),
        (("prod/db", "list"), ("holds no text",)),
        (("prod/plain", "password"), ("not a JSON object", "Remove the key")),
        (("prod/binary", ""), ("binary", "Store it as text")),
        (("prod/short", ""), ("fewer than 6 characters",)),
        (("/prod/none", "", "", "AwsParameterStore"), ("Parameter Store", "/prod/none", "Check the path")),
        (("/prod/hosts", "", "", "AwsParameterStore"), ("it is a list", "SecureString")),
    ],
)
@pytest.mark.usefixtures("managed")
def test_what_cannot_be_read_names_manager_path_and_fix(
    aws: Connector, admin: User, reference: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    secret = make(admin, aws, refer(aws, *reference))
    with pytest.raises(SecretUnreadable) as refusal:
        read_secret_value(secret, reader="test")
    assert all(part in str(refusal.value) for part in parts), refusal.value
    assert VALUE not in str(refusal.value)


@pytest.mark.usefixtures("managed")
def test_a_denied_read_names_the_missing_permission(
    aws: Connector, admin: User, sandbox: SandboxProcess
) -> None:
    sandbox.fault("denied", service="secretsmanager", operation="GetSecretValue")
    secret = make(admin, aws, refer(aws, "prod/plain"))
    with pytest.raises(SecretUnreadable, match="Allow secretsmanager:GetSecretValue on .*kms:Decrypt"):
        read_secret_value(secret, reader="test")


@pytest.mark.usefixtures("managed")
def test_a_value_is_read_once_a_minute(
    aws: Connector, admin: User, clients: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = make(admin, aws, refer(aws, "prod/plain"))
    assert read_secret_value(secret, reader="test") == VALUE
    clients("secretsmanager").put_secret_value(SecretId="prod/plain", SecretString=planted("rotated"))
    assert read_secret_value(secret, reader="test") == VALUE
    assert fetch_secret_value(secret, reader="test") == planted("rotated")
    now = secret_values.time.monotonic()
    monkeypatch.setattr(secret_values.time, "monotonic", lambda: now + secret_values.CACHE_SECONDS + 1)
    clients("secretsmanager").put_secret_value(SecretId="prod/plain", SecretString=planted("again"))
    assert read_secret_value(secret, reader="test") == planted("again")


def test_the_memory_of_values_is_bounded() -> None:
    cache = secret_values._ValueCache()
    now = secret_values.timezone.now()
    for number in range(MAX_CACHED_VALUES + 10):
        cache.put((number, now), secret_values._CachedRead(secret_values.time.monotonic() + 60, "value"))
    assert cache.get((0, now)) is None
    assert cache.get((MAX_CACHED_VALUES + 9, now)) is not None
    assert "value" not in repr(cache.get((MAX_CACHED_VALUES + 9, now)))


@pytest.mark.usefixtures("managed")
def test_a_connector_signs_with_a_referenced_key(aws: Connector, admin: User) -> None:
    secret = make(admin, aws, refer(aws, "prod/plain"))
    spec = {"credentials": "AccessKey", "access_key_id": "AKIASANDBOX"}
    other = create_connector(
        actor=admin, scope=aws.scope, identifier="other", name="Other", spec=spec, secret=secret
    )
    assert get_credentials(other) == AccessKey("AKIASANDBOX", VALUE)


@pytest.mark.usefixtures("managed")
def test_a_loop_of_logins_is_refused_from_both_sides(aws: Connector, admin: User) -> None:
    secret = make(admin, aws, refer(aws, "prod/plain"))
    with pytest.raises(BadInput, match="read through this connector"):
        update_connector(actor=admin, connector=aws, spec=aws.spec, secret=secret)
    assert aws.secret is not None
    with pytest.raises(BadInput, match="needs this secret"):
        update_secret(actor=admin, secret=aws.secret, reference=refer(aws, "prod/plain"))


@pytest.mark.usefixtures("managed")
def test_a_loop_in_the_database_ends_with_a_sentence(aws: Connector, admin: User) -> None:
    secret = make(admin, aws, refer(aws, "prod/plain"))
    Connector.objects.filter(pk=aws.pk).update(secret=secret)
    with pytest.raises(SecretUnreadable, match="needs itself"):
        read_secret_value(secret, reader="test")


@pytest.mark.parametrize(
    ("manager", "path", "key", "version", "field"),
    [
        ("Nowhere", "a", "", "", "manager"),
        ("Vault", "prod/db", "key", "", "connector"),
        ("AwsSecretsManager", "", "", "", "path"),
        ("AwsSecretsManager", "a b", "", "", "path"),
        ("AwsSecretsManager", "a\nb", "", "", "path"),
        ("AwsSecretsManager", "a" * 600, "", "", "path"),
        ("AwsSecretsManager", "a", "\x00", "", "key"),
        ("AwsSecretsManager", "a", "k" * 300, "", "key"),
        ("AwsSecretsManager", "a", "", "v v", "version"),
        ("AwsParameterStore", "/a//b", "", "", "path"),
        ("AwsParameterStore", "arn:aws:ssm:us-east-1:1:parameter/x", "", "", "path"),
        ("AwsParameterStore", "/a", "", "0", "version"),
        ("AwsParameterStore", "/a", "", "1:2", "version"),
    ],
)
def test_a_hostile_reference_is_refused_with_its_field(
    aws: Connector, admin: User, manager: str, path: str, key: str, version: str, field: str
) -> None:
    with pytest.raises(BadInput) as refusal:
        make(admin, aws, refer(aws, path, key, version, manager))
    assert field in {error["path"] for error in refusal.value.errors or []}


def test_a_referenced_connector_may_move_to_a_delegate_and_is_not_deleted(
    aws: Connector, admin: User
) -> None:
    make(admin, aws, refer(aws, "prod/db"))
    update_connector(
        actor=admin, connector=aws, spec={"credentials": "Delegate", "connect_through": "Delegate"}
    )
    aws.refresh_from_db()
    with pytest.raises((Conflict, ResourceInUse), match="secret Database"):
        delete_connector(actor=admin, connector=aws)


def test_a_reference_needs_access_to_the_connector(aws: Connector, admin: User) -> None:
    editor = make_editor(aws.scope, "core_secret_edit", "core_secret_view", "core_connector_view")
    with pytest.raises(MissingAccess, match="core_connector_access"):
        make(editor, aws, refer(aws, "prod/db"))


def test_a_value_and_a_reference_replace_each_other(aws: Connector, admin: User) -> None:
    secret = make(admin, aws, refer(aws, "prod/db", "password"))
    update_secret(actor=admin, secret=secret, value=planted("stored now"))
    secret.refresh_from_db()
    assert (secret.kind, secret.value, secret.manager, secret.manager_connector_id, secret.version) == (
        "Text",
        planted("stored now"),
        "",
        None,
        2,
    )
    update_secret(actor=admin, secret=secret, reference=refer(aws, "prod/db", "password"))
    secret.refresh_from_db()
    assert (secret.kind, secret.value, secret.reference_key) == ("Reference", "", "password")
    entry = AuditEntry.objects.filter(action="secret.update").latest("pk")
    assert (entry.after["connector"], entry.after["path"]) == ("aws", "prod/db")


@pytest.mark.usefixtures("managed")
def test_a_test_shows_length_and_time_and_is_recorded(
    aws: Connector,
    admin: User,
    browse: Browse,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    secret = make(admin, aws, refer(aws, "prod/plain"))
    client = browse(admin)
    with django_capture_on_commit_callbacks(execute=True):
        page = client.post(f"/secrets/{secret.pk}/test/", follow=True).content.decode()
    assert f"Read {len(VALUE)} characters in" in page
    assert VALUE not in page
    shown = client.get(f"/secrets/{secret.pk}/").content.decode()
    assert all(text in shown for text in ("AWS Secrets Manager", "prod/plain", f"test by {admin}"))
    assert "AWS Secrets Manager" in client.get("/secrets/").content.decode()
    assert AuditEntry.objects.filter(action="secret.test").exists()


def test_a_test_needs_access_to_the_secret(aws: Connector, admin: User) -> None:
    secret = make(admin, aws, refer(aws, "prod/db"))
    viewer = make_editor(aws.scope, "core_secret_view", "core_secret_edit")
    with pytest.raises(Forbidden):
        run_secret_test(actor=viewer, secret=secret)


def test_the_form_takes_a_reference(aws: Connector, admin: User, browse: Browse) -> None:
    client = browse(admin)
    form = {"in_scope": aws.scope.path, "name": "Database", "source": "Reference", "path": "prod/db"}
    assert b"Choose a secret manager." in client.post("/secrets/new/", form).content
    form |= {"connector": f"AwsSecretsManager:{aws.pk}", "key": "password"}
    assert client.post("/secrets/new/", form).status_code == 302
    secret = Secret.objects.get(identifier="database")
    assert (secret.kind, secret.reference_path, secret.reference_key) == ("Reference", "prod/db", "password")
    change = client.get(f"/secrets/{secret.pk}/rotate/").content.decode()
    assert 'value="prod/db"' in change


def test_the_api_takes_and_shows_a_reference(aws: Connector, admin: User, browse: Browse) -> None:
    client = browse(admin)
    body: dict[str, Any] = {
        "identifier": "db",
        "name": "DB",
        "reference": {
            "manager": "AwsSecretsManager",
            "connector": "aws",
            "path": "prod/db",
            "key": "password",
        },
    }
    scope = dict(zip(("org", "project"), (aws.scope.org, aws.scope.project), strict=True))
    made = client.post("/api/v1/secrets", body | scope, content_type="application/json")
    assert made.status_code == 201, made.content
    assert made.json()["reference"] == {**body["reference"], "version": ""}
    tested = client.post(f"/api/v1/secrets/{made.json()['id']}/test", content_type="application/json")
    assert (tested.json()["ok"], tested.json()["characters"]) == (False, None)
    body["reference"]["connector"] = "nothing"
    refused = client.patch(
        f"/api/v1/secrets/{made.json()['id']}",
        {"reference": body["reference"]},
        content_type="application/json",
    )
    assert refused.status_code == 400


def test_every_manager_has_words_of_its_own() -> None:
    managers = get_managers()
    assert sorted(managers) == ["AwsParameterStore", "AwsSecretsManager", "Vault"]
    assert len({manager.title for manager in managers.values()}) == len(managers)


def test_the_form_offers_a_connector_through_delegates_and_says_who_reads(
    project: Scope, admin: User, browse: Browse
) -> None:
    spec = {"credentials": "Delegate", "connect_through": "Delegate"}
    remote = create_connector(actor=admin, scope=project, identifier="remote", name="Remote", spec=spec)
    page = browse(admin).get("/secrets/new/").content.decode()
    assert f'value="AwsSecretsManager:{remote.pk}"' in page
    assert "or a delegate if the connector connects through one" in page
