"""The list of environments: health of services, last deployment, freeze, drift, filters in the address."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from catalog.models import Environment, Infrastructure, Service
from deployments.freezes.environment_freezes import load_environment_freezes
from deployments.models import FreezeWindow
from inventory.dashboards.environment_list import EnvironmentState, list_environment_states
from inventory.models.drift import DriftComparison
from inventory.models.instances import EcsServiceRecord, ServiceInstance, SyncedCluster
from rbac.models import Scope, User
from tests.api.sample_project import World
from tests.fixtures.people import make_person, make_project

pytestmark = pytest.mark.django_db


@pytest.fixture
def record(world: World) -> EcsServiceRecord:
    """The ECS service of the world's service, healthy, in step and just synced."""
    SyncedCluster.objects.update(synced_at=timezone.now())
    EcsServiceRecord.objects.update(desired=1, running=1)
    ServiceInstance.objects.update(last_status="RUNNING", health="HEALTHY")
    DriftComparison.objects.update(state=DriftComparison.State.IN_STEP)
    record = EcsServiceRecord.objects.get(service=world.service)
    assert record.infrastructure == world.infrastructure
    return record


def add_service(record: EcsServiceRecord, name: str, **values: object) -> EcsServiceRecord:
    """Add a service with an ECS service in the same cluster."""
    assert record.infrastructure is not None
    service = Service.objects.create(scope=record.infrastructure.scope, identifier=name, name=name)
    return EcsServiceRecord.objects.create(
        **{
            "cluster": record.cluster,
            "infrastructure": record.infrastructure,
            "service": service,
            "name": name,
            "arn": f"{record.arn}/{name}",
            "status": "ACTIVE",
            "desired": 1,
            "running": 1,
            "first_seen_at": timezone.now(),
            "seen_at": timezone.now(),
            **values,
        }
    )


def add_freeze(scope: Scope, **values: object) -> FreezeWindow:
    """Add a window that is active now."""
    fields = {
        "identifier": "audit",
        "name": "Audit",
        "begins": "2020-01-01T00:00",
        "ends": "2999-01-01T00:00",
    }
    return FreezeWindow.objects.create(scope=scope, **fields | values)


def get_state(reader: User, world: World) -> EnvironmentState:
    freezes = load_environment_freezes(world.scope, timezone.now())
    (state,) = list_environment_states(reader, [world.environment], freezes, timezone.now())
    return state


def load_page(reader: Client, query: str = "") -> str:
    return reader.get(reverse("environments") + query).content.decode()


def list_names(reader: Client, query: str = "") -> list[str]:
    return re.findall(r'<a class="name" href="/environments/\d+/">([^<]+)</a>', load_page(reader, query))


def test_services_of_an_environment_are_counted_by_health(
    world: World, record: EcsServiceRecord, admin: User
) -> None:
    state = get_state(admin, world)
    assert (state.health, state.summary, state.breakdown) == ("HEALTHY", "1 healthy", "")
    add_service(record, "missing_tasks", desired=3)
    SyncedCluster.objects.create(
        connector=record.cluster.connector, region="eu-west-1", cluster="old", last_used_at=timezone.now()
    )
    add_service(record, "not_synced", cluster=SyncedCluster.objects.get(cluster="old"))
    add_service(record, "switched_off", desired=0, running=0)
    state = get_state(admin, world)
    assert (state.health, state.summary) == ("UNHEALTHY", "1 of 4 unhealthy")
    assert state.breakdown == "1 unhealthy, 1 unknown, 1 healthy, 1 stopped"


def test_a_service_in_two_clusters_of_an_environment_counts_once(
    world: World, record: EcsServiceRecord, admin: User
) -> None:
    add_service(record, "other")
    EcsServiceRecord.objects.update(service=world.service)
    assert get_state(admin, world).summary == "1 healthy"


def test_old_data_is_unknown_unless_it_is_known_to_be_unhealthy(
    world: World, record: EcsServiceRecord, admin: User
) -> None:
    SyncedCluster.objects.update(synced_at=timezone.now() - timedelta(minutes=6))
    assert get_state(admin, world).summary == "1 unknown"
    ServiceInstance.objects.update(health="UNHEALTHY")
    assert get_state(admin, world).summary == "1 unhealthy"


def test_the_newest_deployment_of_all_infrastructures_is_the_last_one(
    world: World, record: EcsServiceRecord, admin: User, reader: Client
) -> None:
    state = get_state(admin, world)
    assert state.last_deployment is not None
    assert state.last_deployment.execution == world.execution
    page = load_page(reader)
    assert f"{world.execution.pipeline.name} #{world.execution.number}" in page
    outsider = make_person("outsider", "viewer", make_project("other", "shop"))
    assert get_state(outsider, world).last_deployment is None


def test_an_environment_says_whether_something_can_be_deployed(
    world: World, record: EcsServiceRecord, reader: Client
) -> None:
    empty_environment = Environment.objects.create(scope=world.scope, identifier="bare", name="Bare")
    assert "No infrastructure" in load_page(reader, "?q=bare")
    Infrastructure.objects.create(
        environment=empty_environment,
        identifier="a",
        name="A",
        connector=world.connector,
        region="x",
        cluster="c",
    )
    assert "Nothing deployed" in load_page(reader, "?q=bare")


