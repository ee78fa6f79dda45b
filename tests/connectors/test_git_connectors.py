"""Connectors to Git servers: what they keep, what a test of one says, and that no secret goes astray."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from connectors.models import Connector, Secret
from connectors.operations import create_connector, create_secret, update_connector
from connectors.specs.aws import ConnectorIncomplete, get_credentials
from connectors.specs.sites import find_site_spec_problems
from delegates.access.connector_tests import run_connector_test
from delegates.access.lookup_requests import create_lookup_request
from delegates.models import DelegateTask, LookupRequest
from guards.address_policy import AddressPolicy
from rbac.models import AuditEntry, Scope, User
from tests.fixtures.fake_delegates import hand
from tests.fixtures.git import PASSWORD, USERNAME, GitServer
from tests.secret_watch.marker import planted
from web.http.problems import BadInput

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]
URL = "https://git.example.com/team/app.git"
LOGIN = {"authentication": "UsernamePassword", "username": USERNAME}


@pytest.fixture
def secret(project: Scope, admin: User) -> Secret:
    return create_secret(actor=admin, scope=project, identifier="token", name="Token", value=PASSWORD)


def make(admin: User, scope: Scope, secret: Secret | None = None, **spec: Any) -> Connector:
    return create_connector(
        actor=admin, scope=scope, identifier="git", name="Git", kind="Git", spec=spec, secret=secret
    )


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({}, "url"),
        ({"url": "file:///etc"}, "url"),
        ({"url": "https://me:word@git.example.com/a.git"}, "url"),
        ({"url": "http://169.254.169.254/a.git"}, "url"),
        ({"url": "ssh://-oProxyCommand=id/a"}, "url"),
        ({"url": "https://[fe80::1/app.git"}, "url"),
        ({"url": "https://git.example.com\uff0fteam"}, "url"),
        ({"url": "ssh://[fe80::1/app.git"}, "url"),
        ({"url": "git@git.example.com\uff0fx:team/app.git"}, "url"),
        ({"url": "ssh://git@git.example.com:team/app.git", "authentication": "SshKey"}, "url"),
        ({"url": "ssh://git@git.example.com:99999/app.git", "authentication": "SshKey"}, "url"),
        ({"url": "ssh://git@git.example.com:0/app.git", "authentication": "SshKey"}, "url"),
        ({"url": "ssh://git@git.example.com/a.git"}, "authentication"),
        ({"url": URL, "authentication": "SshKey"}, "authentication"),
        ({"url": URL, "authentication": "Magic"}, "authentication"),
        ({"url": URL, "authentication": "UsernamePassword", "username": "me"}, "secret"),
        ({"url": URL, "authentication": "UsernamePassword"}, "username"),
        ({"url": URL, "username": "me"}, "username"),
        ({"url": URL, "test_repository": "../app"}, "test_repository"),
        ({"url": URL, "delegate_selectors": ["prod"]}, "delegate_selectors"),
        ({"url": URL, "token": "abc"}, "token"),
    ],
)
def test_what_does_not_fit_is_named(spec: dict[str, Any], path: str) -> None:
    assert path in {problem["path"] for problem in find_site_spec_problems("Git", spec, has_secret=False)}


def test_a_change_to_another_type_of_value_is_refused_at_its_place(project: Scope, admin: User) -> None:
    connector = make(admin, project, url=URL)
    with pytest.raises(BadInput) as refused:
        update_connector(actor=admin, connector=connector, spec={"url": URL, "delegate_selectors": 5})
    assert [error["path"] for error in refused.value.errors] == ["delegate_selectors"]


def test_a_secret_does_not_follow_to_another_address(project: Scope, admin: User, secret: Secret) -> None:
    connector = make(admin, project, secret, url=URL, **LOGIN)
    update_connector(actor=admin, connector=connector, name="Renamed", spec=connector.spec)
    assert connector.secret == secret
    elsewhere = {**connector.spec, "url": "https://git.example.org/team/app.git"}
    with pytest.raises(BadInput):
        update_connector(actor=admin, connector=connector, spec=elsewhere)


def test_it_gives_no_credentials_for_aws(project: Scope, admin: User) -> None:
    with pytest.raises(ConnectorIncomplete, match="is for Git, not for AWS"):
        get_credentials(make(admin, project, url=URL))


def test_a_test_counts_branches_and_tags(
    project: Scope, admin: User, secret: Secret, git_server: GitServer
) -> None:
    git_server.commit({"a": "b"})
    connector = make(admin, project, secret, url=git_server.private_url, **LOGIN)
    tested = run_connector_test(actor=admin, connector=connector)
    assert tested.ok, tested.message
    assert connector.last_test_message == f"Connected to {git_server.private_url}: 1 branch, 0 tags."


def test_a_test_of_an_account_asks_for_the_repository_that_is_named(
    project: Scope, admin: User, git_server: GitServer
) -> None:
    git_server.commit({"a": "b"})
    connector = make(admin, project, url=git_server.account, test_repository="app.git")
    assert run_connector_test(actor=admin, connector=connector).ok


def test_a_wrong_password_is_told_with_the_next_step_and_without_itself(
    project: Scope, admin: User, git_server: GitServer
) -> None:
    wrong = create_secret(
        actor=admin, scope=project, identifier="old", name="Old", value=planted("old-pass-word")
    )
    connector = make(admin, project, wrong, url=git_server.private_url, **LOGIN)
    tested = run_connector_test(actor=admin, connector=connector)
    assert "Authentication failed" in tested.message
    assert "token" in tested.next_step
    assert planted("old-pass-word") not in str(list(AuditEntry.objects.values_list("after", flat=True)))


def test_from_here_it_goes_nowhere_private_unless_that_is_set(
    project: Scope, admin: User, git_server: GitServer, settings: Settings
) -> None:
    connector = make(admin, project, url=git_server.url.replace("127.0.0.1", "localhost"))
    settings.OUTGOING_REACH = AddressPolicy(advice="name it")
    tested = run_connector_test(actor=admin, connector=connector)
    assert "private address" in tested.message
    assert "delegate" in tested.next_step


@pytest.mark.django_db(transaction=True)
def test_through_a_delegate_it_is_the_delegate_that_asks(
    project: Scope, admin: User, secret: Secret, git_server: GitServer
) -> None:
    git_server.commit({"a": "b"})
    remote = {"connect_through": "Delegate", "delegate_selectors": ["prod"]}
    connector = make(admin, project, secret, url=git_server.private_url, **LOGIN, **remote)
    prod = hand("prod-eu", tags=("prod",))
    create_lookup_request(actor=admin, connector=connector, kind=LookupRequest.Kind.TEST)
    assert PASSWORD not in DelegateTask.objects.get().payload
    assert prod.serve() == 1
    connector.refresh_from_db()
    assert connector.last_test_ok, connector.last_test_message
    assert connector.last_test_report["delegate"] == "prod-eu on ip-10-0-1-7"


def test_the_form_keeps_the_token_as_a_secret(
    project: Scope, admin: User, browse: Browse, git_server: GitServer
) -> None:
    client = browse(admin)
    form = {
        "in_scope": project.path,
        "name": "Team",
        "url": git_server.private_url,
        "connect_through": "Slipway",
        "secret_value": PASSWORD,
        **LOGIN,
    }
    saved = client.post("/connectors/new/?kind=Git", form)
    connector = Connector.objects.get()
    assert (connector.kind, connector.identifier) == ("Git", "team")
    assert connector.secret is not None
    assert (connector.secret.identifier, connector.secret.value) == ("team_login", PASSWORD)
    page = client.get(saved["Location"]).content.decode()
    assert git_server.private_url in page
    assert "Test region" not in page
    assert PASSWORD not in page
    edited = client.get(f"/connectors/{connector.pk}/edit/")
    assert PASSWORD not in edited.content.decode()
    refused = client.post("/connectors/new/?kind=Git", form | {"url": "file:///etc"})
    assert "url" in refused.context["form"].errors
    assert PASSWORD not in refused.content.decode()


def test_it_is_not_offered_where_aws_is_meant(project: Scope, admin: User, browse: Browse) -> None:
    connector = make(admin, project, url=URL)
    answer = browse(admin).get(f"/api/v1/connectors/{connector.pk}/clusters?region=us-east-1")
    assert answer.status_code == 409
    assert "not for AWS" in answer.json()["detail"]
