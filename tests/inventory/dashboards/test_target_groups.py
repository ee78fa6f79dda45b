"""Targets that are not healthy: whose they are, why, and what somebody can do about each."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from inventory.dashboards.target_groups import _REASON_HINTS, build_target_group, get_target_tasks
from inventory.models.instances import EcsServiceRecord, ServiceInstance
from inventory.sync.upserts.target_health import list_target_groups
from rbac.models import Scope, User
from tests.api.sample_project import World, make_world
from tests.inventory.dashboards.test_service_dashboard import MOST_QUERIES, create_instances

GROUP = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/web/0123456789abcdef"
STATES = {
    "healthy": ("", ""),
    "unhealthy": ("Target.Timeout", "Request timed out"),
    "initial": ("Elb.InitialHealthChecking", "Initial health checks in progress"),
    "draining": ("Target.DeregistrationInProgress", "Target deregistration is in progress"),
    "unused": ("Target.NotInUse", "Target group is not configured"),
}


def build_target(address: str, state: str) -> dict[str, Any]:
    reason, description = STATES.get(state, ("", ""))
    return {
        "target": address, "port": 80, "zone": "us-east-1a", "state": state, "reason": reason,
        "description": description,
    }  # fmt: skip


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    """A service behind a load balancer, with three targets that get no traffic."""
    world = make_world(project, admin, admin)
    ServiceInstance.objects.update(address="10.0.0.1", task_id="0123456789abcdef0123")
    group = {
        "arn": GROUP,
        "name": "web",
        "counts": {"healthy": 4, "unhealthy": 1, "draining": 1, "initial": 1},
        "total": 7,
        "unhealthy": [build_target("10.0.0.1", "unhealthy")],
        "unhealthy_total": 1,
        "others": [build_target("10.0.0.2", "draining"), build_target("10.0.0.3", "initial")],
        "read_at": timezone.now().isoformat(),
    }
    EcsServiceRecord.objects.filter(service=world.service).update(
        description={"loadBalancers": [{"targetGroupArn": GROUP}]}, targets=[group], viewed_at=timezone.now()
    )
    return world


@pytest.mark.django_db
def test_the_dashboard_says_whose_a_target_is_why_and_what_to_do(world: World, reader: Client) -> None:
    text = reader.get(reverse("service-dashboard", args=[world.service.pk])).content.decode()
    for phrase in (
        "4 healthy",
        "1 unhealthy",
        "1 draining",
        "1 initial",
        "Request timed out",
        "Target.Timeout",
    ):
        assert phrase in text
    assert text.index("10.0.0.1:80") < text.index("10.0.0.3:80") < text.index("10.0.0.2:80"), (
        "the worst first"
    )
    assert "?q=0123456789abcdef0123" in text
    assert text.count("no running task") == 2
    for code in ("Target.Timeout", "Target.DeregistrationInProgress", "Elb.InitialHealthChecking"):
        assert _REASON_HINTS[code] in text
    page = reader.get(f"/services/{world.service.pk}/instances/?q=0123456789abcdef0123").content.decode()
    assert "0123456789a…" in page


@pytest.mark.django_db
def test_the_api_tells_the_same(world: World, reader: Client) -> None:
    (placement,) = reader.get(reverse("api-service-dashboard", args=[world.service.pk])).json()["places"]
    (group,) = placement["target_groups"]
    (unhealthy_target,) = group["unhealthy"]
    assert (group["total"], group["unhealthy_total"]) == (7, 1)
    assert (unhealthy_target["task"], unhealthy_target["hint"]) == (
        "0123456789abcdef0123",
        _REASON_HINTS["Target.Timeout"],
    )
    assert [(row["state"], row["task"]) for row in group["others"]] == [("initial", None), ("draining", None)]


@pytest.mark.django_db
def test_whose_targets_are_takes_one_query_however_many(world: World, reader: Client) -> None:
    records = list(EcsServiceRecord.objects.filter(service=world.service))
    create_instances(30, "a:1", "a:1", address="10.0.0.2")
    with CaptureQueriesContext(connection) as queries:
        assert len(get_target_tasks(records)[records[0].pk]) == 2
    assert len(queries) == 1
    address = reverse("service-dashboard", args=[world.service.pk])
    reader.get(address)
    with CaptureQueriesContext(connection) as queries:
        reader.get(address)
    assert len(queries) < MOST_QUERIES
    EcsServiceRecord.objects.filter(service=world.service).update(targets=[])
    with CaptureQueriesContext(connection) as queries:
        assert get_target_tasks(EcsServiceRecord.objects.all()) == {}
    assert len(queries) == 1, "only that of the services"


@pytest.mark.django_db
def test_of_a_machine_with_several_tasks_nobody_knows_whose_the_target_is(world: World) -> None:
    group = {"arn": GROUP, "unhealthy": [build_target("i-0a", "unhealthy")]}
    EcsServiceRecord.objects.filter(service=world.service).update(targets=[group])
    record = EcsServiceRecord.objects.get(service=world.service)
    assert get_target_tasks([record]) == {record.pk: {"i-0a": "0123456789abcdef0123"}}
    create_instances(1, "a:1", "a:1")
    assert get_target_tasks([record]) == {record.pk: {"i-0a": ""}}


def test_whatever_was_kept_has_a_name_and_a_hint() -> None:
    stored_health = {
        "counts": {"new_state": 2},
        "unhealthy": [build_target("x", "new_state"), {}],
        "read_at": "never",
    }
    target_group = build_target_group(GROUP, stored_health, {})
    assert (target_group.name, target_group.read_at, target_group.targets_total) == ("web", None, 2)
    assert all(health_target.hint for health_target in target_group.targets)
    assert build_target_group(GROUP, {}, {}).targets == ()


def test_the_alternate_target_group_of_a_deployment_by_ecs_is_read_too() -> None:
    alternate = GROUP.replace("/web/", "/web-green/")
    balancer = {"targetGroupArn": GROUP, "advancedConfiguration": {"alternateTargetGroupArn": alternate}}
    record = EcsServiceRecord(description={"loadBalancers": [balancer, "odd", {"advancedConfiguration": 1}]})
    assert list_target_groups(record) == [GROUP, alternate]
