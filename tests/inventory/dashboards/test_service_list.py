"""The list of services: health, versions, last deployment, drift, filters in the address."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from catalog.models import Service
from inventory.dashboards.service_list import ServiceState, list_service_states
from inventory.models.drift import DriftComparison
from inventory.models.instances import EcsServiceRecord, ServiceInstance, SyncedCluster
from rbac.models import ResourceGroup, ResourceGroupEntry, Role, RoleAssignment, User
from tests.api.sample_project import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def record(world: World) -> EcsServiceRecord:
    """The ECS service of the world's service, in step and just synced."""
    SyncedCluster.objects.update(synced_at=timezone.now())
    EcsServiceRecord.objects.update(desired=1, running=1)
    ServiceInstance.objects.update(last_status="RUNNING", health="HEALTHY")
    return EcsServiceRecord.objects.get(service=world.service)


def get_state(reader: User, world: World) -> ServiceState:
    (state,) = list_service_states(reader, [world.service], timezone.now())
    return state


def list_names(reader: Client, query: str = "") -> list[str]:
    content = reader.get(reverse("services") + query).content.decode()
    return re.findall(r'<a class="name" href="/services/\d+/dashboard/">([^<]+)</a>', content)


def test_a_service_with_all_tasks_running_is_healthy(
    world: World, record: EcsServiceRecord, admin: User
) -> None:
    state = get_state(admin, world)
    assert (state.health, state.reason) == ("HEALTHY", "")
    assert state.last_deployment is not None
    assert state.last_deployment.execution == world.execution


def test_missing_and_unhealthy_tasks_are_named(world: World, record: EcsServiceRecord, admin: User) -> None:
    EcsServiceRecord.objects.update(desired=3)
    assert get_state(admin, world).reason == f"{record.name}: 1 of 3 running"
    EcsServiceRecord.objects.update(desired=1)
    ServiceInstance.objects.update(health="UNHEALTHY")
    state = get_state(admin, world)
    assert (state.health, state.reason) == ("UNHEALTHY", f"{record.name}: 1 unhealthy task")


def test_old_data_is_unknown_and_never_healthy(world: World, record: EcsServiceRecord, admin: User) -> None:
    SyncedCluster.objects.update(synced_at=timezone.now() - timedelta(minutes=6))
    state = get_state(admin, world)
    assert state.health == "UNKNOWN"
    assert "not synced" in state.reason
    EcsServiceRecord.objects.update(desired=2)
    assert get_state(admin, world).health == "UNHEALTHY"


def test_a_service_without_tasks_on_purpose_is_stopped(
    world: World, record: EcsServiceRecord, admin: User
) -> None:
    EcsServiceRecord.objects.update(desired=0, running=0)
    assert get_state(admin, world).health == "STOPPED"


def test_filters_find_unhealthy_drifted_and_undeployed_services(
    world: World, record: EcsServiceRecord, reader: Client
) -> None:
    Service.objects.create(scope=world.scope, identifier="spare", name="Spare")
    assert set(list_names(reader)) == {world.service.name, "Spare"}
    assert list_names(reader, "?show=unhealthy") == []
    EcsServiceRecord.objects.update(desired=2)
    assert list_names(reader, "?show=unhealthy") == [world.service.name]
    assert list_names(reader, "?show=undeployed") == ["Spare"]
    DriftComparison.objects.update_or_create(
        ecs_service=record, defaults={"state": DriftComparison.State.DRIFTED}
    )
    assert list_names(reader, "?show=drifted") == [world.service.name]
    assert list_names(reader, "?q=SPAR") == ["Spare"]


def test_the_list_shows_drift_as_the_dashboard_does(
    world: World, record: EcsServiceRecord, reader: Client
) -> None:
    now = timezone.now()
    comparison, _ = DriftComparison.objects.update_or_create(
        ecs_service=record, defaults={"state": DriftComparison.State.IN_STEP, "compared_at": now}
    )
    pages = (reverse("services"), reverse("service-dashboard", args=[world.service.pk]))
    for page in pages:
        assert "In sync" in reader.get(page).content.decode(), page
    DriftComparison.objects.update(state=DriftComparison.State.DRIFTED)
    for page in pages:
        assert reverse("drift-of-service", args=[comparison.pk]) in reader.get(page).content.decode(), page
    DriftComparison.objects.update(compared_at=now - timedelta(minutes=11))
    for page in pages:
        assert "Not compared for 10 minutes. Last known: drifted." in reader.get(page).content.decode(), page


def test_health_of_an_unseen_environment_is_neither_shown_nor_filtered(
    world: World, record: EcsServiceRecord
) -> None:
    EcsServiceRecord.objects.update(desired=2)
    limited_user = User.objects.create_user("somebody")
    services_group = ResourceGroup.objects.create(scope=world.scope, identifier="services", name="Services")
    ResourceGroupEntry.objects.create(group=services_group, resource="service", identifier="")
    viewer = Role.objects.get(identifier="viewer", scope=None)
    RoleAssignment.objects.create(
        user=limited_user, role=viewer, scope=world.scope, resource_group=services_group
    )
    browser = Client()
    browser.force_login(limited_user)
    assert get_state(limited_user, world).health == ""
    assert list_names(browser, "?show=unhealthy") == []
    assert list_names(browser, "?show=undeployed") == [world.service.name]
    assert "in environments that you may view" in browser.get(reverse("services")).content.decode()
    for page in (reverse("service-dashboard", args=[world.service.pk]), reverse("inventory")):
        assert "Environments that you may not view are left out." in browser.get(page).content.decode(), page


def test_a_service_is_not_deployed_for_who_may_view_every_environment(
    world: World, record: EcsServiceRecord, reader: Client
) -> None:
    record.delete()
    content = reader.get(reverse("services")).content.decode()
    assert "Not deployed" in content
    assert "that you may view" not in content


def test_two_percent_of_five_hundred_services_are_found_by_address(
    world: World, record: EcsServiceRecord, reader: Client, django_assert_max_num_queries: object
) -> None:
    services = Service.objects.bulk_create(
        Service(scope=world.scope, identifier=f"app_{number}", name=f"App {number:03}")
        for number in range(500)
    )
    rows = [
        EcsServiceRecord(
            cluster=record.cluster,
            infrastructure=record.infrastructure,
            service=service,
            name=service.identifier,
            arn=f"{record.arn}/{service.identifier}",
            status="ACTIVE",
            desired=2,
            running=1 if number % 50 == 0 else 2,
            first_seen_at=timezone.now(),
            seen_at=timezone.now(),
        )
        for number, service in enumerate(services)
    ]
    EcsServiceRecord.objects.bulk_create(rows)
    with django_assert_max_num_queries(22):  # type: ignore[operator]
        names = list_names(reader, "?show=unhealthy&sort=name")
    assert names == [f"App {number:03}" for number in range(0, 500, 50)]


def test_a_service_beyond_the_limit_of_a_page_is_unknown_and_not_undeployed(
    world: World, record: EcsServiceRecord, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inventory.dashboards.service_list.MAX_LISTED_ECS_SERVICES", 1)
    unused_service = Service.objects.create(scope=world.scope, identifier="spare", name="Spare")
    states = list_service_states(admin, [world.service, unused_service], timezone.now())
    assert [state.health for state in states] == ["HEALTHY", ""], "as many as the limit are all of them"
    record.pk, record.name, record.arn = None, "z_last", f"{record.arn}/z_last"
    record.save(force_insert=True)
    states = list_service_states(admin, [world.service, unused_service], timezone.now())
    assert {state.health for state in states} == {"UNKNOWN"}
    assert "at most 1 ECS services" in states[1].reason
