"""A look whose connector goes through delegates: a task for each call, a reason where nobody makes it."""

import pytest

from connectors.models import Connector
from delegates.models import DelegateTask
from delegates.offers import route_waiting
from deployments.engine import quota
from inventory.drift import clusters, looking
from inventory.drift.wanted import wanted_reading
from inventory.models.drift import ComparedCluster, Comparison, Drift
from inventory.models.instances import SeenService, SyncPause
from inventory.sync.pausing import keys_of
from tests.deployments.driving import Drive
from tests.deployments.hands import Hand, hand
from tests.inventory.drift.looking import asked_for, story_now, synced
from web.clock import database_now

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def compared(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> ComparedCluster:
    """The demo's cluster with one change made outside, synced, and from now on reached by delegates only."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "of-the-delegate")
    drive.run("1.27")
    drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", "enableExecuteCommand": True})
    cluster = synced()
    quota.forget()
    connector = Connector.objects.get(identifier="sandbox_aws")
    connector.secret = None
    connector.spec = {
        "endpoint_url": connector.spec["endpoint_url"],
        "credentials": "Delegate",
        "connect_through": "Delegate",
        "delegate_selectors": ["eu"],
    }
    connector.save()
    return asked_for(cluster)


def until_compared(compared: ComparedCluster, one: Hand) -> None:
    for _ in range(10):
        looking.go_on(compared.pk)
        one.serve()
        compared.refresh_from_db()
        if compared.compared_at:
            return
    raise AssertionError(f"still at {compared.reading}: {compared.failure}")


def test_a_delegate_reads_what_scales_and_the_change_is_named(compared: ComparedCluster) -> None:
    one = hand("first", tags=("eu",))
    until_compared(compared, one)
    assert one.taken == ["DescribeScalableTargets"]
    assert [row.path for row in Drift.objects.all()] == ["enableExecuteCommand"]
    assert Comparison.objects.get().state == Comparison.State.DRIFTED
    assert not DelegateTask.objects.filter(owner="drift").exclude(result="").exists()


def test_who_tries_for_all_that_rest_makes_call_after_call(compared: ComparedCluster) -> None:
    family = SeenService.objects.get().task_definition.rpartition(":")[0]
    SeenService.objects.update(task_definition=f"{family}:99")
    again = wanted_reading(compared.cluster, story_now()).to_row()
    ComparedCluster.objects.update(reading=again)
    now = database_now()
    for key in keys_of(compared.cluster, clusters.DRIFT):
        SyncPause.objects.create(
            key=key, until=now, failures=1, failed_at=now, failure="No delegate was there."
        )
    one = hand("first", tags=("eu",))
    until_compared(compared, one)
    assert one.taken == ["DescribeScalableTargets", "DescribeTaskDefinition"]
    assert not SyncPause.objects.exists()


def test_a_cluster_says_that_no_delegate_has_the_tags_and_is_tried_later(compared: ComparedCluster) -> None:
    hand("other", tags=("us",))
    looking.go_on(compared.pk)
    route_waiting(database_now())
    compared.refresh_from_db()
    assert "eu" in compared.failure
    assert compared.failures == 1
    assert compared.due_at > database_now()
