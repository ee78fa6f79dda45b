"""An assignment can speak of some things only, and an API key can be used for some of what its user may."""

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from catalog.models import Environment
from connectors.models import Secret
from deployments.models import Execution
from pipelines.models import Pipeline
from rbac.models import ApiKeyLimits, ResourceGroup, Role, RoleAssignment, Scope, User
from rbac.permissions import ALWAYS_GRANTED, PERMISSIONS
from rbac.policy import (
    Forbidden,
    can,
    filter_visible,
    get_permissions,
    get_permissions_anywhere,
    list_member_scopes,
    list_permitted_scopes,
    require,
)
from tests.rbac.people import organization, project, user
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db


def pipeline(scope: Scope, identifier: str) -> Pipeline:
    return Pipeline.objects.create(scope=scope, identifier=identifier, name=identifier, yaml="")


def execution(of: Pipeline) -> Execution:
    return Execution.objects.create(
        pipeline=of, scope=of.scope, number=1, yaml="", status="SUCCESS", due_at=timezone.now()
    )


def assign_narrowly(person: User, role: str, scope: Scope, *entries: tuple[str, str]) -> RoleAssignment:
    """Assign a built-in role at `scope` on `entries` (kind, identifier or "")."""
    number = ResourceGroup.objects.count()
    group = ResourceGroup.objects.create(scope=scope, identifier=f"group{number}", name="Group")
    for resource, identifier in entries:
        group.entries.create(resource=resource, identifier=identifier)
    granted_role = Role.objects.get(identifier=role, scope=None)
    return RoleAssignment.objects.create(user=person, role=granted_role, scope=scope, resource_group=group)


def test_a_resource_group_of_a_kind_grants_that_kind_only():
    demo = project()
    person, web = user("person"), pipeline(demo, "web")
    assign_narrowly(person, "project_admin", demo, ("pipeline", ""))

    assert can(person, "core_pipeline_edit", web)
    assert can(person, "core_pipeline_edit", demo)
    assert not can(person, "core_secret_view", demo)
    assert not can(person, "core_environment_view", demo)


def test_a_resource_group_of_names_grants_these_things_only():
    demo, other = project("default/demo"), project("default/other")
    person = user("person")
    web, api, foreign = pipeline(demo, "web"), pipeline(demo, "api"), pipeline(other, "web")
    assign_narrowly(person, "pipeline_executor", demo, ("pipeline", "web"))

    assert [can(person, "core_pipeline_execute", target) for target in (web, api, foreign)] == [
        True,
        False,
        False,
    ]
    assert list(filter_visible(person, "core_pipeline_view", Pipeline.objects.all())) == [web]
    assert list(filter_visible(person, "core_pipeline_view", Pipeline.objects.all(), demo)) == [web]
    assert not filter_visible(person, "core_pipeline_view", Pipeline.objects.all(), other)
    with pytest.raises(Forbidden):
        require(person, "core_pipeline_edit", web)


def test_a_named_thing_brings_what_hangs_on_it():
    demo = project()
    person = user("person")
    visible, hidden = execution(pipeline(demo, "web")), execution(pipeline(demo, "api"))
    assign_narrowly(person, "pipeline_executor", demo, ("pipeline", "web"))

    assert list(filter_visible(person, "core_pipeline_view", Execution.objects.all())) == [visible]
    assert list(filter_visible(person, "core_pipeline_view", Execution.objects.all())) == [visible]
    reloaded = Execution.objects.get(pk=visible.pk)
    assert can(person, "core_pipeline_abort", reloaded)
    assert not can(person, "core_pipeline_abort", hidden)


def test_named_things_of_two_assignments_do_not_mix():
    demo, other, person = project("default/demo"), project("default/other"), user("person")
    assign_narrowly(person, "viewer", demo, ("pipeline", "web"))
    assign_narrowly(person, "viewer", other, ("pipeline", "api"))
    own_pipelines = pipeline(demo, "web"), pipeline(other, "api")
    pipeline(demo, "api"), pipeline(other, "web")

    visible = filter_visible(person, "core_pipeline_view", Pipeline.objects.all())
    assert set(visible) == set(own_pipelines)


