"""Searching executions: by pipeline, number or tag, and the same on either database."""

from collections.abc import Callable

import pytest
from django.test import Client
from rest_framework.test import APIClient

from deployments.execution import operations
from rbac.models import Scope, User
from tests.api.sample_project import CANARY, World, make_world

pytestmark = pytest.mark.django_db

Browse = Callable[[User], Client]
Call = Callable[[User], APIClient]


@pytest.fixture
def sample(project: Scope, admin: User) -> World:
    """A project with one execution, of the pipeline "Übung 100%", with the tag v1.28-RC."""
    world = make_world(project, admin, admin)
    world.pipeline.name = "Übung 100%"
    world.pipeline.save()
    world.execution.artifact = {"image": "myapp", "tag": "v1.28-RC"}
    world.execution.save()
    return world


@pytest.mark.parametrize(
    ("text", "is_match"),
    [
        ("Übung", True),
        ("übu", True),
        ("ÜBUNG 1", True),
        ("ROLLING", True),
        ("100%", True),
        ("%1%", False),
        ("r_lling", False),
        ("#1", True),
        ("1", True),
        ("#2", False),
        ("v1.28-RC", True),
        (" v1.28-RC ", True),
        ("v1.28-rc", False),
        ("v1", False),
        ("99999999999999999999", False),
        ("', (SELECT 1)) --", False),
    ],
)
def test_an_execution_is_found_by_pipeline_number_and_tag(
    text: str, is_match: bool, sample: World, admin: User, browse: Browse, call: Call
):
    page = browse(admin).get("/deployments/", {"q": text})
    assert [row.pk for row in page.context["page"].items] == [sample.execution.pk] * is_match
    response = call(admin).get("/api/v1/executions", {"q": text}).json()
    assert [row["id"] for row in response["results"]] == [str(sample.execution.pk)] * is_match


def test_nobody_finds_what_they_may_not_see(sample: World, stranger: User, call: Call):
    assert call(stranger).get("/api/v1/executions", {"q": "#1"}).json()["results"] == []


def test_a_search_stays_with_the_filter_and_leaves_with_one_click(sample: World, admin: User, browse: Browse):
    operations.abort_execution(actor=admin, execution=sample.execution)
    page = browse(admin).get("/deployments/", {"q": "<b>nothing</b>", "status": "open"}).content.decode()
    assert "No execution matches “&lt;b&gt;nothing&lt;/b&gt;”" in page
    assert 'href="?q=%3Cb%3Enothing%3C%2Fb%3E&amp;status=failed"' in page
    assert '<input type="hidden" name="status" value="open">' in page
    assert CANARY not in page
