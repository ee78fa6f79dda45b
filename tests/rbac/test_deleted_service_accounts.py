"""What a deleted service account leaves for the trail: its user, its revoked keys, a role of before."""

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from rbac.models import ApiKey, Role, RoleAssignment, Scope, User
from rbac.operations import assign_role, create_service_account, delete_service_account
from rbac.operations.api_keys import create_api_key
from rbac.policy import NotVisible

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]


@pytest.fixture
def program(project: Scope) -> User:
    """Return the user of a service account that was deleted after this user was read."""
    account = create_service_account(actor=None, scope=project, name="Robot")
    create_api_key(actor=None, user=account.user, name="key")
    read_earlier = User.objects.select_related("service_account").get(pk=account.user_id)
    delete_service_account(actor=None, account=account)
    return read_earlier


@pytest.fixture
def client(admin: User, settings: Settings) -> Client:
    settings.ADMIN_NEEDS_SECOND_FACTOR = False
    User.objects.filter(pk=admin.pk).update(is_staff=True)
    client = Client()
    client.force_login(User.objects.get(pk=admin.pk))
    return client


@pytest.fixture
def assignment(program: User, project: Scope) -> RoleAssignment:
    """Return a role from before service accounts were locked for it."""
    return RoleAssignment.objects.create(scope=project, role=get_viewer(), user=program)


def get_viewer() -> Role:
    return Role.objects.get(identifier="viewer", scope=None)


def test_the_admin_page_of_its_user_opens(client: Client, program: User) -> None:
    assert client.get(f"/admin/rbac/user/{program.pk}/change/").status_code == 200


def test_an_administrator_revokes_its_key_again(client: Client, program: User) -> None:
    key = ApiKey.objects.get(user=program)
    assert client.post(f"/admin/rbac/apikey/{key.pk}/delete/", {"post": "yes"}).status_code == 302


def test_it_gets_no_role_any_more(admin: User, program: User, project: Scope) -> None:
    with pytest.raises(NotVisible, match="Somebody deleted"):
        assign_role(actor=admin, scope=project, role=get_viewer(), user=program)


def test_a_role_that_it_kept_is_removed(
    admin: User, client: Client, assignment: RoleAssignment, browse: Browse
) -> None:
    assert client.get(f"/admin/rbac/roleassignment/{assignment.pk}/change/").status_code == 200
    browser, url = browse(admin), reverse("remove-role-assignment", args=[assignment.pk])
    assert browser.get(url).status_code == 200
    assert browser.post(url).status_code == 302
    assert not RoleAssignment.objects.filter(pk=assignment.pk).exists()
