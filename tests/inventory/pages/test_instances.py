"""The page of instances says how fresh it is, has the picture taken again, and finds what is looked for."""

from datetime import timedelta

import pytest
from django.test import Client

from catalog.models import Infrastructure, Service
from inventory.models.instances import ContainerInstance, ServiceInstance, SyncedCluster
from inventory.sync.clusters import REQUEST_INTERVAL, list_due_clusters
from rbac.models import AuditEntry, Role, RoleAssignment, Scope, User
from tests.fixtures.engine_driver import Drive
from tests.fixtures.people import make_person
from tests.inventory.sync.test_sync import sync
from web.clock import get_database_time

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def synced_cluster(drive: Drive, client: Client) -> SyncedCluster:
    """The demo's cluster with two tasks, one of them stopped, looked at by somebody who deploys."""
    drive.run("1.27")
    cluster = sync()
    client.force_login(drive.deployer)
    instance = ServiceInstance.objects.earliest("pk")
    machine = ContainerInstance.objects.create(
        cluster=cluster,
        arn="arn:machine",
        ec2_instance="i-0abc",
        zone="us-east-1a",
        seen_at=get_database_time(),
    )
    instance.pk, instance.arn, instance.task_id = None, "arn:stopped", "feedbeef"
    instance.last_status = instance.desired_status = "STOPPED"
    instance.stopped_at, instance.stop_code = get_database_time(), "EssentialContainerExited"
    instance.stopped_reason, instance.container_instance = "<b>Out of memory</b>", machine
    instance.containers = [{"name": "app", "exit_code": 137, "reason": "OutOfMemoryError"}]
    instance.save()
    return cluster


def create_environment_viewer(scope: Scope) -> User:
    """Create a user who may view the environments of a scope and nothing else."""
    role = Role.objects.create(scope=scope, identifier="some", name="Some")
    role.set_permissions({"core_environment_view"})
    limited_user = make_person("somebody")
    RoleAssignment.objects.create(user=limited_user, role=role, scope=scope)
    return limited_user


def read_page(client: Client, query: str = "", status: int = 200) -> str:
    response = client.get(f"/instances/{query}")
    assert response.status_code == status
    return str(response.content.decode())


def test_the_page_says_how_fresh_it_is_and_a_button_has_it_taken_again(
    synced_cluster: SyncedCluster, client: Client, drive: Drive
) -> None:
    content = read_page(client)
    assert "synced <time" in content
    assert "Sync now" in content
    infrastructure = Infrastructure.objects.get()
    SyncedCluster.objects.update(due_at=get_database_time() + timedelta(hours=1))
    response = client.post(
        f"/infrastructures/{infrastructure.pk}/sync/", {"next": "/instances/?show=stopped"}
    )
    assert (response.status_code, response["Location"]) == (302, "/instances/?show=stopped")
    assert list_due_clusters(get_database_time(), 9) == [synced_cluster.pk]
    assert AuditEntry.objects.filter(action="infrastructure.sync", actor=drive.deployer).exists()
    assert ", queued" in read_page(client)
    for foreign_address in ("https://example.com/", "//example.com/", "javascript:alert(1)"):
        response = client.post(f"/infrastructures/{infrastructure.pk}/sync/", {"next": foreign_address})
        assert response["Location"] == "/instances/"


def test_however_often_somebody_asks_one_look_begins_in_ten_seconds(
    synced_cluster: SyncedCluster, client: Client
) -> None:
    infrastructure = Infrastructure.objects.get()
    client.post(f"/infrastructures/{infrastructure.pk}/sync/")
    first = SyncedCluster.objects.get()
    SyncedCluster.objects.update(due_at=get_database_time() + timedelta(minutes=1))
    for _ in range(5):
        client.post(f"/infrastructures/{infrastructure.pk}/sync/")
    cluster = SyncedCluster.objects.get()
    assert first.sync_requested_at is not None
    assert cluster.due_at == first.sync_requested_at + REQUEST_INTERVAL


def test_who_may_only_look_has_no_button_and_is_refused(
    synced_cluster: SyncedCluster, client: Client
) -> None:
    client.force_login(User.objects.get(username="viewer"))
    assert "Sync now" not in read_page(client)
    infrastructure = Infrastructure.objects.get()
    assert client.post(f"/infrastructures/{infrastructure.pk}/sync/").status_code == 403


