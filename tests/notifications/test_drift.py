"""Whoever asked is told of drift as it is found, and as it is gone."""

from catalog.models import Service
from notifications.events import EventType
from notifications.outbox_sender import send_due_notifications
from rbac.models import Scope
from tests.deployments.conftest import _full_buckets, drive
from tests.fixtures.engine_driver import Drive
from tests.inventory.drift.scans import scan_after_sync
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
