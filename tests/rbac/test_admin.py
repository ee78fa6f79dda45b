"""The admin site asks the policy, and nobody can grant there more than they have."""

import re
from collections.abc import Callable

import pytest
from django.test import Client
from django.utils import timezone

from rbac.audit import record_audit_entry
from rbac.models import (
    ApiKey,
    AuditEntry,
    ResourceGroup,
    Role,
    RoleAssignment,
    Scope,
    ServiceAccount,
    User,
    UserGroup,
)
from rbac.operations import create_service_account
from rbac.operations.api_keys import get_api_key_by_token
from rbac.permissions import PERMISSIONS
from rbac.policy import can
from tests.rbac.people import grant, organization
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]
MODELS = (
    "user",
    "scope",
    "role",
    "usergroup",
    "resourcegroup",
    "serviceaccount",
    "roleassignment",
    "apikey",
    "auditentry",
)


@pytest.fixture
def org_admin(project: Scope) -> User:
    """Staff that may manage one organization only."""
    person = User.objects.create_user("org_admin", password=planted("correct horse battery"), is_staff=True)
    grant(person, "organization_admin", organization("default"))
    return person


def lists_and_forms() -> list[str]:
    return [f"/admin/rbac/{model}/" for model in MODELS]


@pytest.mark.parametrize("address", ["/admin/", *lists_and_forms()])
def test_an_account_admin_sees_every_list(admin: User, browse: Browse, address: str):
    assert browse(admin).get(address).status_code == 200


@pytest.mark.parametrize("model", [model for model in MODELS if model != "auditentry"])
def test_an_account_admin_sees_every_form(admin: User, browse: Browse, model: str):
    assert browse(admin).get(f"/admin/rbac/{model}/add/").status_code == 200


@pytest.mark.parametrize("address", ["/admin/", *lists_and_forms()])
def test_who_is_not_staff_gets_in_nowhere(deployer: User, browse: Browse, address: str):
    grant(deployer, "account_admin")
    response = browse(deployer).get(address, follow=True)
    assert response.status_code == 403


def test_an_anonymous_visitor_is_led_to_the_one_sign_in_page(client: Client):
    response = client.get("/admin/rbac/role/", follow=True)
    assert response.redirect_chain[-1][0] == "/sign-in/?next=%2Fadmin%2Frbac%2Frole%2F"


@pytest.mark.parametrize("address", lists_and_forms())
def test_staff_without_a_role_sees_nothing(address: str, browse: Browse):
    nobody = User.objects.create_user("nobody", is_staff=True)
    assert browse(nobody).get("/admin/").status_code == 200
    assert browse(nobody).get(address).status_code == 403


def test_staff_of_an_organization_sees_its_rows_only(org_admin: User, other_project: Scope, browse: Browse):
    own_group = UserGroup.objects.create(scope=organization("default"), identifier="mine", name="Mine")
    foreign = UserGroup.objects.create(scope=other_project, identifier="foreign", name="Foreign")
    client = browse(org_admin)

    page = client.get("/admin/rbac/usergroup/").content.decode()
    assert "Mine" in page
    assert "Foreign" not in page
    assert client.get(f"/admin/rbac/usergroup/{own_group.pk}/change/").status_code == 200
    # The framework leads away from a row that is not there.
    assert client.get(f"/admin/rbac/usergroup/{foreign.pk}/change/").status_code == 302
    assert client.get("/admin/rbac/user/").status_code == 403


@pytest.mark.parametrize("model", MODELS)
def test_a_search_for_very_many_words_is_answered(admin: User, browse: Browse, model: str):
    assert browse(admin).get(f"/admin/rbac/{model}/", {"q": "a " * 1500}).status_code == 200


def test_a_group_is_found_by_an_address_with_an_escaped_character(
    admin: User, project: Scope, browse: Browse
):
    group = UserGroup.objects.create(scope=project, identifier="mine", name="Mine")
    assert browse(admin).get(f"/admin/rbac/usergroup/{group.pk}_0A/change/").status_code == 200


