"""Connectors to Terraform Cloud: what they keep, what their test says, and where they may lead."""

from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from connectors.models import Connector, Secret
from connectors.operations import create_connector, create_secret, update_connector
from connectors.specs.sites import find_site_spec_problems
from delegates.access.connector_tests import run_connector_test
from delegates.access.lookup_requests import create_lookup_request
from guards.address_policy import AddressPolicy
from rbac.models import Scope, User
from tests.connectors.test_git_connectors import Browse
from tests.fixtures.fake_delegates import hand
from tests.fixtures.terraform_cloud import TOKEN, Fault, TerraformCloudServer
from tests.secret_watch.marker import planted
from web.http.problems import BadInput

pytestmark = pytest.mark.django_db


@pytest.fixture
def secret(project: Scope, admin: User) -> Secret:
    return create_secret(actor=admin, scope=project, identifier="tfc", name="TFC", value=TOKEN)


def make(admin: User, scope: Scope, secret: Secret | None, url: str, **spec: Any) -> Connector:
    return create_connector(
        actor=admin,
        scope=scope,
        identifier="terraform",
        name="Terraform",
        kind="TerraformCloud",
        spec={"url": url, "authentication": "Token", **spec},
        secret=secret,
    )


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({}, "url"),
        ({"url": "ssh://git@app.terraform.io/x"}, "url"),
        ({"url": "http://169.254.169.254/"}, "url"),
        ({"url": "https://me:word@app.terraform.io"}, "url"),
        ({"url": "https://app.terraform.io"}, "authentication"),
        ({"url": "https://app.terraform.io", "authentication": "Token"}, "secret"),
        ({"url": "https://app.terraform.io", "authentication": "Token", "username": "me"}, "username"),
        ({"url": "https://app.terraform.io", "test_repository": "app"}, "test_repository"),
        ({"url": "https://app.terraform.io", "host_key": "ssh-ed25519 AAAA"}, "host_key"),
    ],
)
def test_what_does_not_fit_is_named(spec: dict[str, Any], path: str) -> None:
    assert path in {
        problem["path"] for problem in find_site_spec_problems("TerraformCloud", spec, has_secret=False)
    }


def test_a_test_says_whose_the_token_is(
    project: Scope, admin: User, secret: Secret, terraform_cloud: TerraformCloudServer
) -> None:
    connector = make(admin, project, secret, f"{terraform_cloud.url}/")
    tested = run_connector_test(actor=admin, connector=connector)
    assert tested.ok, tested.message
    assert (
        "the token belongs to api-team_7 with access to the organization acme" in connector.last_test_message
    )


@pytest.mark.parametrize(
    ("change", "message", "step"),
    [
        ({"username": "api-org-acme"}, "an organization's token", "a user or team token"),
        (
            {"faults": [Fault("GET", "account/details", 401)]},
            "does not accept the token (401)",
            "Create a user or team token",
        ),
        ({"faults": [Fault("GET", "account/details", 404)]}, "no Terraform Cloud at this URL", "the URL"),
        ({"faults": [Fault("GET", "organizations", 503)]}, "has a server error (503)", "Try again"),
    ],
)
def test_a_test_that_fails_says_what_to_do(
    project: Scope,
    admin: User,
    secret: Secret,
    terraform_cloud: TerraformCloudServer,
    change: dict[str, Any],
    message: str,
    step: str,
) -> None:
    for name, value in change.items():
        setattr(terraform_cloud, name, value)
    tested = run_connector_test(actor=admin, connector=make(admin, project, secret, terraform_cloud.url))
    assert not tested.ok
    assert message in tested.message
    assert step in tested.next_step


def test_a_wrong_token_is_not_said_again(
    project: Scope, admin: User, terraform_cloud: TerraformCloudServer
) -> None:
    wrong = create_secret(
        actor=admin, scope=project, identifier="old", name="Old", value=planted("an-old-token")
    )
    tested = run_connector_test(actor=admin, connector=make(admin, project, wrong, terraform_cloud.url))
    assert "does not accept the token" in tested.message
    assert planted("an-old-token") not in str(tested.to_json())


def test_from_here_it_goes_nowhere_private_unless_that_is_set(
    project: Scope, admin: User, secret: Secret, terraform_cloud: TerraformCloudServer, settings: Settings
) -> None:
    connector = make(admin, project, secret, terraform_cloud.url.replace("127.0.0.1", "localhost"))
    settings.OUTGOING_REACH = AddressPolicy(advice="name it")
    tested = run_connector_test(actor=admin, connector=connector)
    assert "private address" in tested.message
    assert terraform_cloud.requests == []


@pytest.mark.django_db(transaction=True)
def test_through_a_delegate_it_is_the_delegate_that_asks(
    project: Scope, admin: User, secret: Secret, terraform_cloud: TerraformCloudServer
) -> None:
    worker = hand("edge", tags=("edge",))
    through = {"connect_through": "Delegate", "delegate_selectors": ["edge"]}
    lookup = create_lookup_request(
        actor=admin, connector=make(admin, project, secret, terraform_cloud.url, **through), kind="TEST"
    )
    while worker.serve():
        pass
    lookup.refresh_from_db()
    assert lookup.report is not None
    assert lookup.report["ok"], lookup.report
    assert "api-team_7" in lookup.report["message"]
    assert [payload.mask for payload in worker.payloads] == [(TOKEN,), (TOKEN,)]


def test_a_token_does_not_follow_to_another_address(project: Scope, admin: User, secret: Secret) -> None:
    connector = make(admin, project, secret, "https://app.terraform.io")
    with pytest.raises(BadInput):
        update_connector(
            actor=admin, connector=connector, spec={**connector.spec, "url": "https://terraform.example.org"}
        )


def test_a_form_makes_one_with_its_token_as_a_new_secret(
    project: Scope, admin: User, browse: Browse, terraform_cloud: TerraformCloudServer
) -> None:
    client: Client = browse(admin)
    page_text = client.get("/connectors/new/?kind=TerraformCloud").content.decode()
    for word in ("API token", "https://app.terraform.io", "reads the user of the token"):
        assert word in page_text
    for word in ("User name", "Host keys", "Image path"):
        assert word not in page_text
    form = {
        "in_scope": project.path,
        "name": "Our Terraform",
        "url": terraform_cloud.url,
        "authentication": "Token",
        "connect_through": "Slipway",
        "secret_value": TOKEN,
    }
    answer = client.post("/connectors/new/?kind=TerraformCloud", form)
    assert answer.status_code == 302, answer.content.decode()
    connector = Connector.objects.get(identifier="our_terraform")
    assert (connector.kind, connector.secret and connector.secret.value) == ("TerraformCloud", TOKEN)
    page = client.get(f"/connectors/{connector.pk}/").content.decode()
    assert "API token" in page
    assert TOKEN not in page
    edit = client.get(f"/connectors/{connector.pk}/edit/")
    assert edit.status_code == 200
