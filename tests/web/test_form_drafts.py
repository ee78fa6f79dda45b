"""Creation of a resource from within the form that needs it."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from catalog.models import Environment, Infrastructure
from connectors.models import Connector, Secret
from guards.limits import FORM_DRAFTS
from rbac.models import Role, RoleAssignment, Scope, User
from tests.fixtures.people import make_person
from tests.secret_watch.marker import planted
from web.models import FormDraft
from web.retention import prune_group

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]
SECRET = planted("a-secret-typed-too-early")
TYPED = {
    "name": '"><script>x</script>',
    "identifier": "main",
    "connector": "",
    "method": "STATIC",
    "region": "eu-west-1",
    "cluster": "",
    "mapped_region": "<+provisioner.here>",
    "mapped_cluster": "",
}
CONNECTOR = {
    "name": "New account",
    "credentials": "AssumeRole",
    "role_arn": "arn:aws:iam::123456789012:role/deployer",
    "test_region": "eu-west-1",
    "connect_through": "Slipway",
}


@pytest.fixture
def environment(project: Scope) -> Environment:
    Connector.objects.create(scope=project, identifier="old", name="Old account", spec={})
    return Environment.objects.create(scope=project, identifier="dev", name="Dev")


@pytest.fixture
def form(environment: Environment) -> str:
    """Return the address of a form that needs a connector."""
    return reverse("new-infrastructure", args=[environment.pk])


def leave(client: Client, form: str, **typed: str) -> str:
    """Leave a form to create a connector, and return the address of the next form."""
    response = client.post(form, TYPED | typed | {"create_for": "connector"})
    assert response.status_code == 302, response.content
    return str(response["Location"])


def create_connector(client: Client, address: str, scope: Scope, **fields: str) -> str:
    """Create a connector, and return the address that follows."""
    response = client.post(address, CONNECTOR | {"in_scope": scope.path} | fields)
    assert response.status_code == 302, response.context["form"].errors
    return str(response["Location"])


def get_text(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return str(response.content.decode())


def read_back_link(page: str) -> str:
    """Return the address of the link that cancels."""
    (address,) = re.findall(r'<a class="button ghost" href="([^"]+)">Cancel</a>', page)
    return address.replace("&amp;", "&")


def make_user(scope: Scope, *permissions: str) -> User:
    """Create a user with exactly these permissions in a scope."""
    user = make_person("limited")
    role = Role.objects.create(scope=scope, identifier="limited", name="Limited")
    role.set_permissions(set(permissions))
    RoleAssignment.objects.create(scope=scope, role=role, user=user)
    return user


def test_the_form_is_shown_again_with_its_values_and_the_new_connector(
    form: str, project: Scope, admin: User, browse: Browse
) -> None:
    client = browse(admin)
    address = create_connector(client, leave(client, form), project)
    created = Connector.objects.get(identifier="new_account")
    page = get_text(client, address)
    assert address.startswith(f"{form}?draft=")
    assert "&quot;&gt;&lt;script&gt;x&lt;/script&gt;" in page
    assert "<script>x" not in page
    assert f'<option value="{created.pk}" selected>' in page
    assert '<option value="eu-west-1" selected>' in page
    assert "&lt;+provisioner.here&gt;" in page
    assert "Connector New account created and selected." in page
    assert 'class="error"' not in page, "a form that was not submitted has no errors"
    saved = client.post(address, TYPED | {"name": "Main", "connector": str(created.pk), "cluster": "shop"})
    assert saved.status_code == 302
    assert Infrastructure.objects.get().connector == created
    assert not FormDraft.objects.exists(), "a saved form needs no draft"


def test_only_connectors_that_the_form_can_use_are_offered(
    form: str, project: Scope, other_project: Scope, admin: User, browse: Browse
) -> None:
    client = browse(admin)
    page = get_text(client, leave(client, form))
    assert "Create connector and return" in page
    assert "Kinds of connectors" not in page, "an infrastructure needs an AWS connector"
    assert other_project.path not in re.findall(r'<option value="([^"]+)"', page)
    refused = client.post(leave(client, form), CONNECTOR | {"in_scope": other_project.path})
    assert refused.status_code == 400
    git = get_text(client, leave(client, form).replace("kind=Aws", "kind=Git"))
    assert "New AWS connector" in git


def test_cancel_leads_back_with_the_values(form: str, admin: User, browse: Browse) -> None:
    client = browse(admin)
    back = read_back_link(get_text(client, leave(client, form)))
    page = get_text(client, back)
    assert "&quot;&gt;&lt;script&gt;" in page
    assert "created and selected" not in page


def test_errors_in_the_second_form_keep_the_first_one(
    form: str, project: Scope, admin: User, browse: Browse
) -> None:
    client = browse(admin)
    address = leave(client, form)
    refused = client.post(address, CONNECTOR | {"in_scope": project.path, "role_arn": "wrong"})
    assert refused.status_code == 400
    assert "&quot;&gt;&lt;script&gt;" in get_text(client, read_back_link(refused.content.decode()))
    assert "created and selected" in get_text(client, create_connector(client, address, project))


def test_a_missing_permission_hides_the_button_and_refuses_its_request(
    form: str, project: Scope, browse: Browse
) -> None:
    client = browse(make_user(project, "core_environment_view", "core_environment_edit"))
    Connector.objects.all().delete()
    page = get_text(client, form)
    assert "create_for" not in page
    assert "core_connector_edit" in page
    assert client.post(form, TYPED | {"create_for": "connector"}).status_code == 403
    assert not FormDraft.objects.exists()


def test_without_connectors_the_form_offers_to_create_one(form: str, admin: User, browse: Browse) -> None:
    Connector.objects.all().delete()
    client = browse(admin)
    assert 'name="create_for" value="connector"' in get_text(client, form)
    assert client.post(form, {"create_for": "connector"}).status_code == 302


@pytest.mark.parametrize("field", ["", "name", "secret", "connector\n", "__class__", "manifests-0-connector"])
def test_other_fields_create_nothing(form: str, admin: User, browse: Browse, field: str) -> None:
    assert browse(admin).post(form, TYPED | {"create_for": field}).status_code == 400
    assert not FormDraft.objects.exists()


def test_a_draft_belongs_to_its_user_and_its_form(
    form: str, project: Scope, admin: User, browse: Browse
) -> None:
    client = browse(admin)
    address = leave(client, form)
    back = read_back_link(get_text(client, address))
    stranger = browse(make_person("second", "account_admin", Scope.objects.account()))
    assert "no longer kept" in get_text(stranger, back)
    assert "script" not in get_text(stranger, back).split("<main")[1]
    assert "no longer kept" in get_text(stranger, address)
    other = Environment.objects.create(scope=project, identifier="other", name="Other")
    foreign_form = reverse("new-infrastructure", args=[other.pk])
    assert "no longer kept" in get_text(client, back.replace(form, foreign_form))


@pytest.mark.parametrize("key", ["x", "//evil.example", "https://evil.example", "0" * 32, "%00", "None"])
def test_unknown_drafts_lead_nowhere(
    form: str, project: Scope, admin: User, browse: Browse, key: str
) -> None:
    client = browse(admin)
    assert client.get(f"{form}?draft={key}").status_code in (200, 400)
    assert client.get(f"/connectors/new/?for={key}").status_code in (200, 400)
    if key != "%00":
        address = create_connector(client, f"/connectors/new/?for={key}", project)
        assert re.fullmatch(r"/connectors/\d+/", address)


def test_an_expired_draft_loses_no_connector(form: str, project: Scope, admin: User, browse: Browse) -> None:
    client = browse(admin)
    address = leave(client, form)
    FormDraft.objects.update(created_at=timezone.now() - timedelta(hours=25))
    assert re.fullmatch(r"/connectors/\d+/", create_connector(client, address, project))
    prune_group("drafts", timezone.now())
    assert not FormDraft.objects.exists()


def test_two_tabs_keep_their_own_values(form: str, project: Scope, admin: User, browse: Browse) -> None:
    client = browse(admin)
    first, second = leave(client, form, name="First tab"), leave(client, form, name="Second tab")
    back = create_connector(client, first, project)
    assert 'value="First tab"' in get_text(client, back)
    assert 'value="Second tab"' in get_text(client, read_back_link(get_text(client, second)))
    again = create_connector(client, first, project, name="Newest account")
    assert "Connector Newest account created and selected." in get_text(client, again)


def test_an_edited_form_keeps_its_version(form: str, project: Scope, admin: User, browse: Browse) -> None:
    client, connector = browse(admin), Connector.objects.get()
    client.post(form, TYPED | {"name": "Main", "connector": str(connector.pk), "cluster": "shop"})
    place = Infrastructure.objects.get()
    edit = reverse("edit-infrastructure", args=[place.environment_id, place.pk])
    back = read_back_link(get_text(client, leave(client, edit, version="1", cluster="shop")))
    Infrastructure.objects.update(version=2)
    page = get_text(client, back)
    assert 'name="version" value="1"' in page
    assert client.post(back, TYPED | {"version": "1", "connector": str(connector.pk)}).status_code in (
        400,
        409,
    )


def test_secrets_are_never_kept_and_nesting_returns_step_by_step(
    form: str, project: Scope, admin: User, browse: Browse
) -> None:
    client = browse(admin)
    connector_form = leave(client, form)
    typed = CONNECTOR | {"in_scope": project.path, "credentials": "AccessKey", "secret_value": SECRET}
    secret_form = client.post(connector_form, typed | {"access_key_id": "AKIA1234", "create_for": "secret"})[
        "Location"
    ]
    for draft in FormDraft.objects.all():
        assert SECRET not in draft.content
    for encrypted in FormDraft.objects.values_list("content", flat=True):
        assert "AKIA1234" not in str(encrypted), "drafts are encrypted"
    response = client.post(
        secret_form, {"in_scope": project.path, "name": "Key", "value": planted("the-value-of-the-secret")}
    )
    page = get_text(client, response["Location"])
    assert "Secrets and files are not kept." in page
    assert "Secret Key created and selected." in page
    assert SECRET not in page
    assert 'value="AKIA1234"' in page
    secret = Secret.objects.get()
    assert f'<option value="{secret.pk}" selected>' in page
    last = typed | {"access_key_id": "AKIA1234", "secret": str(secret.pk), "secret_value": ""}
    address = client.post(response["Location"], last)["Location"]
    assert address.startswith(form)
    assert "Connector New account created and selected." in get_text(client, address)
    assert Connector.objects.get(identifier="new_account").secret == secret


def test_a_connector_that_its_creator_may_not_use_is_not_selected(
    form: str, project: Scope, browse: Browse
) -> None:
    permissions = ("environment_view", "environment_edit", "connector_view", "connector_edit")
    client = browse(make_user(project, *(f"core_{name}" for name in permissions)))
    page = get_text(client, create_connector(client, leave(client, form), project))
    assert "Connector New account was created, but you cannot use it here." in page


def test_old_drafts_make_room(form: str, admin: User, browse: Browse) -> None:
    client = browse(admin)
    for number in range(FORM_DRAFTS + 2):
        leave(client, form, name=f"Number {number}")
    assert FormDraft.objects.count() == FORM_DRAFTS


def test_a_changed_draft_counts_as_missing(form: str, admin: User, browse: Browse) -> None:
    client = browse(admin)
    back = read_back_link(get_text(client, leave(client, form)))
    leave(client, form, name="Another")
    first, second = FormDraft.objects.order_by("created_at").values_list("pk", "content")
    FormDraft.objects.filter(pk=first[0]).update(content=second[1])
    assert "no longer kept" in get_text(client, back)


def test_enter_saves_the_form(form: str, admin: User, browse: Browse) -> None:
    buttons: list[Any] = re.findall(
        r"<button[^>]*>", get_text(browse(admin), form).split('method="post"')[-1]
    )
    assert "create_for" not in buttons[0]