@pytest.mark.parametrize(
    ("values", "label"),
    [
        ({}, "Frozen"),
        ({"environments": ["ENVIRONMENT"]}, "Frozen"),
        ({"services": ["web"]}, "Partly frozen"),
        ({"environments": ["another"]}, ""),
        ({"environment_kind": "KIND"}, "Frozen"),
        ({"environment_kind": "OTHER"}, ""),
        ({"enabled": False}, ""),
        ({"ends": "2020-02-01T00:00"}, ""),
    ],
)
def test_an_active_window_that_matches_an_environment_freezes_it(
    world: World, record: EcsServiceRecord, reader: Client, values: dict[str, object], label: str
) -> None:
    kinds = {"KIND": world.environment.kind, "OTHER": "Production"}
    assert world.environment.kind != "Production"
    if values.get("environments") == ["ENVIRONMENT"]:
        values = {"environments": [world.environment.identifier]}
    if "environment_kind" in values:
        values = {"environment_kind": kinds[str(values["environment_kind"])]}
    add_freeze(world.scope, **values)
    page = load_page(reader)
    assert re.findall(r"</svg>(Frozen|Partly frozen)</span>", page) == ([label] if label else [])
    assert list_names(reader, "?show=frozen") == ([world.environment.name] if label else [])


def test_a_window_of_the_organization_freezes_environments_of_its_projects_only(
    world: World, record: EcsServiceRecord, admin: User, reader: Client
) -> None:
    other = make_project("other", "shop")
    Environment.objects.create(scope=other, identifier="else", name="Elsewhere")
    assert world.scope.parent is not None
    add_freeze(world.scope.parent)
    assert get_state(admin, world).freeze is not None
    assert list_names(reader, f"?show=frozen&scope={world.scope.path}") == [world.environment.name]
    assert list_names(reader, f"?show=frozen&scope={other.path}") == []
    assert list_names(reader, "?show=frozen&scope=account") == [world.environment.name]


def test_a_window_of_a_project_freezes_the_shared_environments_that_it_deploys_to(
    world: World, record: EcsServiceRecord, reader: Client
) -> None:
    assert world.scope.parent is not None
    shared_environment = Environment.objects.create(
        scope=world.scope.parent, identifier="shared", name="Shared"
    )
    add_freeze(world.scope, environments=["shared"])
    assert list_names(reader, f"?show=frozen&scope={world.scope.path}") == [shared_environment.name]
    assert list_names(reader, f"?show=frozen&scope={world.scope.parent.path}") == []


def test_a_complete_freeze_is_named_before_a_partial_one(
    world: World, record: EcsServiceRecord, admin: User
) -> None:
    add_freeze(world.scope, identifier="some", services=["web"], ends="2999-12-31T00:00")
    complete_freeze = add_freeze(world.scope)
    freeze = get_state(admin, world).freeze
    assert freeze is not None
    assert (freeze.window, freeze.is_partial) == (complete_freeze, False)


def test_only_people_who_may_run_or_freeze_read_the_name_of_a_window(
    world: World, record: EcsServiceRecord
) -> None:
    add_freeze(world.scope, name="Merger")
    for role, is_named in (("viewer", False), ("pipeline_executor", True)):
        browser = Client()
        browser.force_login(make_person(role, role, world.scope))
        page = load_page(browser)
        assert "Frozen</span>" in page
        assert ("Merger" in page) is is_named


def test_filters_and_search_narrow_the_list(world: World, record: EcsServiceRecord, reader: Client) -> None:
    Environment.objects.create(scope=world.scope, identifier="spare", name="Spare")
    name = world.environment.name
    assert set(list_names(reader)) == {name, "Spare"}
    assert list_names(reader, "?show=unhealthy") == list_names(reader, "?show=drifted") == []
    assert "Clear filters" in load_page(reader, "?show=unhealthy")
    EcsServiceRecord.objects.update(desired=2)
    assert list_names(reader, "?show=unhealthy") == [name]
    DriftComparison.objects.update_or_create(
        ecs_service=record, defaults={"state": DriftComparison.State.DRIFTED}
    )
    assert list_names(reader, "?show=drifted") == [name]
    assert "1 drifted" in load_page(reader)
    assert list_names(reader, "?q=SPAR") == ["Spare"]
    assert list_names(reader, "?sort=name") == sorted([name, "Spare"])


def test_hidden_environments_match_no_filter(world: World, record: EcsServiceRecord) -> None:
    EcsServiceRecord.objects.update(desired=2)
    add_freeze(Scope.objects.account())
    other = make_project("other", "shop")
    Environment.objects.create(scope=other, identifier="else", name="Elsewhere")
    browser = Client()
    browser.force_login(make_person("viewer.of.other", "viewer", other))
    assert list_names(browser, f"?show=unhealthy&scope={world.scope.path}") == []
    assert list_names(browser, f"?show=frozen&scope={world.scope.path}") == ["Elsewhere"]
