"""Nothing is granted but by a role assignment that counts now, here or above."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from rbac.models import Role, RoleAssignment, Scope, User, UserGroup
from rbac.permissions import ALWAYS_GRANTED, PERMISSIONS
from rbac.policy import (
    Forbidden,
    NotVisible,
    can,
    can_anywhere,
    filter_visible,
    get_permissions,
    list_member_scopes,
    require,
)
from tests.rbac.people import grant, organization, project, user

pytestmark = pytest.mark.django_db


def test_a_user_without_any_role_is_granted_nothing():
    # PyPI's django-rbac answers True here for every permission: it tests the truth of a lazy filter object.
    demo, nobody = project(), user("nobody")

    assert not any(can(nobody, permission, demo) for permission in PERMISSIONS)
    assert not any(can_anywhere(nobody, permission) for permission in PERMISSIONS)
    assert get_permissions(nobody, demo) == frozenset()
    for permission in PERMISSIONS:
        assert not filter_visible(nobody, permission, Scope.objects.all())


def test_an_anonymous_visitor_is_granted_nothing():
    assert not can(AnonymousUser(), ALWAYS_GRANTED, project())
    assert not filter_visible(AnonymousUser(), "core_project_view", Scope.objects.all())


def test_an_unsaved_user_is_granted_nothing():
    assert not can(User(username="ghost"), ALWAYS_GRANTED, project())


def test_a_role_reaches_down_and_never_up_or_aside():
    demo, other = project("default/demo"), project("default/other")
    organization_viewer = user("org_viewer", "viewer", organization("default"))
    project_viewer = user("project_viewer", "viewer", demo)

    assert can(organization_viewer, "core_pipeline_view", demo)
    assert can(organization_viewer, "core_pipeline_view", other)
    assert not can(organization_viewer, "core_pipeline_view", Scope.objects.account())
    assert can(project_viewer, "core_pipeline_view", demo)
    assert not can(project_viewer, "core_pipeline_view", other)
    assert not can(project_viewer, "core_pipeline_view", organization("default"))


def test_a_role_at_the_account_reaches_every_project():
    assert can(user("admin", "account_admin"), "core_pipeline_execute", project("far/away"))


def test_a_role_grants_only_its_own_permissions():
    demo = project()
    viewer = user("viewer", "viewer", demo)

    assert can(viewer, "core_pipeline_view", demo)
    assert not can(viewer, "core_pipeline_execute", demo)
    assert not can(viewer, "core_connector_access", demo)


def test_roles_do_not_mix_across_scopes():
    demo, other = project("default/demo"), project("default/other")
    person = user("person", "viewer", demo)
    grant(person, "pipeline_executor", other)

    assert not can(person, "core_pipeline_execute", demo)
    assert can(person, "core_pipeline_execute", other)


def test_an_expired_assignment_counts_for_nothing():
    demo = project()
    person = user("late", "viewer", demo, expires_at=timezone.now() - timedelta(seconds=1))

    assert not can(person, "core_pipeline_view", demo)
    assert get_permissions(person, demo) == frozenset()


def test_an_assignment_that_has_not_expired_yet_counts():
    demo = project()
    assert can(
        user("soon", "viewer", demo, expires_at=timezone.now() + timedelta(hours=1)),
        "core_pipeline_view",
        demo,
    )


def test_an_inactive_user_is_granted_nothing_at_once():
    demo = project()
    person = user("gone", "account_admin")
    User.objects.filter(pk=person.pk).update(is_active=False)

    # The object in hand still says active, as it would in an open socket.
    assert person.is_active
    assert not can(person, "core_pipeline_view", demo)


def test_a_group_gives_its_roles_to_its_members_only():
    demo, member, stranger = project(), user("member"), user("stranger")
    group = UserGroup.objects.create(scope=demo, identifier="deployers", name="Deployers")
    group.users.add(member)
    role = Role.objects.get(identifier="pipeline_executor", scope=None)
    RoleAssignment.objects.create(scope=demo, role=role, group=group)

    assert can(member, "core_pipeline_execute", demo)
    assert not can(stranger, "core_pipeline_execute", demo)
    User.objects.filter(pk=member.pk).update(is_active=False)
    assert not can(member, "core_pipeline_execute", demo)


def test_delegate_view_is_granted_to_every_member_whatever_the_role():
    demo, role = project(), Role.objects.create(identifier="nothing", name="Nothing", scope=project())
    person = user("member")
    RoleAssignment.objects.create(user=person, scope=demo, role=role)

    assert can(person, ALWAYS_GRANTED, demo)
    assert can(person, ALWAYS_GRANTED, Scope.objects.account())
    assert not can(person, ALWAYS_GRANTED, project("default/other"))


def test_member_scopes_are_the_way_up_and_everything_below():
    demo = project("default/demo")
    project("default/other")
    person = user("member", "viewer", demo)

    assert {scope.path for scope in list_member_scopes(person)} == {
        "account",
        "account/default",
        "account/default/demo",
    }


def test_an_unknown_permission_is_an_error_and_not_a_no():
    with pytest.raises(ValueError, match="core_pipeline_exceute"):
        can(user("admin", "account_admin"), "core_pipeline_exceute", project())


def test_require_hides_what_may_not_be_seen_and_forbids_what_may():
    demo, other = project("default/demo"), project("default/other")
    viewer = user("viewer", "viewer", demo)

    require(viewer, "core_pipeline_view", demo)
    with pytest.raises(Forbidden, match="core_pipeline_execute"):
        require(viewer, "core_pipeline_execute", demo)
    with pytest.raises(NotVisible):
        require(viewer, "core_pipeline_execute", other)


def test_permissions_at_agrees_with_can_for_every_permission():
    demo = project()
    for name in ("viewer", "pipeline_executor", "project_admin", "delegate_manager"):
        person = user(name, name, demo)
        assert get_permissions(person, demo) == {p for p in PERMISSIONS if can(person, p, demo)}


def test_a_list_of_what_is_visible_takes_three_queries_however_many_rows(
    django_assert_num_queries: DjangoAssertNumQueries,
):
    viewer = user("viewer", "viewer", organization("default"))
    for number in range(30):
        project(f"default/p{number}")
        project(f"foreign/p{number}")

    with django_assert_num_queries(3):
        rows = list(
            filter_visible(viewer, "core_project_view", Scope.objects.filter(kind=Scope.Kind.PROJECT))
        )
    assert len(rows) == 30


def test_a_check_takes_two_queries(django_assert_num_queries: DjangoAssertNumQueries):
    demo, viewer = project(), user("viewer", "viewer", organization("default"))
    with django_assert_num_queries(2):
        assert can(viewer, "core_pipeline_view", demo)
    with django_assert_num_queries(2):
        assert get_permissions(viewer, demo)