def test_nothing_can_be_made_by_who_has_named_things_only():
    demo, person = project(), user("person")
    assign_narrowly(person, "project_admin", demo, ("pipeline", "web"))

    assert not list_permitted_scopes(person, "core_pipeline_edit")
    assert not can(person, "core_pipeline_edit", demo)
    assert "core_pipeline_edit" in get_permissions_anywhere(person)
    assert "core_secret_edit" not in get_permissions_anywhere(person)


def test_delegates_are_seen_by_who_has_a_role_on_anything():
    demo, person = project(), user("person")
    assign_narrowly(person, "viewer", demo, ("secret", "token"))

    assert can(person, ALWAYS_GRANTED, demo)
    assert ALWAYS_GRANTED in get_permissions(person, demo)


def test_all_permissions_of_a_thing_are_those_that_are_granted_one_by_one(
    django_assert_num_queries: DjangoAssertNumQueries,
):
    demo, person = project(), user("person", "viewer", project("default/other"))
    visible = execution(pipeline(demo, "web"))
    assign_narrowly(person, "pipeline_executor", demo, ("pipeline", "web"), ("secret", ""))
    assign_narrowly(person, "project_admin", organization("default"), ("environment", "live"))
    live = Environment.objects.create(scope=demo, identifier="live", name="Live")

    for thing in (demo, organization("default"), Scope.objects.account(), visible.pipeline, visible, live):
        one_by_one = {permission for permission in PERMISSIONS if can(person, permission, thing)}
        with django_assert_num_queries(4 if thing == visible else 3):
            assert get_permissions(person, thing) == one_by_one


def test_a_narrow_assignment_takes_a_fixed_number_of_queries(
    django_assert_num_queries: DjangoAssertNumQueries,
):
    demo, person = project(), user("person")
    visible = execution(pipeline(demo, "web"))
    assign_narrowly(person, "viewer", demo, ("pipeline", "web"))

    with django_assert_num_queries(4):
        assert can(person, "core_pipeline_view", visible)
    with django_assert_num_queries(4):
        assert list(filter_visible(person, "core_pipeline_view", Execution.objects.all())) == [visible]


def test_who_views_in_a_project_sees_what_is_shared_from_above():
    demo, account = project(), Scope.objects.account()
    project_viewer = user("viewer", "viewer", demo)
    above = Secret.objects.create(scope=account, identifier="above", name="Above", value=planted("1"))
    beside = Secret.objects.create(
        scope=project("default/other"), identifier="beside", name="B", value=planted("1")
    )
    top = pipeline(account, "top")

    assert list(filter_visible(project_viewer, "core_secret_view", Secret.objects.all())) == [above]
    assert can(project_viewer, "core_secret_view", above)
    assert not can(project_viewer, "core_secret_view", beside)
    assert not can(project_viewer, "core_pipeline_view", top)


def test_what_is_seen_from_below_may_not_be_used_there():
    executor = user("executor", "pipeline_executor", project())
    above = Secret.objects.create(
        scope=organization("default"), identifier="above", name="Above", value=planted("1")
    )

    assert not can(executor, "core_secret_access", above)
    with pytest.raises(Forbidden, match="core_secret_access"):
        require(executor, "core_secret_access", above)


def test_what_is_seen_from_below_needs_the_permission_below():
    manager = user("manager", "delegate_manager", project())
    above = Secret.objects.create(
        scope=organization("default"), identifier="above", name="Above", value=planted("1")
    )

    assert not can(manager, "core_secret_view", above)
    assert can(manager, "core_delegateconfiguration_view", organization("default"))


@pytest.mark.parametrize("archived", ["account/default", "account/default/demo"])
def test_an_archived_scope_grants_nothing_to_anybody(archived: str):
    demo = project("default/demo")
    web = pipeline(demo, "web")
    admin, member = user("admin", "account_admin"), user("member", "project_admin", demo)
    Scope.objects.filter(path=archived).update(archived_at=timezone.now())

    for person in (admin, member):
        assert not any(can(person, permission, web) for permission in PERMISSIONS)
        assert get_permissions(person, web) == frozenset()
        assert not filter_visible(person, "core_pipeline_view", Pipeline.objects.all())
        assert not filter_visible(person, "core_pipeline_view", Pipeline.objects.all())
    assert not list_member_scopes(member)
    assert get_permissions_anywhere(member) == frozenset()
    assert not can(member, "core_secret_view", Scope.objects.account())
    assert can(admin, "core_project_delete", Scope.objects.account())