def test_the_boxes_of_a_role_are_a_table_and_delegate_view_is_locked(admin: User, browse: Browse):
    page = browse(admin).get("/admin/rbac/role/add/").content.decode()
    assert "Delegate configurations" in page
    head = re.findall(r'<th scope="col">([^<]*)</th>', page)
    assert head[head.index("Resource") :] == [
        "Resource",
        "View",
        "Create/Edit",
        "Delete",
        "Access",
        "Execute",
        "Other",
    ]
    assert page.count('name="granted"') == len(PERMISSIONS)
    box = re.search(r'<input[^>]*value="core_delegate_view"[^>]*>', page)
    assert box is not None
    assert "disabled" in box.group()
    assert "checked" in box.group()


def test_a_role_is_made_changed_and_deleted(admin: User, project: Scope, browse: Browse):
    client = browse(admin)
    form = {
        "scope": project.pk,
        "identifier": "runner",
        "name": "Runner",
        "granted": ["core_pipeline_execute"],
    }
    assert client.post("/admin/rbac/role/add/", form).status_code == 302
    role = Role.objects.get(identifier="runner")
    assert permissions(role) == {"core_pipeline_execute", "core_delegate_view"}

    client.post(f"/admin/rbac/role/{role.pk}/change/", {"name": "Runners", "granted": ["core_pipeline_view"]})
    role.refresh_from_db()
    assert role.name == "Runners"
    assert permissions(role) == {"core_pipeline_view", "core_delegate_view"}

    client.post(f"/admin/rbac/role/{role.pk}/delete/", {"post": "yes"})
    assert not Role.objects.filter(pk=role.pk).exists()
    actions = list(AuditEntry.objects.filter(thing_type="rbac.role").values_list("action", flat=True))
    assert sorted(actions) == ["role.create", "role.delete", "role.update"]


def test_a_builtin_role_can_be_read_and_not_changed(admin: User, browse: Browse):
    viewer = Role.objects.get(identifier="viewer")
    client = browse(admin)
    assert "core_pipeline_view" in client.get(f"/admin/rbac/role/{viewer.pk}/change/").content.decode()
    assert client.post(f"/admin/rbac/role/{viewer.pk}/change/", {"name": "x"}).status_code == 403
    assert client.post(f"/admin/rbac/role/{viewer.pk}/delete/", {"post": "yes"}).status_code == 403


def test_an_assignment_made_here_counts(admin: User, project: Scope, browse: Browse):
    person = User.objects.create_user("new")
    role = Role.objects.get(identifier="viewer")
    form = {
        "scope": project.pk,
        "role": role.pk,
        "user": person.pk,
        "group": "",
        "expires_at_0": "",
        "expires_at_1": "",
    }
    assert browse(admin).post("/admin/rbac/roleassignment/add/", form).status_code == 302
    assert can(person, "core_pipeline_view", project)

    assignment = RoleAssignment.objects.get(user=person)
    browse(admin).post(f"/admin/rbac/roleassignment/{assignment.pk}/delete/", {"post": "yes"})
    assert not can(person, "core_pipeline_view", project)


def test_an_assignment_that_cannot_be_is_refused_in_words(admin: User, project: Scope, browse: Browse):
    client, person = browse(admin), User.objects.create_user("new")
    form = {
        "scope": project.pk,
        "role": Role.objects.get(identifier="viewer").pk,
        "user": "",
        "group": "",
        "expires_at_0": "",
        "expires_at_1": "",
    }
    for_nobody = client.post("/admin/rbac/roleassignment/add/", form).content.decode()
    assert "Choose one user or one group." in for_nobody
    form["user"] = person.pk
    assert client.post("/admin/rbac/roleassignment/add/", form).status_code == 302
    page_text = client.post("/admin/rbac/roleassignment/add/", form).content.decode()
    assert "new already has this role in this scope." in page_text
    assert "Constraint" not in for_nobody + page_text
    assert RoleAssignment.objects.filter(user=person).count() == 1


