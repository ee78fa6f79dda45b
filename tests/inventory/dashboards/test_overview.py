"""What stands at the top of the overview: what is under way, what waits for a person, who is away."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from deployments.models import Execution
from rbac.models import Scope
from steps.states import Status
from tests.api.sample_project import World
from tests.fixtures.delegates import make_delegate, make_instance

pytestmark = pytest.mark.django_db


def tile(reader: Client, name: str) -> str:
    """The tile of the page with this title."""
    shown = reader.get(reverse("overview")).content.decode()
    return shown.partition(f'id="{name}-title"')[2].partition("</section>")[0]


def test_what_is_under_way_says_where_to(world: World, reader: Client) -> None:
    assert "myapp → dev, " in tile(reader, "deploying")
    Execution.objects.update(status=Status.PAUSED)
    assert "No deployments in progress" in tile(reader, "deploying")
    assert "myapp → dev, " in tile(reader, "waiting")
    assert f"#{world.execution.number}<" in tile(reader, "waiting")


def test_approvals_are_led_to_while_one_waits(world: World, reader: Client) -> None:
    link = f'<a href="{reverse("approvals")}">'
    assert link in tile(reader, "waiting")
    world.approval.status = "APPROVED"
    world.approval.save()
    assert link not in tile(reader, "waiting")


def test_who_is_away_is_named_with_why_and_since_when(project: Scope, reader: Client) -> None:
    now = timezone.now()
    make_instance(make_delegate(project, "here"))
    make_instance(make_delegate(project, "gone"), heartbeat_at=now - timedelta(minutes=9))
    shown = tile(reader, "delegates")
    assert ">gone</a>" in shown
    assert "No heartbeat for 150 seconds. Last heartbeat" in shown
    assert "here" not in shown
    # The built-in one counts too, which nobody has heard of yet.
    assert "1 of 3" in shown
