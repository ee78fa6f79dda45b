"""Services beside environments, and the search for events: what runs where, and what was said of it."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from catalog.models import Environment, Infrastructure
from inventory.dashboards.environment_matrix import build_environment_matrix
from inventory.models.instances import EcsServiceEvent, EcsServiceRecord, ServiceInstance
from rbac.models import ResourceGroup, ResourceGroupEntry, Role, RoleAssignment, User
from tests.api.sample_project import World

pytestmark = pytest.mark.django_db


def create_second_record(world: World, name: str, image: str) -> EcsServiceRecord:
    """Create the record of the same service in another, production environment."""
    environment = Environment.objects.create(
        scope=world.scope, identifier=name, name=name.title(), kind=Environment.Kind.PRODUCTION
    )
    infrastructure = Infrastructure.objects.create(
        environment=environment,
        identifier="main",
        name="Main",
        connector=world.connector,
        region="us-east-1",
        cluster="demo",
    )
    task = ServiceInstance.objects.earliest("pk")
    record = EcsServiceRecord.objects.get(pk=task.ecs_service_id)
    record.pk, record._state.adding, record.name, record.infrastructure = None, True, name, infrastructure
    record.save()
    task.pk, task._state.adding, task.arn, task.ecs_service, task.image = None, True, name, record, image
    task.save()
    return record


def test_each_environment_shows_its_version_production_last(world: World, admin: User) -> None:
    create_second_record(world, "prod", "registry.example.com:5000/app:2.1")
    matrix = build_environment_matrix(admin, [world.service])
    assert [column.identifier for column in matrix.environments] == ["dev", "prod"]
    (row,) = matrix.rows
    assert [[version_entry.version for version_entry in cell] for cell in row.cells] == [["latest"], ["2.1"]]
    assert row.differs


def test_an_environment_that_one_may_not_see_is_no_column(world: World) -> None:
    create_second_record(world, "prod", "app:2.1")
    limited_user = User.objects.create_user("somebody")
    environment_group = ResourceGroup.objects.create(
        scope=world.scope, identifier="only_dev", name="Only dev"
    )
    ResourceGroupEntry.objects.create(group=environment_group, resource="environment", identifier="dev")
    viewer = Role.objects.get(identifier="viewer", scope=None)
    RoleAssignment.objects.create(
        user=limited_user, role=viewer, scope=world.scope, resource_group=environment_group
    )
    matrix = build_environment_matrix(limited_user, [world.service])
    assert [column.identifier for column in matrix.environments] == ["dev"]


def test_the_page_names_service_environment_and_version(world: World, reader: Client) -> None:
    create_second_record(world, "prod", "app:2.1")
    text = reader.get(reverse("inventory")).content.decode()
    assert "Prod" in text
    assert "2.1" in text
    assert "versions differ" in text


def read_events(reader: Client, **query: str) -> str:
    return reader.get(reverse("events"), query).content.decode()


def test_events_are_found_by_text_service_account_and_time(world: World, reader: Client) -> None:
    record, now = EcsServiceRecord.objects.get(service=world.service), timezone.now()
    record.cluster.account = "123456789012"
    record.cluster.save()
    EcsServiceEvent.objects.create(
        ecs_service=record, event="b", at=now - timedelta(days=3), message="was unable to place a task"
    )
    EcsServiceEvent.objects.create(
        ecs_service=record, event="c", at=now - timedelta(days=40), message="is unable to consistently start"
    )
    week = read_events(reader, q="UNABLE")
    assert "was unable to place" in week
    assert "consistently" not in week
    assert "consistently" in read_events(reader, q="unable", since="all")
    assert "was unable" not in read_events(reader, q="unable", since="day")
    assert "was unable" in read_events(reader, account="123456789012", service="myapp", environment="dev")
    for other in ({"account": "000000000000"}, {"service": "my"}, {"environment": "prod"}):
        assert "No event matches" in read_events(reader, **other)


def test_a_search_that_cannot_be_made_is_refused_and_kept(world: World, reader: Client) -> None:
    response = reader.get(reverse("events"), {"q": "mine", "since": "yesterday"})
    assert response.status_code == 400
    text = response.content.decode()
    assert "since: must be one of hour, day, week, month, all." in text
    assert 'value="mine"' in text


def test_a_percent_sign_is_looked_for_as_it_is(world: World, reader: Client) -> None:
    assert "No event matches" in read_events(reader, q="%", since="all")


def test_the_api_makes_no_query_for_each_ecs_service(world: World, reader: Client) -> None:
    counts = []
    # What this process reads once.
    reader.get("/api/v1/running")
    for name in ("second", "third"):
        create_second_record(world, name, "registry.example.com/app:2.1")
        with CaptureQueriesContext(connection) as queries:
            (row,) = reader.get("/api/v1/running").json()["results"]
        counts.append(len(queries))
        assert name in [place["environment"] for place in row["places"]]
    assert counts[0] == counts[1]