def test_an_expired_assignment_is_replaced_by_adding_the_role_again(
    admin: User, viewer: User, project: Scope, browse: Browse
):
    expired = RoleAssignment.objects.get(user=viewer)
    RoleAssignment.objects.filter(pk=expired.pk).update(expires_at=timezone.now())
    form = {"scope": expired.scope_id, "role": expired.role_id, "user": viewer.pk}
    assert browse(admin).post("/admin/rbac/roleassignment/add/", form).status_code == 302
    assignment = RoleAssignment.objects.get(user=viewer)
    assert assignment.expires_at is None
    assert can(viewer, "core_pipeline_view", project)


def test_nobody_can_make_themselves_an_account_admin(org_admin: User, project: Scope, browse: Browse):
    client = browse(org_admin)
    role = Role.objects.get(identifier="account_admin")
    form = {"role": role.pk, "user": org_admin.pk, "group": "", "expires_at_0": "", "expires_at_1": ""}

    at_account = client.post("/admin/rbac/roleassignment/add/", {**form, "scope": Scope.objects.account().pk})
    at_project = client.post("/admin/rbac/roleassignment/add/", {**form, "scope": project.pk})

    assert at_account.status_code == 200
    assert b"Select a valid choice" in at_account.content
    assert at_project.status_code == 403
    assert not RoleAssignment.objects.filter(user=org_admin, role=role).exists()


def test_a_role_cannot_be_given_more_than_its_maker_has(org_admin: User, project: Scope, browse: Browse):
    form = {
        "scope": project.pk,
        "identifier": "sly",
        "name": "Sly",
        "granted": ["core_deploymentfreeze_global"],
    }
    assert browse(org_admin).post("/admin/rbac/role/add/", form).status_code == 403
    assert not Role.objects.filter(identifier="sly").exists()


def test_a_key_is_shown_once_and_deleting_it_revokes_it(admin: User, browse: Browse):
    client = browse(admin)
    form = {"user": admin.pk, "name": "CI", "expires_at_0": "", "expires_at_1": ""}
    page = client.post("/admin/rbac/apikey/add/", form).content.decode()
    match = re.search(r'<code id="token">(\S+)</code>', page)
    assert match is not None
    token = match.group(1)
    key = get_api_key_by_token(token)
    assert key is not None
    assert token not in client.get("/admin/rbac/apikey/").content.decode()
    assert token not in client.get(f"/admin/rbac/apikey/{key.pk}/change/").content.decode()

    client.post(f"/admin/rbac/apikey/{key.pk}/delete/", {"post": "yes"})
    assert get_api_key_by_token(token) is None
    assert ApiKey.objects.filter(pk=key.pk).exists()


def test_a_user_is_made_and_changed_but_never_deleted(admin: User, browse: Browse):
    client = browse(admin)
    form = {
        "username": "carla",
        "usable_password": "true",
        "password1": planted("correct horse battery"),
        "password2": planted("correct horse battery"),
    }
    assert client.post("/admin/rbac/user/add/", form).status_code == 302
    carla = User.objects.get(username="carla")
    change = {"username": "carla", "first_name": "Carla", "last_name": "", "email": "", "is_active": ""}
    assert client.post(f"/admin/rbac/user/{carla.pk}/change/", change).status_code == 302
    carla.refresh_from_db()
    assert (carla.first_name, carla.is_active) == ("Carla", False)
    assert client.post(f"/admin/rbac/user/{carla.pk}/delete/", {"post": "yes"}).status_code == 403
    password = {"password1": "correct horse staple", "password2": "correct horse staple"}
    address = f"/admin/rbac/user/{carla.pk}/password/"
    assert client.post(address, password | {"usable_password": "true"}).status_code == 302
    entries = AuditEntry.objects.filter(thing_type="rbac.user").order_by("pk")
    assert [(entry.action, entry.source) for entry in entries] == [
        ("user.create", "admin"),
        ("user.update", "admin"),
        ("user.update", "admin"),
        ("user.password_change", "admin"),
    ]
    assert (entries[1].before, entries[1].after) == ({"is_active": True}, {"is_active": False})
    assert (entries[2].before, entries[2].after) == ({"first_name": ""}, {"first_name": "Carla"})
    assert "correct horse" not in str(list(AuditEntry.objects.values()))