def test_a_failure_is_shown_with_the_next_step_and_what_is_missing(
    synced_cluster: SyncedCluster, client: Client
) -> None:
    SyncedCluster.objects.update(
        failure="AWS denied <ecs:ListTasks>.",
        failure_step="Add this policy to the role.",
        denied_reads=[{"action": "application-autoscaling:DescribeScalableTargets", "why": "AWS denied it."}],
    )
    content = read_page(client)
    assert "AWS denied &lt;ecs:ListTasks&gt;." in content
    assert "<strong>Next:</strong> Add this policy to the role." in content
    assert "<code>application-autoscaling:DescribeScalableTargets</code>" in content


def test_a_task_that_runs_on_turns_no_wheel(synced_cluster: SyncedCluster, client: Client) -> None:
    assert " spin" not in read_page(client)
    ServiceInstance.objects.filter(stopped_at=None).update(last_status="PENDING")
    assert " spin" in read_page(client)


def test_what_has_stopped_is_found_with_its_machine_and_exit_codes(
    synced_cluster: SyncedCluster, client: Client
) -> None:
    content = read_page(client, "?show=stopped")
    assert "feedbeef" in content
    assert "&lt;b&gt;Out of memory&lt;/b&gt;" in content
    assert "exit code 137: OutOfMemoryError" in content
    assert "kept for 30 days" in content
    for query in ("q=memory", "q=feed", "q=i-0abc", "environment=dev", "origin=EXECUTION"):
        assert "feedbeef" in read_page(client, f"?show=stopped&{query}"), query
    for query in ("q=nothing+like+it", "environment=elsewhere", "origin=OUTSIDE"):
        assert "No task matches" in read_page(client, f"?show=stopped&{query}"), query
    for query in ("origin=NOBODY", f"q={'x' * 600}"):
        assert 'role="alert"' in read_page(client, f"?show=stopped&{query}"), query


def test_the_api_narrows_by_each_of_its_parameters(synced_cluster: SyncedCluster, client: Client) -> None:
    service = Service.objects.get(identifier="myapp")
    address = f"/api/v1/services/{service.pk}/instances"
    row = client.get(f"{address}?stopped=true").json()["results"][0]
    assert row["container_instance"]["ec2_instance"] == "i-0abc"
    filters = {
        "environment": row["environment"],
        "infrastructure": row["infrastructure"],
        "ecs_service": row["ecs_service"],
        "region": row["region"],
        "cluster": row["cluster"],
        "image": row["image"],
        "digest": row["digest"],
        "task_definition": row["task_definition"],
        "ec2_instance": "i-0abc",
        "status": "stopped",
        "stop_code": "EssentialContainerExited",
        "origin": "EXECUTION",
        "execution": row["started_by"]["execution"],
        "q": "Out of",
    }
    for name, value in filters.items():
        rows = client.get(address, {"stopped": "true", name: value}).json()["results"]
        assert [entry["id"] for entry in rows] == [row["id"]], name
        other = "00000000-0000-0000-0000-000000000000" if name == "execution" else "elsewhere"
        response = client.get(address, {"stopped": "true", name: other})
        assert response.status_code == (400 if name == "origin" else 200), name
        assert name == "origin" or not response.json()["results"], name
    for name, value in {"execution": "x", "origin": "x", "q": "\0", "image": "x" * 600}.items():
        response = client.get(address, {name: value})
        assert (response.status_code, response.json()["errors"][0]["path"]) == (400, name)


def test_only_who_may_see_the_connector_is_led_to_it(synced_cluster: SyncedCluster, client: Client) -> None:
    SyncedCluster.objects.update(failure="AWS denied <ecs:ListTasks>.", failure_step="Allow it.")
    address = f"/connectors/{synced_cluster.connector_id}/"
    assert address in read_page(client)
    assert client.get(address).status_code == 200
    client.force_login(create_environment_viewer(Infrastructure.objects.get().environment.scope))
    content = read_page(client)
    assert client.get(address).status_code == 404
    assert address not in content
    assert "Ask someone who manages connectors" in content
    assert "AWS denied &lt;ecs:ListTasks&gt;." in content
    for instance in ServiceInstance.objects.exclude(execution=None):
        assert f"/executions/{instance.execution_id}/" not in content
        assert client.get(f"/executions/{instance.execution_id}/").status_code == 404
    assert "Rolling demo #" in content


def test_events_lead_only_to_services_that_the_reader_may_see(
    synced_cluster: SyncedCluster, client: Client
) -> None:
    service = Service.objects.get(identifier="myapp")
    address = f"/services/{service.pk}/dashboard/"
    assert address in client.get("/events/").content.decode()
    client.force_login(create_environment_viewer(service.scope))
    content = client.get("/events/").content.decode()
    assert service.name in content
    assert address not in content
