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


def create_instances(count: int, record: EcsServiceRecord | None = None, **fields: object) -> None:
    """Create equal tasks, each a second younger than the one before."""
    record_or_first, now = (
        record or EcsServiceRecord.objects.exclude(service=None).earliest("pk"),
        timezone.now(),
    )
    first = ServiceInstance.objects.count()
    default_fields = {
        "task_definition": "app:2",
        "image": "registry/app:2",
        "zone": "a",
        "last_status": "RUNNING",
    }
    ServiceInstance.objects.bulk_create(
        ServiceInstance(
            cluster_id=record_or_first.cluster_id,
            ecs_service=record_or_first,
            arn=f"arn:{number}",
            task_id=f"{number:032x}",
            desired_status="RUNNING",
            created_at=now + timedelta(seconds=number),
            fingerprint="a",
            seen_at=now,
            **{**default_fields, **fields},
        )
        for number in range(first, first + count)
    )


def test_what_is_wrong_or_moves_is_drawn_before_what_is_newest(world: World, admin: User) -> None:
    create_instances(2, health="UNHEALTHY")
    create_instances(3, last_status="PENDING", zone="b")
    create_instances(4, task_definition="app:1")
    create_instances(TASKS - 9, zone="b")
    (running_service,) = list_running_services(admin, [world.service], detailed=True, drawn=True)
    zone_a, zone_b = running_service.zones
    assert (
        zone_a.name,
        zone_a.total,
        zone_a.unhealthy,
        zone_a.transitioning,
        zone_a.outdated,
        len(zone_a.drawn),
    ) == ("a", 6, 2, 0, 4, 6)
    assert (zone_b.name, zone_b.total, zone_b.unhealthy, zone_b.transitioning, zone_b.outdated) == (
        "b",
        TASKS - 6,
        0,
        3,
        0,
    )
    assert running_service.drawn == MAX_DRAWN_PER_SERVICE
    assert (running_service.running, [version.count for version in running_service.versions]) == (
        TASKS,
        [TASKS - 4, 4],
    )
    newest_instance = ServiceInstance.objects.latest("created_at")
    assert zone_b.drawn[-1] == newest_instance
    assert {instance.last_status for instance in zone_b.drawn} == {"PENDING", "RUNNING"}


def test_two_thousand_tasks_make_no_larger_page_and_no_more_queries(world: World, admin: User) -> None:
    client = Client()
    client.force_login(admin)
    address = reverse("service-dashboard", args=[world.service.pk])
    create_instances(MAX_DRAWN_PER_SERVICE)
    before = client.get(address)
    create_instances(TASKS - MAX_DRAWN_PER_SERVICE)
    with CaptureQueriesContext(connection) as queries:
        after = client.get(address)
    assert len(queries) < MOST_QUERIES
    assert len(after.content) < len(before.content) + 1024
    assert len(after.content) < MOST_BYTES
    assert f"{MAX_DRAWN_PER_SERVICE} of {TASKS} tasks are shown" in after.content.decode()


def test_many_ecs_services_share_what_a_page_draws(world: World, admin: User) -> None:
    record = EcsServiceRecord.objects.get(service=world.service)
    for number in range(20):
        record.pk, record._state.adding, record.name = None, True, f"s{number}"
        record.save()
        create_instances(2 * MIN_DRAWN_PER_SERVICE + 20, record)
    running_services = list_running_services(admin, [world.service], detailed=True, drawn=True)
    drawn_counts = [running_service.drawn for running_service in running_services if running_service.running]
    assert drawn_counts == [MAX_DRAWN_TASKS // 20] * 20


def test_the_api_tells_all_of_them_page_by_page(world: World, admin: User) -> None:
    create_instances(250)
    client = Client()
    client.force_login(admin)
    address, task_ids = f"/api/v1/services/{world.service.pk}/instances?page_size=100", []
    client.get(address)
    while address:
        with CaptureQueriesContext(connection) as queries:
            body = client.get(address).json()
        assert len(queries) < MOST_QUERIES
        task_ids += [row["task_id"] for row in body["results"]]
        address = body["next"]
    assert len(task_ids) == len(set(task_ids)) == 250


def test_a_task_that_still_pulls_its_image_is_counted_to_the_version_of_the_others(
    world: World, admin: User
) -> None:
    create_instances(3, digest="sha256:aa")
    create_instances(2, last_status="PENDING")
    (running_service,) = list_running_services(admin, [world.service], detailed=True, drawn=True)
    assert [(version.digest, version.count) for version in running_service.versions] == [("sha256:aa", 5)]
    create_instances(1, digest="sha256:bb")
    (running_service,) = list_running_services(admin, [world.service])
    assert [(version.digest, version.count) for version in running_service.versions] == [
        ("sha256:aa", 3),
        ("", 2),
        ("sha256:bb", 1),
    ], "nobody knows which"
