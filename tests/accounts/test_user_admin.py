"""The admin site of access: disabling by the same operation as pages, search, and ways to and from pages."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from rbac.models import AuditEntry, Role, RoleAssignment, Scope, User, UserGroup
from rbac.operations import create_api_key, create_service_account
from rbac.operations.api_keys import get_api_key_by_token
from tests.fixtures.people import make_person
from tests.rbac.people import grant, organization
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]


def build_form(person: User, **changes: Any) -> dict[str, Any]:
    """Return the admin's form of a user with changes; `is_active` is a checkbox."""
    names = ("username", "first_name", "last_name", "email")
    form = {name: getattr(person, name) for name in names}
    return {**form, "is_active": "on", **changes}


def submit(browser: Client, person: User, **changes: Any) -> Any:
    form = {name: value for name, value in build_form(person, **changes).items() if value is not None}
    return browser.post(reverse("admin:rbac_user_change", args=[person.pk]), form)


def test_clearing_active_ends_sessions_and_keys_as_disabling_on_the_page_does(
    admin: User, viewer: User, browse: Browse
) -> None:
    _, token = create_api_key(actor=viewer, user=viewer, name="laptop")
    reader = browse(viewer)
    assert reader.get(reverse("people")).status_code == 200
    assert submit(browse(admin), viewer, is_active=None).status_code == 302
    viewer.refresh_from_db()
    assert not viewer.is_active
    assert get_api_key_by_token(token) is None
    entry = AuditEntry.objects.get(action="user.update")
    assert (entry.actor, entry.before, entry.after) == (admin, {"is_active": True}, {"is_active": False})

    assert submit(browse(admin), viewer).status_code == 302
    viewer.refresh_from_db()
    assert viewer.is_active
    assert reader.get(reverse("people")).status_code == 302, "the session ended, and does not open again"


def test_other_fields_are_saved_and_audited_beside_the_state(
    admin: User, viewer: User, browse: Browse
) -> None:
    submit(browse(admin), viewer, is_active=None, first_name="Vera")
    viewer.refresh_from_db()
    assert (viewer.is_active, viewer.first_name) == (False, "Vera")
    entries = AuditEntry.objects.filter(action="user.update").order_by("pk")
    assert [entry.after for entry in entries] == [{"is_active": False}, {"first_name": "Vera"}]


