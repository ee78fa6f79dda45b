"""The pages of connectors: the form asks for what fits, the test says who it is and what to do next."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings
from rest_framework.test import APIClient

from catalog.models import Environment, Infrastructure
from connectors.models import Connector, Secret
from connectors.operations import create_connector, create_secret, update_connector
from rbac.models import AuditEntry, Role, RoleAssignment, Scope, User
from rbac.permissions import PERMISSIONS
from sandbox.process import SandboxProcess
from tests.api.sample_project import make_world
from tests.fixtures.people import make_person
from tests.secret_watch.marker import planted

Browse = Callable[[User], Client]
Call = Callable[[User], APIClient]
KEY_VALUE = planted("wonderful/secret+access+key")


def text_of(response: Any) -> str:
    return str(response.content.decode())


@pytest.fixture
def form(project: Scope) -> dict[str, str]:
    """Return the form of a user with an access key."""
    return {
        "in_scope": project.path,
        "name": "Production, Ireland",
        "credentials": "AccessKey",
        "access_key_id": "AKIASANDBOX",
        "secret_value": KEY_VALUE,
        "test_region": "us-east-1",
    }


@pytest.fixture
def connector(project: Scope, admin: User, sandbox: SandboxProcess, settings: Settings) -> Connector:
    settings.ALLOW_AWS_ENDPOINTS = True
    secret = create_secret(actor=admin, scope=project, identifier="key", name="Key", value=KEY_VALUE)
    spec = {"credentials": "AccessKey", "access_key_id": "AKIASANDBOX", "endpoint_url": sandbox.url}
    return create_connector(
        actor=admin, scope=project, identifier="aws", name="AWS", spec=spec, secret=secret
    )


def test_a_key_becomes_a_secret_and_is_never_shown(admin: User, browse: Browse, form: dict[str, str]) -> None:
    response = browse(admin).post("/connectors/new/", form, follow=True)
    connector = Connector.objects.get()
    assert (connector.identifier, connector.spec["credentials"]) == ("production_ireland", "AccessKey")
    assert connector.secret is not None
    assert (connector.secret.identifier, connector.secret.value) == (
        "production_ireland_secret_key",
        KEY_VALUE,
    )
    assert KEY_VALUE not in text_of(response)
    assert KEY_VALUE not in str(list(AuditEntry.objects.values_list("after", flat=True)))


def test_what_does_not_fit_is_said_beside_its_field_and_keeps_nothing(
    admin: User, browse: Browse, form: dict[str, str]
) -> None:
    response = browse(admin).post("/connectors/new/", form | {"access_key_id": "?"})
    assert response.status_code == 400
    assert "access_key_id" in response.context["form"].errors
    assert KEY_VALUE not in text_of(response)
    assert not Secret.objects.exists()


def test_a_role_keeps_only_what_a_role_needs(admin: User, browse: Browse, form: dict[str, str]) -> None:
    client = browse(admin)
    proposed = client.get("/connectors/new/").context["form"]["external_id"].value()
    role = "arn:aws:iam::123456789012:role/deployer"
    role_form = form | {"credentials": "AssumeRole", "role_arn": role, "external_id": proposed}
    client.post("/connectors/new/", role_form | {"access_key_id": "", "secret_value": ""})
    connector = Connector.objects.get()
    assert connector.secret is None
    assert connector.spec == {
        "credentials": "AssumeRole",
        "role_arn": role,
        "external_id": proposed,
        "test_region": "us-east-1",
    }
    client.post("/connectors/new/", form | {"name": "Key", "role_arn": role, "external_id": proposed})
    assert "role_arn" not in Connector.objects.get(identifier="key").spec


def test_the_managers_own_credentials_are_not_even_offered(
    admin: User, browse: Browse, form: dict[str, str], settings: Settings
) -> None:
    settings.ALLOW_MANAGER_CREDENTIALS = False
    client = browse(admin)
    assert "Slipway credentials" not in text_of(client.get("/connectors/new/"))
    refused = client.post("/connectors/new/", form | {"credentials": "DefaultChain"})
    assert "credentials" in refused.context["form"].errors


def test_the_page_tests_what_was_just_saved_once(admin: User, browse: Browse, form: dict[str, str]) -> None:
    client = browse(admin)
    saved = client.post("/connectors/new/", form)
    assert 'hx-trigger="load' in text_of(client.get(saved["Location"]))
    assert 'hx-trigger="load' not in text_of(client.get(saved["Location"]))


def test_a_test_says_who_it_is(connector: Connector, admin: User, browse: Browse) -> None:
    panel = {"HX-Request": "true", "HX-Target": "last-test"}
    page = text_of(browse(admin).post(f"/connectors/{connector.pk}/test/", headers=panel))
    assert "Connected" in page
    assert "<code>123456789012</code>" in page
    assert "1 ECS cluster in us-east-1." in page
    assert "Next step" not in page


def test_a_failed_test_says_what_to_do_next(
    connector: Connector, admin: User, browse: Browse, sandbox: SandboxProcess
) -> None:
    sandbox.fault("denied", service="ecs", operation="ListClusters", count=1)
    page = text_of(browse(admin).post(f"/connectors/{connector.pk}/test/", follow=True))
    assert "Test failed" in page
    assert "Add this policy to" in page
    assert "&quot;Action&quot;: &quot;ecs:ListClusters&quot;" in page


def test_an_edit_never_overwrites_what_somebody_else_saved(
    connector: Connector, admin: User, browse: Browse
) -> None:
    client = browse(admin)
    initial = client.get(f"/connectors/{connector.pk}/edit/").context["form"].initial
    form_values = {name: value for name, value in initial.items() if value} | {"name": "Mine"}
    update_connector(actor=admin, connector=connector, name="Theirs")
    refused = client.post(f"/connectors/{connector.pk}/edit/", form_values)
    assert "Someone else changed this connector" in text_of(refused)
    initial = client.get(f"/connectors/{connector.pk}/edit/").context["form"].initial
    client.post(f"/connectors/{connector.pk}/edit/", form_values | {"version": initial["version"]})
    connector.refresh_from_db()
    assert (connector.name, connector.secret and connector.secret.identifier) == ("Mine", "key")


def test_a_used_connector_stays_and_says_who_uses_it(
    connector: Connector, project: Scope, admin: User, browse: Browse
) -> None:
    environment = Environment.objects.create(scope=project, identifier="dev", name="Dev")
    place = Infrastructure.objects.create(
        environment=environment, identifier="a", name="Alpha", connector=connector, region="x", cluster="c"
    )
    client = browse(admin)
    assert "infrastructure Alpha of Dev" in text_of(client.get(f"/connectors/{connector.pk}/delete/"))
    assert client.post(f"/connectors/{connector.pk}/delete/").status_code == 409
    place.delete()
    client.post(f"/connectors/{connector.pk}/delete/")
    assert not Connector.objects.exists()


def test_the_last_test_is_forgotten_when_the_secret_changes(
    connector: Connector, admin: User, browse: Browse
) -> None:
    client = browse(admin)
    client.post(f"/connectors/{connector.pk}/test/")
    assert "Connected" in text_of(client.get("/connectors/"))
    client.post(f"/secrets/{connector.secret_id}/rotate/", {"value": planted("another good secret")})
    assert "Not tested" in text_of(client.get("/connectors/"))


def test_a_connector_through_a_delegate_needs_no_key(
    admin: User, browse: Browse, form: dict[str, str]
) -> None:
    choice = {"connect_through": "Delegate", "credentials": "Delegate", "delegate_selectors": "prod, eu"}
    response = browse(admin).post("/connectors/new/", form | choice | {"secret_value": ""}, follow=True)
    connector = Connector.objects.get()
    assert connector.spec["delegate_selectors"] == ["prod", "eu"]
    assert "delegates with all of" in text_of(response)
    assert 'value="prod, eu"' in text_of(browse(admin).get(f"/connectors/{connector.pk}/edit/"))


def test_who_may_not_use_its_secret_reads_what_a_test_needs(
    project: Scope, admin: User, browse: Browse
) -> None:
    world = make_world(project, admin, admin)
    person = make_person("somebody")
    role = Role.objects.create(scope=project, identifier="some", name="Some")
    role.set_permissions(set(PERMISSIONS) - {"core_secret_access"})
    RoleAssignment.objects.create(scope=project, role=role, user=person)
    button = f'action="/connectors/{world.connector.pk}/test/"'
    for path in ("/connectors/", f"/connectors/{world.connector.pk}/"):
        assert button in browse(admin).get(path).content.decode()
        page_text = browse(person).get(path).content.decode()
        assert button not in page_text
    assert "You need core_secret_access on the secret key of the connector aws" in page_text


def test_the_secret_of_a_connector_is_a_link_only_for_who_can_view_it(
    project: Scope, admin: User, browse: Browse
) -> None:
    connector = make_world(project, admin, admin).connector
    person = make_person("somebody")
    role = Role.objects.create(scope=project, identifier="some", name="Some")
    role.set_permissions(set(PERMISSIONS) - {"core_secret_view"})
    RoleAssignment.objects.create(scope=project, role=role, user=person)
    link = f'href="/secrets/{connector.secret_id}/"'
    assert link in text_of(browse(admin).get(f"/connectors/{connector.pk}/"))
    assert link not in text_of(browse(person).get(f"/connectors/{connector.pk}/"))


def test_a_session_token_is_removed_by_who_sees_it(
    connector: Connector, admin: User, form: dict[str, str], browse: Browse, call: Call
) -> None:
    token = create_secret(
        actor=admin, scope=connector.scope, identifier="token", name="Token", value=planted("session-token")
    )
    client, page = browse(admin), f"/connectors/{connector.pk}/edit/"
    values = {**form, "endpoint_url": connector.spec["endpoint_url"], "secret_value": ""}

    def post(client: Client, **changes: object) -> Connector:
        version = client.get(page).context["form"]["version"].value()
        posted = client.post(page, {**values, "version": version, **changes})
        assert posted.status_code == 302, text_of(posted)
        return Connector.objects.get()

    assert connector.secret is not None
    given = {"secret": connector.secret.pk, "session_token": token.pk}
    assert post(client, **given).session_token == token
    assert post(client, secret=connector.secret.pk, session_token="").session_token is None
    post(client, **given)
    # The fields of another authentication are hidden, and still sent.
    assert post(client, **given, credentials="DefaultChain").session_token is None
    post(client, **given)
    # Somebody who may not use the token is not offered it, and leaves it.
    editor = make_person("editor")
    role = Role.objects.create(scope=connector.scope, identifier="editor", name="Editor")
    role.set_permissions(["core_connector_edit", "core_connector_view"])
    RoleAssignment.objects.create(scope=connector.scope, role=role, user=editor)
    assert post(browse(editor), name="Renamed", session_token="").session_token == token
    address = f"/api/v1/connectors/{connector.pk}"
    assert call(admin).patch(address, {"name": "AWS"}, "json").json()["session_token"] == "token"
    assert call(admin).patch(address, {"session_token": None}, "json").json()["session_token"] is None


def test_the_api_refuses_to_remove_a_secret_that_is_needed(
    connector: Connector, admin: User, form: dict[str, str], browse: Browse, call: Call
) -> None:
    api, address = call(admin), f"/api/v1/connectors/{connector.pk}"
    secret = connector.secret
    assert secret is not None
    assert api.patch(address, {"name": "Renamed"}, "json").json()["secret"] == secret.identifier
    refused = api.patch(address, {"secret": None}, "json")
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (400, "secret")
    connector.refresh_from_db()
    assert connector.secret == secret
    spec = {
        "credentials": "Delegate",
        "connect_through": "Delegate",
        "endpoint_url": connector.spec["endpoint_url"],
    }
    changed = api.patch(address, {"secret": None, "spec": spec}, "json")
    assert (changed.status_code, changed.json()["secret"]) == (200, None)


def test_a_page_without_a_chosen_secret_keeps_the_present_one(
    connector: Connector, form: dict[str, str], admin: User, browse: Browse
) -> None:
    client, page, secret = browse(admin), f"/connectors/{connector.pk}/edit/", connector.secret
    version = client.get(page).context["form"]["version"].value()
    values = {**form, "endpoint_url": connector.spec["endpoint_url"], "secret": "", "secret_value": ""}
    posted = client.post(page, {**values, "version": version, "name": "Renamed"})
    assert posted.status_code == 302, text_of(posted)
    connector.refresh_from_db()
    assert (connector.name, connector.secret) == ("Renamed", secret)
