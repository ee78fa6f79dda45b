"""What stands at the top of the overview: what is under way, what waits for a person, who is away."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from delegates.models import Delegate
from deployments.models import Execution
from rbac.models import Scope
from steps.states import Status
from tests.api.sample_project import World
from tests.fixtures.delegates import make_delegate, make_instance

pytestmark = pytest.mark.django_db


def read_tile(reader: Client, name: str) -> str:
    """Return the tile of the page with this title."""
    page = reader.get(reverse("overview")).content.decode()
    return page.partition(f'id="{name}-title"')[2].partition("</section>")[0]


def test_what_is_under_way_says_where_to(world: World, reader: Client) -> None:
    assert "myapp → dev, " in read_tile(reader, "deploying")
    Execution.objects.update(status=Status.PAUSED)
    assert "No deployments in progress" in read_tile(reader, "deploying")
    assert "myapp → dev, " in read_tile(reader, "waiting")
    assert f"#{world.execution.number}<" in read_tile(reader, "waiting")


def test_approvals_are_led_to_while_one_waits(world: World, reader: Client) -> None:
    link = f'<a href="{reverse("approvals")}">'
    assert link in read_tile(reader, "waiting")
    world.approval.status = "APPROVED"
    world.approval.save()
    assert link not in read_tile(reader, "waiting")


def test_who_is_away_is_named_with_why_and_since_when(project: Scope, reader: Client) -> None:
    now = timezone.now()
    make_instance(make_delegate(project, "here"))
    make_instance(make_delegate(project, "gone"), heartbeat_at=now - timedelta(minutes=9))
    delegates_tile = read_tile(reader, "delegates")
    assert ">gone</a>" in delegates_tile
    assert "No heartbeat for 150 seconds. Last heartbeat" in delegates_tile
    assert "here" not in delegates_tile
    # The built-in one counts too, which nobody has heard of yet.
    assert "1 of 3" in delegates_tile


def test_delegates_that_never_connected_are_not_told_as_connected(project: Scope, reader: Client) -> None:
    make_delegate(project, "being-installed")
    tile = read_tile(reader, "delegates")
    assert "0 of 2" in tile
    assert "All delegates are connected" not in tile
    assert "No delegate has lost its connection." in tile
    for delegate in Delegate.objects.all():
        make_instance(delegate)
    assert "All delegates are connected" in read_tile(reader, "delegates")
