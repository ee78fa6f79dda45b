"""Rights are read once for a request that changes nothing, and afresh for every other."""

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from pipelines.models import Pipeline
from rbac.models import ResourceGroup, Role, RoleAssignment, Scope
from rbac.permissions import PERMISSIONS
from rbac.policy import (
    cache_permissions,
    can,
    can_anywhere,
    filter_visible,
    get_permissions,
    get_permissions_anywhere,
    list_member_scopes,
    list_permitted_scopes,
)
from rbac.policy.grants import MOST_SCOPE_IDS
from tests.rbac.people import grant, project, user

pytestmark = pytest.mark.django_db
VIEW = "core_pipeline_view"


def pipeline(scope: Scope, identifier: str) -> Pipeline:
    return Pipeline.objects.create(scope=scope, identifier=identifier, name=identifier, yaml="")


def test_however_often_it_is_asked_rights_are_read_once(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    demo = project()
    person, web = user("person", "viewer", demo), pipeline(demo, "one")
    with cache_permissions():
        with django_assert_num_queries(2):
            assert can(person, VIEW, demo)
        with django_assert_num_queries(0):
            assert [permission for permission in PERMISSIONS if can(person, permission, demo)] == sorted(
                get_permissions(person, demo), key=list(PERMISSIONS).index
            )
            assert VIEW in get_permissions_anywhere(person)
            assert can_anywhere(person, VIEW)
            assert not can_anywhere(person, "core_pipeline_edit")
        with django_assert_num_queries(3):
            assert list(filter_visible(person, VIEW, Pipeline.objects.all())) == [web]
            assert list(list_permitted_scopes(person, VIEW)) == [demo]
            assert demo in list_member_scopes(person)


def test_what_is_remembered_of_one_is_not_said_of_another() -> None:
    demo = project()
    viewer, nobody = user("viewer_of_demo", "viewer", demo), user("nobody")
    with cache_permissions():
        assert can(viewer, VIEW, demo)
        assert not can(nobody, VIEW, demo)
        assert not filter_visible(nobody, "core_project_view", Scope.objects.all())


def test_nothing_is_remembered_after_the_request() -> None:
    demo = project()
    person = user("person", "viewer", demo)
    with cache_permissions():
        assert can(person, VIEW, demo)
    RoleAssignment.objects.all().delete()
    assert not can(person, VIEW, demo)
    with cache_permissions():
        assert not can(person, VIEW, demo)


def test_a_page_after_a_role_was_taken_away_shows_nothing_of_it(client: Client) -> None:
    demo = project()
    person, web = user("person", "viewer", demo), pipeline(demo, "one")
    client.force_login(person)
    at = reverse("pipeline", args=[web.pk])
    assert client.get(at).status_code == 200
    RoleAssignment.objects.filter(user=person).delete()
    assert client.get(at).status_code == 404
    grant(person, "viewer", demo)
    assert client.get(at).status_code == 200


def test_what_is_named_is_found_among_others_where_it_is_given() -> None:
    demo, other = project("default/demo"), project("default/other")
    pipelines = [pipeline(scope, name) for scope in (demo, other) for name in ("a", "b")]
    person = user("person")
    group = ResourceGroup.objects.create(scope=Scope.objects.account(), identifier="some", name="Some")
    group.entries.create(resource="pipeline", identifier="a")
    role = Role.objects.get(identifier="viewer", scope=None)
    RoleAssignment.objects.create(user=person, role=role, scope=other, resource_group=group)
    with cache_permissions():
        assert list(filter_visible(person, VIEW, Pipeline.objects.all())) == [pipelines[2]]
        assert [can(person, VIEW, thing) for thing in pipelines] == [False, False, True, False]
        assert not can_anywhere(person, VIEW), "not on everything of its kind"
        assert VIEW in get_permissions_anywhere(person)


def test_more_scopes_than_a_condition_should_name_are_asked_of_the_database() -> None:
    demo = project()
    Scope.objects.bulk_create(
        Scope(kind="PROJECT", parent=demo.parent, identifier=f"p{n}", name="P", path=f"account/default/p{n}")
        for n in range(MOST_SCOPE_IDS)
    )
    person, web = user("person", "viewer"), pipeline(demo, "one")
    with cache_permissions():
        visible = filter_visible(person, VIEW, Pipeline.objects.all())
        assert list(visible) == [web]
        assert len(visible.query.sql_with_params()[1]) < MOST_SCOPE_IDS, "they are not listed one by one"
        assert list_permitted_scopes(person, VIEW).count() == Scope.objects.count()