def test_a_project_is_made_below_its_organization(admin: User, project: Scope, browse: Browse):
    form = {"parent": organization("default").pk, "identifier": "fresh", "name": "Fresh"}
    assert browse(admin).post("/admin/rbac/scope/add/", form).status_code == 302
    assert Scope.objects.get(path="account/default/fresh").kind == Scope.Kind.PROJECT
    assert AuditEntry.objects.filter(action="scope.create", thing_name="account/default/fresh").exists()


def test_a_project_is_renamed_put_away_and_brought_back(admin: User, project: Scope, browse: Browse):
    client, address = browse(admin), f"/admin/rbac/scope/{project.pk}/change/"
    assert client.post(address, {"name": "Shop", "archived": "on"}).status_code == 302
    project.refresh_from_db()
    assert (project.name, project.archived_at is None) == ("Shop", False)
    assert str(project) in client.get("/admin/rbac/scope/").content.decode()
    assert client.post(address, {"name": "Shop", "archived": ""}).status_code == 302
    project.refresh_from_db()
    assert project.archived_at is None
    entries = (
        AuditEntry.objects.filter(thing_id=str(project.pk)).order_by("pk").values_list("action", "before")
    )
    assert [action for action, _ in entries] == ["scope.update", "scope.archive", "scope.restore"]
    assert entries[0][1] == {"name": "demo"}


def test_an_identifier_that_is_taken_is_refused_beside_its_field(admin: User, project: Scope, browse: Browse):
    form = {"parent": organization("default").pk, "identifier": "demo", "name": "Fresh"}
    response = browse(admin).post("/admin/rbac/scope/add/", form)
    assert response.status_code == 200
    assert "demo already exists in account/default" in response.content.decode()


def test_the_audit_trail_can_only_be_read(admin: User, browse: Browse):
    client = browse(admin)
    client.post(
        "/admin/rbac/scope/add/", {"parent": Scope.objects.account().pk, "identifier": "o", "name": "O"}
    )
    entry = AuditEntry.objects.first()
    assert entry is not None
    assert client.get(f"/admin/rbac/auditentry/{entry.pk}/change/").status_code == 200
    assert client.get("/admin/rbac/auditentry/add/").status_code == 403
    assert client.post(f"/admin/rbac/auditentry/{entry.pk}/change/", {"action": "x"}).status_code == 403
    assert client.post(f"/admin/rbac/auditentry/{entry.pk}/delete/", {"post": "yes"}).status_code == 403


def permissions(role: Role) -> set[str]:
    return set(role.permissions.values_list("permission", flat=True))


@pytest.mark.parametrize(
    "address",
    [
        "/admin/rbac/apikey/?hash__startswith=a",
        "/admin/rbac/apikey/?user__password__startswith=a",
        "/admin/rbac/user/?password__contains=a",
        "/admin/rbac/scope/?name__regex=(a%2B)%2B%24",
        "/admin/rbac/scope/?kind__regex=(a%2B)%2B%24",
        "/admin/connectors/secret/?value__startswith=a",
    ],
)
def test_no_list_answers_guesses_about_what_it_does_not_show(admin: User, browse: Browse, address: str):
    assert browse(admin).get(address).status_code == 400


@pytest.mark.parametrize(
    "address",
    [
        "/admin/rbac/scope/?kind__exact=PROJECT",
        "/admin/rbac/user/?is_active__exact=1",
        "/admin/rbac/roleassignment/?role__id__exact=1",
        "/admin/rbac/auditentry/?source=page&at__gte=2026-01-01+00%3A00%3A00%2B00%3A00",
    ],
)
def test_the_filters_that_a_list_offers_work(admin: User, browse: Browse, address: str):
    assert browse(admin).get(address).status_code == 200