def test_a_program_of_an_archived_scope_is_granted_nothing_elsewhere(service_account: User):
    other = project("default/other")
    assert can(service_account, "core_pipeline_view", other)
    Scope.objects.filter(path="account/default/demo").update(archived_at=timezone.now())

    assert not can(service_account, "core_pipeline_view", other)


@pytest.fixture
def service_account() -> User:
    person = user("program", "viewer", project("default/other"))
    User.objects.filter(pk=person.pk).update(kind=User.Kind.SERVICE_ACCOUNT)
    project("default/demo").service_accounts.create(identifier="program", name="Program", user=person)
    return User.objects.get(pk=person.pk)


def test_a_key_may_do_less_than_its_user():
    demo, other = project("default/demo"), project("default/other")
    person = user("person", "project_admin", organization("default"))
    person.key_limits = ApiKeyLimits(demo, frozenset({"core_pipeline_view", "core_secret_edit"}))
    inside, outside = pipeline(demo, "web"), pipeline(other, "web")

    assert can(person, "core_pipeline_view", inside)
    assert not can(person, "core_pipeline_edit", inside)
    assert not can(person, "core_pipeline_view", outside)
    assert not can(person, "core_pipeline_view", organization("default"))
    assert list(filter_visible(person, "core_pipeline_view", Pipeline.objects.all())) == [inside]
    assert get_permissions(person, inside) == {"core_pipeline_view", "core_secret_edit"}
    assert get_permissions(person, outside) == frozenset()
    assert {scope.path for scope in list_member_scopes(person)} == {
        "account",
        "account/default",
        "account/default/demo",
    }


def test_a_key_never_does_more_than_its_user():
    demo = project()
    person = user("person", "viewer", demo)
    person.key_limits = ApiKeyLimits(Scope.objects.account(), frozenset({"core_pipeline_edit"}))

    assert not can(person, "core_pipeline_edit", demo)
    assert get_permissions(person, demo) == frozenset()


def test_a_key_of_a_project_sees_what_is_shared_from_above_and_not_beside():
    demo, account = project(), Scope.objects.account()
    person = user("person", "account_admin")
    person.key_limits = ApiKeyLimits(demo, frozenset())
    above = Secret.objects.create(scope=account, identifier="above", name="Above", value=planted("1"))
    Secret.objects.create(
        scope=project("default/other"), identifier="beside", name="Beside", value=planted("1")
    )

    assert list(filter_visible(person, "core_secret_view", Secret.objects.all())) == [above]
    assert get_permissions(person, above) == {p for p in PERMISSIONS if can(person, p, above)}
    assert not can(person, "core_secret_access", above)
    Scope.objects.filter(pk=demo.pk).update(archived_at=timezone.now())
    assert not filter_visible(person, "core_secret_view", Secret.objects.all())


def test_a_key_for_something_else_finds_no_named_thing_either():
    demo, person = project(), user("person")
    pipeline(demo, "web")
    assign_narrowly(person, "viewer", demo, ("pipeline", "web"))
    person.key_limits = ApiKeyLimits(None, frozenset({"core_secret_view"}))

    assert not filter_visible(person, "core_pipeline_view", Pipeline.objects.all())
    assert not filter_visible(person, "core_pipeline_view", Pipeline.objects.all())


def test_an_expired_narrow_assignment_names_nothing():
    demo, person = project(), user("person")
    web = pipeline(demo, "web")
    assignment = assign_narrowly(person, "viewer", demo, ("pipeline", "web"))
    RoleAssignment.objects.filter(pk=assignment.pk).update(expires_at=timezone.now() - timedelta(seconds=1))

    assert not can(person, "core_pipeline_view", web)
    assert not filter_visible(person, "core_pipeline_view", Pipeline.objects.all())
