"""The page of the overview: what goes on comes with it, and what was counted after it."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from deployments.models import Execution
from rbac.models import Role, RoleAssignment, User
from steps.states import Outcome, Status
from tests.api.sample_project import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(world: World) -> World:
    """With an execution that ended well."""
    Execution.objects.filter(pk=world.execution.pk).update(
        status=Status.SUCCESS, outcome=Outcome.COMPLETED, ended_at=timezone.now()
    )
    return world


def read_text(reader: Client, name: str, query: str = "", *, is_partial: bool = False) -> str:
    headers = {"HX-Request": "true"} if is_partial else {}
    response = reader.get(reverse(name) + query, headers=headers)
    assert response.status_code == 200
    return response.content.decode()


def test_the_page_counts_nothing_and_names_who_does(world: World, reader: Client) -> None:
    page = read_text(reader, "overview", "?days=30")
    assert "Deployments per day" not in page
    assert f'hx-get="{reverse("overview-figures")}?days=30"' in page


def test_the_figures_are_a_part_of_a_page_and_a_page_for_who_wants_them_alone(
    world: World, reader: Client
) -> None:
    part = read_text(reader, "overview-figures", "?days=7", is_partial=True)
    assert part.lstrip().startswith('<div id="figures"')
    assert "1 succeeded" in part
    assert "1 succeeded" in read_text(reader, "overview-figures", "?days=7")
    # Else a browser that goes back may show the one that it kept for the other.
    assert "HX-Request" in reader.get(reverse("overview-figures"))["Vary"]


def test_nothing_is_counted_for_who_may_see_no_execution(world: World, django_user_model: type[User]) -> None:
    other_client = Client()
    other_client.force_login(django_user_model.objects.create_user("somebody"))
    part = read_text(other_client, "overview-figures", is_partial=True)
    assert "1 succeeded" not in part
    assert "Succeeded 0" in part


@pytest.mark.parametrize("range_query", ["", "?days=8", "?days=99999999999999999999"])
def test_a_range_that_there_is_not_is_the_usual_one(world: World, reader: Client, range_query: str) -> None:
    assert "last 14 days" in read_text(reader, "overview-figures", range_query, is_partial=True)


def test_the_way_to_a_first_deployment_ends_with_the_first(world: World, reader: Client) -> None:
    started_at = timezone.now() - timedelta(days=200)
    Execution.objects.update(status=Status.SUCCESS, created_at=started_at, ended_at=started_at)
    assert "Get started" not in read_text(reader, "overview")
    Execution.objects.all().delete()
    assert "Get started" in read_text(reader, "overview")


def test_the_overview_shows_versions_by_environment_and_recent_activity(world: World, reader: Client) -> None:
    content = reader.get("/").content.decode()
    assert f'<a class="name" href="/services/{world.service.pk}/dashboard/">' in content
    assert 'aria-labelledby="recent-title"' in content
    assert f'id="execution-{world.execution.pk}"' in content


@pytest.mark.parametrize("name", ["overview", "executions"])
def test_only_who_may_run_a_pipeline_is_offered_to(
    world: World, reader: Client, django_user_model: type[User], name: str
) -> None:
    assert "Run pipeline" in read_text(reader, name)
    viewer = django_user_model.objects.create_user("viewer-only")
    role = Role.objects.get(identifier="viewer", scope=None)
    RoleAssignment.objects.create(user=viewer, role=role, scope=world.execution.scope)
    client = Client()
    client.force_login(viewer)
    page = read_text(client, name)
    assert world.execution.pipeline.name in page
    assert "Run pipeline" not in page
