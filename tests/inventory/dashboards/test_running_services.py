"""The map of an ECS service with thousands of tasks: all counted, some drawn, and those that matter first."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from inventory.dashboards.running_services import (
    MAX_DRAWN_PER_SERVICE,
    MAX_DRAWN_TASKS,
    MIN_DRAWN_PER_SERVICE,
    list_running_services,
)
from inventory.models.instances import EcsServiceRecord, ServiceInstance
from rbac.models import Scope, User
from tests.api.sample_project import World, make_world
from tests.inventory.dashboards.test_service_dashboard import MOST_QUERIES

pytestmark = pytest.mark.django_db
TASKS = 2000
# What a phone on a slow line loads in a second or so.
MOST_BYTES = 100 * 1024


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    world = make_world(project, admin, admin)
    ServiceInstance.objects.all().delete()
    EcsServiceRecord.objects.update(task_definition="app:2", desired=TASKS, running=TASKS)
    return world


def run(count: int, seen: EcsServiceRecord | None = None, **looks: object) -> None:
    """So many tasks that look the same, each a second younger than the one before."""
    one, now = seen or EcsServiceRecord.objects.exclude(service=None).earliest("pk"), timezone.now()
    first = ServiceInstance.objects.count()
    same = {"task_definition": "app:2", "image": "registry/app:2", "zone": "a", "last_status": "RUNNING"}
    ServiceInstance.objects.bulk_create(
        ServiceInstance(
            cluster_id=one.cluster_id,
            ecs_service=one,
            arn=f"arn:{number}",
            task_id=f"{number:032x}",
            desired_status="RUNNING",
            created_at=now + timedelta(seconds=number),
            fingerprint="a",
            seen_at=now,
            **{**same, **looks},
        )
        for number in range(first, first + count)
    )


def test_what_is_wrong_or_moves_is_drawn_before_what_is_newest(world: World, admin: User) -> None:
    run(2, health="UNHEALTHY")
    run(3, last_status="PENDING", zone="b")
    run(4, task_definition="app:1")
    run(TASKS - 9, zone="b")
    (place,) = list_running_services(admin, [world.service], detailed=True, drawn=True)
    a, b = place.zones
    assert (a.name, a.total, a.unhealthy, a.transitioning, a.outdated, len(a.drawn)) == ("a", 6, 2, 0, 4, 6)
    assert (b.name, b.total, b.unhealthy, b.transitioning, b.outdated) == ("b", TASKS - 6, 0, 3, 0)
    assert place.drawn == MAX_DRAWN_PER_SERVICE
    assert (place.running, [one.count for one in place.versions]) == (TASKS, [TASKS - 4, 4])
    newest = ServiceInstance.objects.latest("created_at")
    assert b.drawn[-1] == newest
    assert {one.last_status for one in b.drawn} == {"PENDING", "RUNNING"}


def test_two_thousand_tasks_make_no_larger_page_and_no_more_queries(world: World, admin: User) -> None:
    client = Client()
    client.force_login(admin)
    address = reverse("service-dashboard", args=[world.service.pk])
    run(MAX_DRAWN_PER_SERVICE)
    before = client.get(address)
    run(TASKS - MAX_DRAWN_PER_SERVICE)
    with CaptureQueriesContext(connection) as found:
        after = client.get(address)
    assert len(found) < MOST_QUERIES
    assert len(after.content) < len(before.content) + 1024
    assert len(after.content) < MOST_BYTES
    assert f"{MAX_DRAWN_PER_SERVICE} of {TASKS} tasks are shown" in after.content.decode()


def test_many_ecs_services_share_what_a_page_draws(world: World, admin: User) -> None:
    seen = EcsServiceRecord.objects.get(service=world.service)
    for number in range(20):
        seen.pk, seen._state.adding, seen.name = None, True, f"s{number}"
        seen.save()
        run(2 * MIN_DRAWN_PER_SERVICE + 20, seen)
    places = list_running_services(admin, [world.service], detailed=True, drawn=True)
    drawn = [place.drawn for place in places if place.running]
    assert drawn == [MAX_DRAWN_TASKS // 20] * 20


def test_the_api_tells_all_of_them_page_by_page(world: World, admin: User) -> None:
    run(250)
    client = Client()
    client.force_login(admin)
    address, told = f"/api/v1/services/{world.service.pk}/instances?page_size=100", []
    client.get(address)
    while address:
        with CaptureQueriesContext(connection) as found:
            answer = client.get(address).json()
        assert len(found) < MOST_QUERIES
        told += [one["task_id"] for one in answer["results"]]
        address = answer["next"]
    assert len(told) == len(set(told)) == 250


def test_a_task_that_still_pulls_its_image_is_counted_to_the_version_of_the_others(
    world: World, admin: User
) -> None:
    run(3, digest="sha256:aa")
    run(2, last_status="PENDING")
    (place,) = list_running_services(admin, [world.service], detailed=True, drawn=True)
    assert [(one.digest, one.count) for one in place.versions] == [("sha256:aa", 5)]
    run(1, digest="sha256:bb")
    (place,) = list_running_services(admin, [world.service])
    assert [(one.digest, one.count) for one in place.versions] == [
        ("sha256:aa", 3),
        ("", 2),
        ("sha256:bb", 1),
    ], "nobody knows which"
