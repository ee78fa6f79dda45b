"""CPU and memory of ECS services: asked once for all of them, seldom, and only where somebody looks."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse

from aws.errors import Denied
from connectors.models import Connector
from delegates.access.aws_access import get_local_caller
from deployments.journal import rate_limits
from inventory.dashboards.usage import get_usage
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from inventory.sync import sync_scan
from inventory.sync.clusters import create_clusters
from inventory.sync.cursor import USAGE, SyncCursor
from inventory.sync.scans.runner import run_scan
from inventory.sync.sync_scan import SyncScan
from inventory.sync.upserts.usage import compute_usage_window, list_due_usages, update_usage
from tests.fixtures.engine_driver import Drive
from tests.inventory.sync.test_large_clusters import cluster
from web.clock import get_database_time

__all__ = ["cluster"]
ASKED = "GetMetricData"


class Story:
    """The sandbox's clock is ahead of the database's, and syncs here go by the sandbox's."""

    def __init__(self, drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
        self.drive = drive
        self.calls: Counter[str] = Counter()
        self.denies = False
        monkeypatch.setattr(sync_scan, "get_database_time", drive.clock.now)

    def look(self) -> str:
        """What the dashboard says while somebody looks."""
        client = Client()
        client.force_login(self.drive.deployer)
        seen = EcsServiceRecord.objects.get()
        text = client.get(reverse("service-dashboard", args=[seen.service_id])).content.decode()
        EcsServiceRecord.objects.update(viewed_at=self.drive.clock.now())
        return text

    def sync(self) -> SyncedCluster:
        rate_limits.reset_buckets()
        create_clusters(get_database_time())
        SyncedCluster.objects.update(due_at=get_database_time())
        (found,) = SyncedCluster.objects.all()
        self.live = get_local_caller(found.connector, found.region)
        run_scan(SyncScan, found.pk, lambda *_: self)
        found.refresh_from_db()
        assert found.failure == ""
        return found

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.calls[operation] += 1
        if operation == ASKED and self.denies:
            raise Denied("AccessDeniedException", "You may not.", service, operation)
        return self.live.call(service, operation, params)


@pytest.fixture
def story(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> Story:
    drive.run("1.27")
    drive.pass_time(1200, step=60)
    return Story(drive, monkeypatch)


def test_it_is_read_every_few_minutes_for_those_who_look(story: Story) -> None:
    story.sync()
    assert story.calls[ASKED] == 0, "nobody looks"
    assert "one minute after the first sync" in story.look()
    for _ in range(2):
        story.sync()
    assert story.calls[ASKED] == 1, "the values are new"
    text = story.look()
    assert "CPU of myapp in percent of the reservation, last three hours: now " in text
    assert "<li>100 %</li><li>50 %</li><li>0 %</li>" in text
    assert text.count('class="gap"') == 2, "of either, the time before it ran"
    assert "the table below has the numbers" in text
    found = get_usage(EcsServiceRecord.objects.get())
    assert found is not None
    assert 3 <= len(found.known) <= 5, "a value for each five minutes that it has run"
    assert all(0 < (one.cpu or 0) < 100 and 0 < (one.memory or 0) < 100 for one in found.known)
    cpu, memory = found.measures
    assert f"{cpu.current:.1f} %" in text
    assert f"{memory.current:.1f} %" in text
    story.drive.pass_time(300, step=60)
    story.sync()
    assert story.calls[ASKED] == 2
    again = get_usage(EcsServiceRecord.objects.get())
    assert again is not None
    assert again.known[1:] == found.known, "what was told stays"


def test_a_policy_that_denies_it_is_named_and_stops_nothing(story: Story) -> None:
    story.sync()
    story.look()
    story.denies = True
    assert [one["action"] for one in story.sync().denied_reads] == ["cloudwatch:GetMetricData"]
    assert "Allow <code>cloudwatch:GetMetricData</code>" in story.look()


def test_one_call_asks_for_as_many_services_as_cloudwatch_takes() -> None:
    names = tuple(f"{'demo' if number % 2 else 'other'}/s{number}" for number in range(251))
    reading = SyncCursor("2026-01-01T12:03:00+00:00", USAGE, names, is_listed=True, is_filled=True)
    first = reading.build_call("demo").params
    assert len(first["MetricDataQueries"]) == 500
    assert (first["StartTime"], first["EndTime"]) == (
        "2026-01-01T09:00:00+00:00",
        "2026-01-01T12:00:00+00:00",
    )
    more = reading.after_describe_page({"NextToken": "page 2"})
    assert more.build_call("demo").params == {**first, "NextToken": "page 2"}
    last = more.after_describe_page({}).build_call("demo").params
    dimensions = [one["MetricStat"]["Metric"]["Dimensions"] for one in last["MetricDataQueries"]]
    assert (
        dimensions
        == [[{"Name": "ClusterName", "Value": "other"}, {"Name": "ServiceName", "Value": "s250"}]] * 2
    )


@pytest.mark.django_db
def test_whatever_is_told_is_kept_as_points_or_left_out(cluster: SyncedCluster) -> None:
    now = datetime(2026, 1, 1, 12, 3, tzinfo=UTC)
    since, until = compute_usage_window(now)
    EcsServiceRecord.objects.create(cluster=cluster, name="s0", first_seen_at=now, seen_at=now)
    reading = SyncCursor(now.isoformat(), USAGE, ("large/s0",), is_listed=True, is_filled=True)
    params = reading.build_call("large").params
    odd: list[Any] = [None, "x", True, -1, float("nan"), float("inf"), 2**2000, [], 1e300]
    moments = [until - timedelta(minutes=5 * number) for number in range(1, len(odd) + 1)]
    told = [
        {"Id": "m0", "Timestamps": [*moments, since.isoformat(), "never"], "Values": [*odd, 12.34567, 1]},
        {"Id": "m1", "Timestamps": "x", "Values": {}},
        {"Id": "m9\0", "Timestamps": [until.isoformat()], "Values": [1]},
        "nothing",
    ]
    for answer in ({"MetricDataResults": told}, {"MetricDataResults": 7}, None):
        update_usage(cluster, params, answer, now)
    assert EcsServiceRecord.objects.get().usage == {"cpu": {since.isoformat(): 12.346}, "memory": {}}


def beside(cluster: SyncedCluster, name: str, **changes: Any) -> SyncedCluster:
    """Another cluster that differs from `cluster` in these."""
    now = get_database_time()
    same = {"connector": cluster.connector, "region": cluster.region, "account": cluster.account}
    return SyncedCluster.objects.create(cluster=name, last_used_at=now, due_at=now, **{**same, **changes})


def looked_at(cluster: SyncedCluster, name: str) -> EcsServiceRecord:
    now = get_database_time()
    return EcsServiceRecord.objects.create(
        cluster=cluster, name=name, first_seen_at=now, seen_at=now, viewed_at=now, usage_requested_at=None
    )


@pytest.mark.django_db
def test_the_first_of_all_clusters_of_a_connector_account_and_region_asks_for_all(
    cluster: SyncedCluster,
) -> None:
    now = get_database_time()
    same = beside(cluster, "arn:aws:ecs:us-east-1:123456789012:cluster/small")
    elsewhere = [
        beside(cluster, "small", region="eu-west-1"),
        beside(cluster, "small", account="210987654321"),
        beside(
            cluster,
            "small",
            connector=Connector.objects.create(scope=cluster.connector.scope, identifier="b", spec={}),
        ),
    ]
    mine = [looked_at(cluster, "web"), looked_at(same, "web"), looked_at(same, "job")]
    others = [looked_at(one, "web") for one in elsewhere]
    looked_at(same, "odd name")
    with transaction.atomic():
        asked = list_due_usages(cluster, now)
    assert asked == ["large/web", "small/web", "small/job"]
    with transaction.atomic():
        assert list_due_usages(same, now) == [], "another has asked already"
        assert list_due_usages(same, now + timedelta(minutes=2, seconds=1)) == asked, "it was lost"
        assert [list_due_usages(one, now) for one in elsewhere] == [["small/web"]] * 3

    reading = SyncCursor(now.isoformat(), USAGE, tuple(asked), is_listed=True, is_filled=True)
    params = reading.build_call("large").params
    assert len(params["MetricDataQueries"]) == 6, "one call for both clusters"
    at = compute_usage_window(now)[0].isoformat()
    results = [{"Id": f"m{number}", "Timestamps": [at], "Values": [number]} for number in range(6)]
    with transaction.atomic():
        update_usage(cluster, params, {"MetricDataResults": results}, now)
    for number, one in enumerate(mine):
        one.refresh_from_db()
        assert one.usage == {"cpu": {at: 2.0 * number}, "memory": {at: 2.0 * number + 1}}
    assert not EcsServiceRecord.objects.filter(pk__in=[one.pk for one in others]).exclude(usage={}).exists()
    with transaction.atomic():
        assert list_due_usages(same, now + timedelta(minutes=3)) == [], "they are new"
        assert list_due_usages(same, now + timedelta(minutes=5)) == asked