def test_the_audit_trail_is_narrowed_to_what_came_one_way(admin: User, browse: Browse):
    for source in ("page", "api"):
        record_audit_entry(
            actor=admin, action=f"made.by_{source}", thing=Scope.objects.account(), source=source
        )
    page = browse(admin).get("/admin/rbac/auditentry/?source=api").content.decode()
    assert "made.by_api" in page
    assert "made.by_page" not in page


def test_a_long_list_is_counted_no_further_than_people_leaf(
    admin: User, browse: Browse, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("rbac.admin.base.MOST_COUNTED_ROWS", 3)
    for number in range(5):
        record_audit_entry(actor=admin, action=f"count.{number}", thing=Scope.objects.account())
    page = browse(admin).get("/admin/rbac/auditentry/").content.decode()
    assert "3 audit entries" in page
    assert "count.4" in page, "the newest are there"


def test_what_an_operation_refuses_is_said_in_the_form(admin: User, project: Scope, browse: Browse):
    form = {"scope": project.pk, "identifier": "viewer", "name": "Sly", "granted": ["core_pipeline_view"]}
    page = browse(admin).post("/admin/rbac/role/add/", form)
    assert page.status_code == 200
    assert "viewer is a built-in role" in page.content.decode()
    assert 'aria-label="Pipelines: View" title="core_pipeline_view" checked' in page.content.decode()


def test_what_cannot_be_deleted_stays_and_the_page_says_why(admin: User, project: Scope, browse: Browse):
    group = UserGroup.objects.create(scope=project, identifier="crew", name="Crew")
    viewer = Role.objects.get(identifier="viewer")
    RoleAssignment.objects.create(group=group, role=viewer, scope=project)
    page = browse(admin).post(f"/admin/rbac/usergroup/{group.pk}/delete/", {"post": "yes"}, follow=True)
    assert "Remove their assignments first." in page.content.decode()
    assert UserGroup.objects.filter(pk=group.pk).exists()


def test_a_resource_group_is_made_and_changed_with_its_things(admin: User, project: Scope, browse: Browse):
    client = browse(admin)
    rows = {"entries-TOTAL_FORMS": 1, "entries-INITIAL_FORMS": 0}
    rows |= {"entries-0-resource": "service", "entries-0-identifier": ""}
    form = {"scope": project.pk, "identifier": "web", "name": "Web", "description": ""} | rows
    assert client.post("/admin/rbac/resourcegroup/add/", form).status_code == 302
    group = ResourceGroup.objects.get(identifier="web")
    entry = group.entries.get()
    assert (entry.resource, entry.identifier) == ("service", "")

    rows = {"entries-TOTAL_FORMS": 2, "entries-INITIAL_FORMS": 1, "entries-0-id": entry.pk}
    rows |= {"entries-0-group": group.pk, "entries-0-resource": "service", "entries-0-DELETE": "on"}
    rows |= {"entries-1-group": group.pk, "entries-1-resource": "pipeline", "entries-1-identifier": "web"}
    form = {"name": "Web things", "description": ""} | rows
    assert client.post(f"/admin/rbac/resourcegroup/{group.pk}/change/", form).status_code == 302
    assert list(group.entries.values_list("resource", "identifier")) == [("pipeline", "web")]
    actions = AuditEntry.objects.filter(thing_type="rbac.resourcegroup").values_list("action", flat=True)
    assert sorted(actions) == ["resourcegroup.create", "resourcegroup.update"]


def test_a_service_account_is_made_and_deleted_by_its_operations(admin: User, project: Scope, browse: Browse):
    client = browse(admin)
    form = {"scope": project.pk, "identifier": "ci", "name": "CI", "description": ""}
    assert client.post("/admin/rbac/serviceaccount/add/", form).status_code == 302
    account = ServiceAccount.objects.get(identifier="ci")
    assert account.user.kind == User.Kind.SERVICE_ACCOUNT
    assert client.get(f"/admin/rbac/serviceaccount/{account.pk}/change/").status_code == 200
    client.post(f"/admin/rbac/serviceaccount/{account.pk}/delete/", {"post": "yes"})
    assert not ServiceAccount.objects.exists()
    assert AuditEntry.objects.filter(action="serviceaccount.delete").exists()


def test_members_of_a_group_change_by_the_operation(
    admin: User, viewer: User, project: Scope, browse: Browse
):
    client = browse(admin)
    form = {"scope": project.pk, "identifier": "crew", "name": "Crew", "external_name": ""}
    client.post("/admin/rbac/usergroup/add/", form | {"users": [viewer.pk]})
    group = UserGroup.objects.get(identifier="crew")
    assert list(group.users.all()) == [viewer]
    change = {"name": "Crew", "external_name": "", "users": []}
    assert client.post(f"/admin/rbac/usergroup/{group.pk}/change/", change).status_code == 302
    assert not group.users.exists()
    entry = AuditEntry.objects.get(action="usergroup.update")
    assert (entry.before["users"], entry.after["users"]) == (["viewer"], [])
    linked = client.post(f"/admin/rbac/usergroup/{group.pk}/change/", change | {"external_name": "idp-crew"})
    assert "Single sign-on with groups is not configured" in linked.content.decode()


def test_forms_accept_only_what_one_may_see(
    org_admin: User, stranger: User, viewer: User, project: Scope, browse: Browse
):
    role = Role.objects.get(identifier="delegate_manager")
    form = {"scope": project.pk, "role": role.pk}
    client, address = browse(org_admin), "/admin/rbac/roleassignment/add/"
    assert "Select a valid choice." in client.post(address, form | {"user": stranger.pk}).content.decode()
    assert client.post(address, form | {"user": viewer.pk}).status_code == 302
    assert RoleAssignment.objects.get(role=role).user == viewer


def test_nobody_sets_the_password_of_who_may_more(admin: User, browse: Browse):
    clerk = User.objects.create_user("clerk", is_staff=True)
    keeper = Role.objects.create(scope=Scope.objects.account(), identifier="keeper", name="Keeper")
    keeper.set_permissions(["core_user_view", "core_user_manage"])
    RoleAssignment.objects.create(user=clerk, role=keeper, scope=Scope.objects.account())
    form = {"password1": "another horse battery", "password2": "another horse battery"}
    form |= {"usable_password": "true"}
    client, harmless = browse(clerk), User.objects.create_user("harmless")

    assert client.post(f"/admin/rbac/user/{admin.pk}/password/", form).status_code == 403
    change = {"username": "admin", "first_name": "", "last_name": "", "email": "sly@example.com"}
    assert client.post(f"/admin/rbac/user/{admin.pk}/change/", change).status_code == 403
    assert client.post(f"/admin/rbac/user/{harmless.pk}/password/", form).status_code == 302
    admin.refresh_from_db()
    assert admin.check_password(planted("correct horse battery"))
    assert admin.email == ""


@pytest.mark.parametrize("key", ["x", "999999"])
def test_the_password_page_of_nobody_is_not_found(admin: User, key: str, browse: Browse):
    form = {"password1": "another horse battery", "password2": "another horse battery"}
    assert browse(admin).post(f"/admin/rbac/user/{key}/password/", form).status_code == 404


def test_a_refused_submission_of_a_password_is_no_change(admin: User, viewer: User, browse: Browse):
    address = f"/admin/rbac/user/{viewer.pk}/password/"
    response = browse(admin).post(address, {"usable_password": "false"}, follow=True)
    assert "Conflicting form data submitted" in response.content.decode()
    assert not AuditEntry.objects.filter(action="user.password_change").exists()


def test_a_program_has_no_password_to_set(admin: User, project: Scope, browse: Browse):
    account = create_service_account(actor=admin, scope=project, name="Build")
    client = browse(admin)
    assert client.get(f"/admin/rbac/user/{account.user_id}/change/").status_code == 200
    form = {"password1": "another horse battery", "password2": "another horse battery"}
    answer = client.post(f"/admin/rbac/user/{account.user_id}/password/", form)
    assert answer.status_code == 403
    account.user.refresh_from_db()
    assert not account.user.has_usable_password()
