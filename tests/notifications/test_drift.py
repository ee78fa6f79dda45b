"""Whoever asked is told of drift as it is found, and as it is gone."""

from django.utils import timezone

from catalog.models import Service
from catalog.operations import delete_service
from deployments.models import StepExecution
from inventory.models.drift import Drift
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from notifications.events import EventType
from notifications.outbox_sender import send_due_notifications
from pipelines.models import Pipeline
from pipelines.operations.pipelines import delete_pipeline
from rbac.models import Scope, User
from tests.deployments.conftest import _full_buckets, drive
from tests.fixtures.engine_driver import Drive
from tests.inventory.drift.scans import run_whole_scan, scan_after_sync
from tests.notifications.conftest import Ruled
from tests.notifications.webhook_receiver import Receiver

__all__ = ["_full_buckets", "drive"]


def change(drive: Drive, **changes: object) -> None:
    drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", **changes})


def test_drift_is_told_once_as_it_is_found_and_once_as_it_is_gone(
    drive: Drive, receiver: Receiver, ruled: Ruled
) -> None:
    drive.run("1.27")
    ruled(Scope.objects.get(path="account/default/demo"), EventType.DRIFT_FOUND, EventType.DRIFT_GONE)
    change(drive, desiredCount=3, enableExecuteCommand=True)
    for _ in range(2):
        scan_after_sync()
        send_due_notifications()
    (request,) = receiver.received
    document = request.document
    assert document["event"] == request.headers["Slipway-Event"] == "drift.found"
    assert document["scope"] == "account/default/demo"
    assert document["services"] == ["myapp"]
    assert "desiredCount" in document["text"]
    assert "enableExecuteCommand" in document["cause"]
    assert document["id"] == request.headers["Slipway-Notification"]
    change(drive, desiredCount=1, enableExecuteCommand=False)
    scan_after_sync()
    send_due_notifications()
    assert receiver.events == ["drift.found", "drift.gone"]


def test_a_rule_for_a_service_is_told_of_drift_of_its_ecs_services(
    drive: Drive, receiver: Receiver, ruled: Ruled
) -> None:
    drive.run("1.27")
    # Most ECS services have another name than their service, for its identifier has no dash.
    Service.objects.filter(identifier="myapp").update(identifier="shop")
    project, filters = Scope.objects.get(path="account/default/demo"), {"services": ["shop"]}
    ruled(project, EventType.DRIFT_FOUND, EventType.DRIFT_GONE, filters=filters)
    for count in (3, 1):
        change(drive, desiredCount=count)
        scan_after_sync()
        send_due_notifications()
    assert receiver.events == ["drift.found", "drift.gone"]
    assert [request.document["services"] for request in receiver.received] == [["shop"], ["shop"]]
    assert "myapp was changed outside Slipway" in receiver.received[0].document["text"]


def find_drift_after_deployment(drive: Drive, ruled: Ruled) -> None:
    drive.run("1.27")
    ruled(Scope.objects.get(path="account/default/demo"), EventType.DRIFT_FOUND, EventType.DRIFT_GONE)
    change(drive, desiredCount=3)
    scan_after_sync()
    send_due_notifications()


def test_the_drift_of_a_deleted_ecs_service_is_over(drive: Drive, receiver: Receiver, ruled: Ruled) -> None:
    find_drift_after_deployment(drive, ruled)
    drive.call("ecs", "DeleteService", {"cluster": "demo", "service": "myapp", "force": True})
    EcsServiceRecord.objects.update(gone_at=timezone.now())
    for _ in range(2):
        run_whole_scan(SyncedCluster.objects.get())
        send_due_notifications()
    assert receiver.events == ["drift.found", "drift.gone"]
    document = receiver.received[-1].document
    assert (document["status"], document["url"]) == ("NOT_COMPARED", receiver.received[0].document["url"])
    assert "myapp is no longer compared" in document["text"]
    assert not Drift.objects.filter(resolved_at=None).exists()


def test_the_drift_of_an_ecs_service_whose_pair_was_deployed_is_over(
    drive: Drive, receiver: Receiver, ruled: Ruled
) -> None:
    find_drift_after_deployment(drive, ruled)
    step = StepExecution.objects.get(outputs__has_key="serviceName")
    step.outputs = {**step.outputs, "serviceName": "myapp__2"}
    step.save(update_fields=["outputs"])
    for _ in range(2):
        scan_after_sync()
        send_due_notifications()
    assert receiver.events == ["drift.found", "drift.gone"]
    assert "The last deployment went to myapp__2" in receiver.received[-1].document["text"]


def test_the_drift_of_a_deleted_service_is_over(drive: Drive, receiver: Receiver, ruled: Ruled) -> None:
    find_drift_after_deployment(drive, ruled)
    admin = User.objects.get(username="admin")
    for pipeline in Pipeline.objects.all():
        delete_pipeline(actor=admin, pipeline=pipeline)
    delete_service(actor=admin, service=Service.objects.get(identifier="myapp"))
    for _ in range(2):
        scan_after_sync()
        send_due_notifications()
    assert receiver.events == ["drift.found", "drift.gone"]
    document = receiver.received[-1].document
    assert (document["status"], document["url"]) == ("NOT_COMPARED", receiver.received[0].document["url"])
    assert "Slipway no longer deploys the ECS service." in document["text"]
