"""After a restore, nobody is told what is only its echo: the time between the backup and now."""

from datetime import timedelta

import pytest

from delegates.connectivity import AWAY_AFTER, is_connected
from delegates.models import DelegateInstance
from delegates.protocol import heartbeats, liveness
from delegates.protocol.heartbeats import Heartbeat
from inventory.models.drift import Drift
from notifications.events import EventType
from notifications.models import Notification
from ops.backups.restores import settle_restored_state
from rbac.models import Scope
from tests.delegates.protocol.fake_agents import register_agent
from tests.deployments.conftest import _full_buckets, drive
from tests.fixtures.delegates import make_token
from tests.fixtures.engine_driver import Drive
from tests.inventory.drift.scans import scan_after_sync
from tests.notifications.conftest import Ruled
from web.clock import get_database_time

__all__ = ["_full_buckets", "drive"]


def events() -> list[str]:
    return list(Notification.objects.order_by("created_at").values_list("event", flat=True))


@pytest.mark.django_db
def test_delegates_have_the_usual_time_to_connect_again(project: Scope, ruled: Ruled) -> None:
    agent = register_agent(make_token(project))
    ruled(project, EventType.DELEGATE_CONNECTED, EventType.DELEGATE_DISCONNECTED)
    now = get_database_time()
    taken_at = now - timedelta(hours=3)
    DelegateInstance.objects.filter(pk=agent.instance.pk).update(last_heartbeat_at=taken_at)
    settle_restored_state(taken_at, {})

    agent.instance.refresh_from_db()
    assert not is_connected(agent.instance, get_database_time())
    liveness.record_silent_instances(get_database_time())
    heartbeats.record_heartbeats({agent.instance.pk: Heartbeat(agent.instance.pk)})
    agent.instance.refresh_from_db()
    assert is_connected(agent.instance, get_database_time())
    assert events() == []
    liveness.record_silent_instances(get_database_time() + AWAY_AFTER)
    assert events() == ["delegate.disconnected"]


def test_drift_that_the_first_scan_finds_is_shown_and_later_drift_is_told(drive: Drive, ruled: Ruled) -> None:
    def change(**changes: object) -> None:
        drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", **changes})
        scan_after_sync()

    drive.run("1.27")
    scan_after_sync()
    ruled(drive.pipeline.scope, EventType.DRIFT_FOUND, EventType.DRIFT_GONE)
    settle_restored_state(get_database_time(), {})
    change(desiredCount=3)
    assert Drift.objects.filter(path="desiredCount", resolved_at=None).exists()
    assert events() == []
    change(enableExecuteCommand=True)
    assert events() == ["drift.found"]
