"""The dashboard of a service: one page about all that runs of it, and the way back to what ran before."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from deployments.models import Execution
from inventory.dashboards.deployment_differences import compare_deployments
from inventory.models.instances import EcsServiceRecord, ServiceInstance
from rbac.models import Scope
from steps.states import Outcome, Status
from tests.api.sample_project import World
from tests.fixtures.engine_driver import Drive
from tests.fixtures.people import make_person
from tests.inventory.dashboards.deployed_stages import build_definition, create_deployment
from tests.inventory.drift.scans import sync_cluster

# Of a dashboard, with one for the Git sync that may manage the service.
MOST_QUERIES = 16


def read_page(client: Client, world: World) -> str:
    return client.get(reverse("service-dashboard", args=[world.service.pk])).content.decode()


def create_instances(count: int, image: str, definition: str, **changes: object) -> None:
    task = ServiceInstance.objects.order_by("pk").first()
    assert task is not None
    arn = task.arn
    for number in range(count):
        task.pk, task._state.adding = None, True
        task.arn, task.task_id = f"{arn}x{number}", f"task{number}"
        task.image, task.task_definition = image, definition
        for name, value in changes.items():
            setattr(task, name, value)
        task.save()


@pytest.mark.django_db
def test_tasks_are_counted_by_version_and_drawn_by_zone(world: World, reader: Client) -> None:
    definition = "arn:aws:ecs:us-east-1:123456789012:task-definition/app:2"
    EcsServiceRecord.objects.update(desired=4, running=4, task_definition=definition)
    create_instances(3, "registry/app:2.0", definition, zone="us-east-1b", health="HEALTHY")
    text = read_page(reader, world)
    assert "4 of 4 run" in text
    assert "<code>2.0</code>" in text
    assert "us-east-1b" in text
    assert text.count('class="task healthy"') == 3 + 1, "three tasks and the legend"
    assert text.count('class="task healthy old"') == 1 + 1


@pytest.mark.django_db
def test_a_service_that_sync_listed_without_a_change_is_as_new_as_the_list(
    world: World, reader: Client
) -> None:
    read_at, listed_at = (timezone.now() - timedelta(minutes=minutes) for minutes in (14, 1))
    EcsServiceRecord.objects.update(seen_at=read_at, listed_at=listed_at)
    panel = read_page(reader, world).partition("ecs-service-panel")[2]
    assert "synced" in panel
    synced = panel.partition("synced ")[2].partition("</span>")[0]
    assert f"{listed_at:%Y-%m-%dT%H:%M}" in synced


@pytest.mark.django_db
def test_environments_that_the_reader_may_not_see_are_left_out(world: World, project: Scope) -> None:
    limited_user = make_person("nobody", "viewer", project)
    client = Client()
    client.force_login(limited_user)
    assert 'class="task' in read_page(client, world)
    stranger = Client()
    stranger.force_login(make_person("stranger"))
    assert stranger.get(reverse("service-dashboard", args=[world.service.pk])).status_code == 404


@pytest.mark.django_db
def test_the_dashboard_takes_few_queries(world: World, reader: Client) -> None:
    read_page(reader, world)
    create_instances(200, "registry/app:2.0", "app:2", zone="us-east-1b")
    with CaptureQueriesContext(connection) as queries:
        read_page(reader, world)
    assert len(queries) < MOST_QUERIES, [query["sql"][:120] for query in queries]


@pytest.mark.django_db
def test_a_hidden_value_that_changed_is_told_and_not_shown(world: World, reader: Client) -> None:
    old_stage, new_stage = (
        create_deployment(world, number, build_definition(environment=items))
        for number, items in (
            (101, [{"name": "LEVEL", "value": "info-4711"}, {"name": "SAME", "value": "x-4711"}]),
            (102, [{"name": "LEVEL", "value": "debug-4711"}, {"name": "SAME", "value": "x-4711"}]),
        )
    )
    difference = compare_deployments(old_stage, new_stage).difference
    assert difference is not None
    assert difference.text is not None
    lines = [
        f"{line.sign}{line.text.strip()}"
        for hunk in difference.text.hunks
        for line in hunk
        if line.sign != " "
    ]
    assert lines == ['-"value": "•••"', '+"value": "••• (changed)"']
    address = reverse("compare-deployments", args=[world.service.pk])
    text = reader.get(address, {"from": old_stage.pk, "to": new_stage.pk}).content.decode()
    assert "containerDefinitions[app].environment[LEVEL]" in text
    assert "(changed)" in text
    assert "debug-4711" not in text


def list_saved_files(execution: Execution) -> list[list[dict[str, str]]]:
    """Return the files of an execution, by manifest."""
    return [row["texts"] for row in execution.stages.get().sources]


@pytest.mark.django_db(transaction=True)
def test_one_click_brings_back_what_an_earlier_execution_deployed(drive: Drive) -> None:
    first = drive.run("1.27")
    drive.run("1.28")
    client = Client()
    client.force_login(drive.deployer)
    sync_cluster()
    deployment = first.stages.get()
    address = reverse("return-to-deployment", args=[deployment.service_id, deployment.pk])
    page = client.get(address).content.decode()
    assert f"Roll back to Rolling demo #{first.number}" in page
    running = drive.service()["taskDefinition"]
    assert f"from what runs now ({running.rpartition('/')[2]})" in page
    assert ".image</span>" in page, "the difference to what runs now"
    assert client.post(address, {"running": running}).status_code == 302
    rerun = Execution.objects.latest("created_at")
    assert (rerun.rerun_of, rerun.artifact["tag"]) == (first, "1.27")
    assert list_saved_files(rerun) == list_saved_files(first)
    drive.until_over(rerun)
    rerun.refresh_from_db()
    assert rerun.outcome == Outcome.COMPLETED


@pytest.mark.django_db
def test_what_failed_cannot_be_rolled_back_to(world: World, reader: Client) -> None:
    stage = world.execution.stages.get()
    Execution.objects.filter(pk=world.execution.pk).update(status=Status.FAILED, ended_at=timezone.now())
    address = reverse("return-to-deployment", args=[world.service.pk, stage.pk])
    response = reader.post(address)
    assert response.status_code == 409
    assert "You can only roll back to a successful deployment" in response.content.decode()


@pytest.mark.django_db
def test_a_viewer_is_offered_no_deployment_rollback_or_change(
    world: World, reader: Client, project: Scope
) -> None:
    offers = ("Deploy new image", "Roll back to…", "Change strategy")
    assert [offer for offer in offers if offer not in read_page(reader, world)] == []
    client = Client()
    client.force_login(make_person("onlooker", "viewer", project))
    assert [offer for offer in offers if offer in read_page(client, world)] == []
