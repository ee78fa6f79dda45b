"""Pages of service accounts and API keys: a key is shown once, and opens what it is good for."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from rbac.models import ApiKey, Role, RoleAssignment, Scope, ServiceAccount, User
from rbac.operations import create_api_key, create_service_account
from rbac.operations.api_keys import get_api_key_by_token
from rbac.policy import can

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]


@pytest.fixture
def account(admin: User, project: Scope) -> ServiceAccount:
    """A program of the project that may run its pipelines."""
    service_account = create_service_account(actor=admin, scope=project, name="Build server")
    role = Role.objects.get(identifier="pipeline_executor")
    RoleAssignment.objects.create(user=service_account.user, role=role, scope=project)
    return service_account


def test_a_service_account_gets_a_key_that_is_shown_once(
    admin: User, account: ServiceAccount, browse: Browse
):
    client, address = browse(admin), f"/access/service-accounts/{account.pk}/"
    response = client.post(f"{address}keys/new/", {"name": "main", "within": "account/default/demo"})
    assert "no-store" in response["Cache-Control"]
    token = extract_key(response.content.decode())
    key = get_api_key_by_token(token)
    assert key is not None
    assert (key.user, key.scope, key.created_by) == (account.user, account.scope, admin)
    page = client.get(address).content.decode()
    assert "main" in page
    assert "Pipeline Executor" in page
    assert token not in page


def test_a_key_for_looking_changes_nothing(admin: User, project: Scope, browse: Browse):
    page = browse(admin).post("/access/keys/new/", {"name": "look", "uses": "view", "expires": "30"})
    key = get_api_key_by_token(extract_key(page.content.decode()))
    assert key is not None
    assert key.expires_at is not None
    person = key.user
    person.key_limits = key.limits
    assert can(person, "core_pipeline_view", project)
    assert not can(person, "core_pipeline_execute", project)


def test_a_rotated_key_has_a_new_token_and_both_open_until_the_grace_ends(viewer: User, browse: Browse):
    key, before = create_api_key(actor=viewer, user=viewer, name="CI")
    page = browse(viewer).post(f"/access/keys/{key.pk}/rotate/", {"grace": "3600"}).content.decode()
    after = extract_key(page)
    assert after != before
    assert "The previous key works until" in page
    assert get_api_key_by_token(before) == get_api_key_by_token(after) == key


def test_a_revoked_key_opens_nothing_and_cannot_be_rotated(viewer: User, browse: Browse):
    key, token = create_api_key(actor=viewer, user=viewer, name="CI")
    client = browse(viewer)
    page = client.post(f"/access/keys/{key.pk}/revoke/", follow=True).content.decode()
    assert "API key CI revoked." in page
    assert get_api_key_by_token(token) is None
    response = client.post(f"/access/keys/{key.pk}/rotate/", {"grace": "0"})
    assert response.status_code == 400
    assert "revoked or rotated in the meantime" in response.content.decode()


def test_who_may_less_than_a_service_account_gets_no_key_of_it(
    viewer: User, account: ServiceAccount, project: Scope, browse: Browse
):
    key_role = Role.objects.create(scope=project, identifier="maker", name="Maker")
    key_role.set_permissions(["core_serviceaccount_manageapikey"])
    RoleAssignment.objects.create(user=viewer, role=key_role, scope=project)
    client, address = browse(viewer), f"/access/service-accounts/{account.pk}/keys/new/"
    response = client.post(address, {"name": "mine"})
    assert response.status_code == 400
    assert "has permissions that you do not have. You need core_" in response.content.decode()
    assert not ApiKey.objects.exists()

    key, _ = create_api_key(actor=None, user=account.user, name="main")
    response = client.post(f"/access/keys/{key.pk}/rotate/", {"grace": "0"})
    assert response.status_code == 400
    assert client.post(f"/access/keys/{key.pk}/revoke/").status_code == 302


def test_a_deleted_service_account_is_named_and_gone(admin: User, account: ServiceAccount, browse: Browse):
    _, token = create_api_key(actor=admin, user=account.user, name="main")
    client, address = browse(admin), f"/access/service-accounts/{account.pk}/delete/"
    assert "1 API key stops working" in client.get(address).content.decode()
    page = client.post(address, follow=True).content.decode()
    assert "Service account Build server deleted" in page
    assert get_api_key_by_token(token) is None


def extract_key(page: str) -> str:
    """Return the token that a page shows."""
    match = re.search(r'<code class="path" id="key">(\S+)</code>', page)
    assert match is not None, "No key is shown."
    return match.group(1)