def test_a_password_that_is_set_while_the_form_is_saved_stays(
    admin: User, viewer: User, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = planted("a quite different staple")

    def set_password_meanwhile(actor: User, person: User) -> None:
        other = User.objects.get(pk=person.pk)
        other.set_password(fresh)
        other.save(update_fields=["password"])

    # The form has read the row before this check.
    monkeypatch.setattr("rbac.admin.users.refuse_more_privileged", set_password_meanwhile)
    assert submit(browse(admin), viewer, first_name="Vera").status_code == 302
    viewer.refresh_from_db()
    assert (viewer.first_name, viewer.check_password(fresh)) == ("Vera", True)


def test_a_user_is_not_renamed_to_a_name_that_differs_from_another_by_case_only(
    admin: User, viewer: User, browse: Browse
) -> None:
    answer = submit(browse(admin), viewer, username="ADMIN")
    assert (answer.status_code, b"The user admin exists." in answer.content) == (200, True)
    viewer.refresh_from_db()
    assert viewer.username == "viewer"
    assert submit(browse(admin), viewer, username="Viewer").status_code == 302, "the own name is no obstacle"
    User.objects.filter(pk=viewer.pk).update(username="Admin")
    assert submit(browse(admin), viewer, username="Admin", first_name="Vera").status_code == 302, (
        "names from before stay"
    )


def test_a_service_account_gets_a_user_name_that_differs_by_more_than_case(
    admin: User, project: Scope
) -> None:
    make_person("CI@demo")
    account = create_service_account(actor=admin, scope=project, name="ci")
    assert account.user.username == "ci@demo_2"


def test_administrators_cannot_disable_themselves_in_the_admin_site_either(
    admin: User, browse: Browse
) -> None:
    response = submit(browse(admin), admin, is_active=None, first_name="Ada", is_staff="on")
    assert response.status_code == 200
    assert "This is your own user. Ask another administrator." in response.content.decode()
    admin.refresh_from_db()
    assert (admin.is_active, admin.first_name) == (True, "")


def search(browser: Client, model: str, field: str, term: str = "") -> list[str]:
    """Return what a select box of the admin site offers."""
    params = {"app_label": "rbac", "model_name": model, "field_name": field, "term": term}
    response = browser.get(reverse("admin:autocomplete"), params)
    assert response.status_code == 200
    return [result["text"] for result in response.json()["results"]]


@pytest.fixture
def org_admin(project: Scope) -> User:
    person = make_person("org_admin")
    User.objects.filter(pk=person.pk).update(is_staff=True)
    grant(person, "organization_admin", organization("default"))
    return User.objects.get(pk=person.pk)


def test_select_boxes_offer_what_their_form_accepts(
    org_admin: User, viewer: User, stranger: User, project: Scope, other_project: Scope, browse: Browse
) -> None:
    create_service_account(actor=None, scope=other_project, name="Foreign")
    UserGroup.objects.create(scope=project, identifier="crew", name="Crew")
    UserGroup.objects.create(scope=other_project, identifier="else", name="Elsewhere")
    Role.objects.create(scope=other_project, identifier="far", name="Far role")
    browser = browse(org_admin)
    assert search(browser, "roleassignment", "user") == ["org_admin", "viewer"]
    assert search(browser, "roleassignment", "user", "VIEW") == ["viewer"]
    assert search(browser, "roleassignment", "group") == ["Crew"]
    assert "Far role" not in search(browser, "roleassignment", "role")
    assert search(browser, "roleassignment", "role", "executor") == ["Pipeline Executor"]
    assert len(search(browser, "roleassignment", "scope")) == 2
    assert search(browser, "usergroup", "users") == ["org_admin", "viewer"]


def test_select_boxes_offer_nothing_to_people_who_cannot_use_the_form(viewer: User, browse: Browse) -> None:
    User.objects.filter(pk=viewer.pk).update(is_staff=True)
    params = {"app_label": "rbac", "model_name": "roleassignment", "field_name": "user"}
    assert browse(viewer).get(reverse("admin:autocomplete"), params).status_code == 403


def test_rows_of_the_admin_site_lead_to_their_pages_and_back(
    admin: User, viewer: User, project: Scope, browse: Browse
) -> None:
    group = UserGroup.objects.create(scope=project, identifier="crew", name="Crew")
    role = Role.objects.create(scope=project, identifier="own", name="Own")
    account = create_service_account(actor=admin, scope=project, name="CI")
    assignment = RoleAssignment.objects.get(user=viewer)
    browser = browse(admin)
    pages = {
        ("user", viewer.pk): reverse("person", args=[viewer.pk]),
        ("user", account.user_id): reverse("service-account", args=[account.pk]),
        ("usergroup", group.pk): reverse("user-group", args=[group.pk]),
        ("role", role.pk): reverse("role", args=[role.pk]),
        ("serviceaccount", account.pk): reverse("service-account", args=[account.pk]),
        ("roleassignment", assignment.pk): f"/access/people/{viewer.pk}/#assignment-{assignment.pk}",
    }
    for (model, pk), page in pages.items():
        address = reverse(f"admin:rbac_{model}_change", args=[pk])
        assert f'href="{page}">Open in Slipway' in browser.get(address).content.decode()
        if (model, pk) != ("user", account.user_id):
            content = browser.get(page.partition("#")[0]).content.decode()
            assert f'href="{address}"' in content, f"the page of the {model} leads to {address}"
    reader = browse(make_person("plain", "viewer", project))
    for page in pages.values():
        assert "/admin/" not in reader.get(page.partition("#")[0]).content.decode()
