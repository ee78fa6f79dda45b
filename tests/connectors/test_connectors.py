"""Creating, changing and deleting secrets and connectors, and the credentials that come of them."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.db.models.signals import pre_save
from pytest_django import Settings

from aws.clients import AccessKey, AssumedRole, DefaultChain
from connectors.models import Connector, Secret
from connectors.operations import (
    create_connector,
    create_secret,
    delete_connector,
    delete_secret,
    update_connector,
    update_secret,
)
from connectors.queries import list_connectors, list_secrets
from connectors.specs.aws import (
    ConnectorIncomplete,
    find_aws_spec_problems,
    get_credentials,
    get_endpoint,
    parse_aws_spec,
)
from rbac.models import AuditEntry, Scope, User
from rbac.policy import Forbidden, NotVisible
from tests.secret_watch.marker import planted
from web.http.problems import BadInput, Conflict

VALUE = planted("wJalrXUtnFEMI-K7MDENG")
KEY: dict[str, Any] = {"credentials": "AccessKey", "access_key_id": "AKIAIOSFODNN7EXAMPLE"}
ROLE = "arn:aws:iam::123456789012:role/deployer"


@pytest.fixture
def secret(project: Scope, admin: User) -> Secret:
    return create_secret(actor=admin, scope=project, identifier="key", name="Key", value=VALUE)


@pytest.fixture
def connector(project: Scope, admin: User, secret: Secret) -> Connector:
    return create_connector(actor=admin, scope=project, identifier="aws", name="AWS", spec=KEY, secret=secret)


def test_an_access_key_becomes_credentials(connector: Connector) -> None:
    assert get_credentials(connector) == AccessKey("AKIAIOSFODNN7EXAMPLE", VALUE)
    assert get_endpoint(connector) is None


def test_a_role_is_assumed_with_a_key_or_with_what_the_process_finds(
    project: Scope, admin: User, secret: Secret
) -> None:
    spec = {"credentials": "AssumeRole", "role_arn": ROLE, "external_id": "abc"}
    bare = create_connector(actor=admin, scope=project, identifier="bare", name="Bare", spec=spec)
    assert get_credentials(bare) == AssumedRole(ROLE, DefaultChain(), external_id="abc")
    with_key = {**spec, "access_key_id": KEY["access_key_id"]}
    keyed = create_connector(
        actor=admin, scope=project, identifier="keyed", name="Keyed", spec=with_key, secret=secret
    )
    assert get_credentials(keyed) == AssumedRole(
        ROLE, AccessKey("AKIAIOSFODNN7EXAMPLE", VALUE), external_id="abc"
    )


@pytest.mark.parametrize("path", ["secret", "session_token"])
def test_a_secret_that_nothing_needs_is_refused(
    project: Scope, admin: User, connector: Connector, secret: Secret, path: str
) -> None:
    named: dict[str, Any] = {path: secret}
    with pytest.raises(BadInput) as refusal:
        create_connector(actor=admin, scope=project, identifier="own", name="Own", spec={}, **named)
    [problem] = refusal.value.errors
    assert problem == {"path": path, "message": "This authentication needs no secret: leave this out."}
    with pytest.raises(BadInput):
        update_connector(actor=admin, connector=connector, spec={}, **named)
    update_connector(actor=admin, connector=connector, spec={})
    connector.refresh_from_db()
    assert connector.secret is None


def test_the_default_chain_needs_nothing(project: Scope, admin: User) -> None:
    connector = create_connector(actor=admin, scope=project, identifier="own", name="Own", spec={})
    assert get_credentials(connector) == DefaultChain()


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"credentials": "Magic"}, "credentials"),
        ({"credentials": "AccessKey"}, "access_key_id"),
        ({"credentials": "AccessKey", "access_key_id": "AKIA1234"}, "secret"),
        ({"credentials": "AssumeRole", "role_arn": "deployer"}, "role_arn"),
        ({"credentials": "AssumeRole", "role_arn": ROLE, "external_id": "x"}, "external_id"),
        ({"credentials": "DefaultChain", "role_arn": ROLE}, "role_arn"),
        ({"test_region": "Virginia"}, "test_region"),
        ({"test_region": "us-east-1.evil.example/"}, "test_region"),
        ({"credentials": ["AccessKey"]}, "credentials"),
        ({"secret_access_key": "x"}, "secret_access_key"),
        ({"endpoint_url": "ftp://x"}, "endpoint_url"),
        ({"endpoint_url": "http://user:pw@x"}, "endpoint_url"),
        ({"endpoint_url": "http://x\t.evil"}, "endpoint_url"),
        ({"endpoint_url": "http://x:notaport"}, "endpoint_url"),
    ],
)
def test_settings_that_do_not_fit_are_refused_at_their_place(
    project: Scope, admin: User, spec: dict[str, Any], path: str, settings: Settings
) -> None:
    settings.ALLOW_AWS_ENDPOINTS = True
    with pytest.raises(BadInput) as caught:
        create_connector(actor=admin, scope=project, identifier="aws", name="AWS", spec=spec)
    assert path in [error["path"] for error in caught.value.errors]
    assert not Connector.objects.exists()


def test_an_endpoint_of_ones_own_needs_the_setting_when_made_and_when_used(
    project: Scope, admin: User, settings: Settings
) -> None:
    spec = {"endpoint_url": "http://127.0.0.1:8001"}
    settings.ALLOW_AWS_ENDPOINTS = False
    with pytest.raises(BadInput):
        create_connector(actor=admin, scope=project, identifier="aws", name="AWS", spec=spec)
    settings.ALLOW_AWS_ENDPOINTS = True
    connector = create_connector(actor=admin, scope=project, identifier="aws", name="AWS", spec=spec)
    assert get_endpoint(connector) == "http://127.0.0.1:8001"
    settings.ALLOW_AWS_ENDPOINTS = False
    with pytest.raises(ConnectorIncomplete, match="SLIPWAY_ALLOW_AWS_ENDPOINTS"):
        get_endpoint(connector)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"credentials": "DefaultChain"}, "credentials"),
        (
            {"credentials": "AssumeRole", "role_arn": "arn:aws:iam::123456789012:role/deployer"},
            "access_key_id",
        ),
    ],
)
def test_the_managers_own_credentials_need_the_setting_when_lent_and_when_used(
    project: Scope, admin: User, settings: Settings, spec: dict[str, str], path: str
) -> None:
    connector = create_connector(actor=admin, scope=project, identifier="lent", name="Lent", spec=spec)
    settings.ALLOW_MANAGER_CREDENTIALS = False
    with pytest.raises(BadInput) as caught:
        create_connector(actor=admin, scope=project, identifier="aws", name="AWS", spec=spec)
    assert [error["path"] for error in caught.value.errors] == [path]
    with pytest.raises(ConnectorIncomplete, match="SLIPWAY_ALLOW_MANAGER_CREDENTIALS"):
        get_credentials(connector)


def test_a_changed_connector_forgets_its_test_and_keeps_its_secret(connector: Connector, admin: User) -> None:
    Connector.objects.filter(pk=connector.pk).update(last_tested_at=connector.created_at, last_test_ok=True)
    connector.refresh_from_db()
    update_connector(actor=admin, connector=connector, spec={**KEY, "test_region": "eu-west-1"})
    connector.refresh_from_db()
    assert connector.last_test_ok is None
    assert connector.secret is not None
    with pytest.raises(BadInput):
        update_connector(actor=admin, connector=connector, spec={**KEY, "access_key_id": "AKIAANOTHER"})


def test_a_connector_without_a_key_lets_go_of_its_secret(connector: Connector, admin: User) -> None:
    update_connector(actor=admin, connector=connector, spec={"credentials": "DefaultChain"})
    connector.refresh_from_db()
    assert connector.secret is None


def test_a_secret_in_use_cannot_be_deleted(connector: Connector, secret: Secret, admin: User) -> None:
    with pytest.raises(Conflict, match="still in use by connector AWS"):
        delete_secret(actor=admin, secret=secret)
    delete_connector(actor=admin, connector=connector)
    delete_secret(actor=admin, secret=secret)
    assert not Secret.objects.exists()


def test_a_replaced_secret_is_used_by_the_next_call(
    connector: Connector, secret: Secret, admin: User
) -> None:
    update_secret(actor=admin, secret=secret, value=planted("another-value"))
    assert get_credentials(Connector.objects.get(pk=connector.pk)) == AccessKey(
        "AKIAIOSFODNN7EXAMPLE", planted("another-value")
    )


def test_a_replaced_secret_does_not_undo_a_change_of_its_connector_at_the_same_moment(
    connector: Connector, secret: Secret, admin: User
) -> None:
    def change_meanwhile(**_: object) -> None:
        Connector.objects.filter(pk=connector.pk).update(name="Renamed")

    pre_save.connect(change_meanwhile, sender=Connector)
    try:
        update_secret(actor=admin, secret=secret, value=planted("another-value"))
    finally:
        pre_save.disconnect(change_meanwhile, sender=Connector)
    before = connector.updated_at
    connector.refresh_from_db()
    assert connector.name == "Renamed"
    assert connector.updated_at > before


def test_a_secret_of_another_project_cannot_be_used(
    other_project: Scope, project: Scope, admin: User
) -> None:
    foreign = create_secret(actor=admin, scope=other_project, identifier="k", name="K", value=VALUE)
    with pytest.raises(BadInput, match="or a scope above"):
        create_connector(actor=admin, scope=project, identifier="a", name="A", spec=KEY, secret=foreign)


@pytest.mark.parametrize("value", ["short", "with\0nul!", "half \ud800 pair", "x" * 70_000])
def test_a_value_that_cannot_be_kept_or_masked_is_refused(project: Scope, admin: User, value: str) -> None:
    with pytest.raises(BadInput):
        create_secret(actor=admin, scope=project, identifier="key", name="Key", value=value)


@pytest.mark.parametrize("identifier", ["", "1a", "a b", "a-b", "a\n", "x" * 129])
def test_identifiers_follow_the_pattern_here_and_in_the_database(
    project: Scope, admin: User, identifier: str
) -> None:
    with pytest.raises(BadInput):
        create_secret(actor=admin, scope=project, identifier=identifier, name="N", value=VALUE)
    if len(identifier) < 129:
        with pytest.raises(IntegrityError), transaction.atomic():
            Secret.objects.create(scope=project, identifier=identifier, name="N", value=VALUE)


def test_an_identifier_is_taken_once_per_scope(secret: Secret, project: Scope, admin: User) -> None:
    with pytest.raises(Conflict, match="already a secret with the identifier key"):
        create_secret(actor=admin, scope=project, identifier="key", name="Again", value=VALUE)
    account = Scope.objects.account()
    create_secret(actor=admin, scope=account, identifier="key", name="Above", value=VALUE)
    assert [entry.scope_id for entry in list_secrets(project)] == [project.pk, account.pk]


def test_nobody_without_the_right_changes_anything(
    connector: Connector, secret: Secret, project: Scope, viewer: User, stranger: User
) -> None:
    for person, refusal in ((viewer, Forbidden), (stranger, NotVisible)):
        with pytest.raises(refusal):
            create_secret(actor=person, scope=project, identifier="x", name="X", value=VALUE)
        with pytest.raises(refusal):
            update_secret(actor=person, secret=secret, value=VALUE)
        with pytest.raises(refusal):
            delete_secret(actor=person, secret=secret)
        with pytest.raises(refusal):
            create_connector(actor=person, scope=project, identifier="x", name="X", spec={})
        with pytest.raises(refusal):
            update_connector(actor=person, connector=connector, name="Mine")
        with pytest.raises(refusal):
            delete_connector(actor=person, connector=connector)


def test_every_change_is_audited_without_the_value(connector: Connector, secret: Secret, admin: User) -> None:
    update_secret(actor=admin, secret=secret, value=planted("another-value"))
    update_connector(actor=admin, connector=connector, name="Renamed")
    entries = list(AuditEntry.objects.order_by("pk"))
    assert [entry.action for entry in entries] == [
        "secret.create",
        "connector.create",
        "secret.update",
        "connector.update",
    ]
    assert entries[3].before["name"] == "AWS"
    assert entries[3].after["name"] == "Renamed"
    assert not any(
        word in str((e.before, e.after)) for e in entries for word in (VALUE, planted("another-value"))
    )


def test_what_can_be_used_from_a_project_lies_there_or_above(
    connector: Connector, project: Scope, other_project: Scope, admin: User
) -> None:
    create_connector(actor=admin, scope=Scope.objects.account(), identifier="all", name="All", spec={})
    create_connector(actor=admin, scope=other_project, identifier="theirs", name="Theirs", spec={})
    assert [entry.identifier for entry in list_connectors(project)] == ["all", "aws"]


@pytest.mark.parametrize(
    ("spec", "path", "text"),
    [
        ({"credentials": "Delegate"}, "credentials", "require a connection through a delegate"),
        (
            {"credentials": "DefaultChain", "connect_through": "Delegate"},
            "credentials",
            "Choose Delegate credentials",
        ),
        ({"credentials": "Delegate", "connect_through": "Moon"}, "connect_through", "Slipway or Delegate"),
        (
            {"credentials": "DefaultChain", "delegate_selectors": ["a"]},
            "delegate_selectors",
            "require connect_through",
        ),
        (
            {"credentials": "Delegate", "connect_through": "Delegate", "delegate_selectors": ["a b"]},
            "delegate_selectors",
            "is not a tag",
        ),
        (
            {"credentials": "Delegate", "connect_through": "Delegate", "delegate_selectors": "a"},
            "delegate_selectors",
            "list of tags",
        ),
    ],
)
def test_a_way_that_does_not_fit_is_told_at_its_field(spec: dict[str, Any], path: str, text: str) -> None:
    assert [
        problem["path"]
        for problem in find_aws_spec_problems(spec, has_secret=False)
        if text in problem["message"]
    ] == [path]


def test_a_connector_keeps_the_tags_that_its_delegates_must_have(project: Scope, admin: User) -> None:
    spec = {
        "credentials": "Delegate",
        "connect_through": "Delegate",
        "delegate_selectors": ["prod", "eu", "eu"],
    }
    connector = create_connector(actor=admin, scope=project, identifier="aws", name="AWS", spec=spec)
    assert parse_aws_spec(connector.spec).delegate_selectors == ("prod", "eu")
    assert parse_aws_spec(connector.spec).is_remote


def test_each_rotation_of_a_secret_has_a_version_of_its_own(secret: Secret, admin: User) -> None:
    seen = [Secret.objects.get(pk=secret.pk) for _ in range(3)]
    for row in seen[:2]:
        update_secret(actor=admin, secret=row, value=planted("another-value"))
    assert Secret.objects.get().version == 3
    entries = AuditEntry.objects.filter(action="secret.update").order_by("pk")
    assert [entry.after["version"] for entry in entries] == [2, 3]
    delete_secret(actor=admin, secret=secret)
    with pytest.raises(NotVisible, match="deleted key meanwhile"):
        update_secret(actor=admin, secret=seen[2], value=planted("third-value"))
