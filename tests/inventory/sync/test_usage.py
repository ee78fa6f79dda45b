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
OPERATION = "GetMetricData"


class Story:
    """The sandbox's clock is ahead of the database's, and syncs here go by the sandbox's."""

    def __init__(self, drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
        self.drive = drive
        self.calls: Counter[str] = Counter()
        self.denies = False
        monkeypatch.setattr(sync_scan, "get_database_time", drive.clock.now)

    def read_dashboard(self) -> str:
        """Return the dashboard; reading it marks the service as watched."""
        client = Client()
        client.force_login(self.drive.deployer)
        record = EcsServiceRecord.objects.get()
        text = client.get(reverse("service-dashboard", args=[record.service_id])).content.decode()
        EcsServiceRecord.objects.update(viewed_at=self.drive.clock.now())
        return text

    def sync(self) -> SyncedCluster:
        rate_limits.reset_buckets()
        create_clusters(get_database_time())
        SyncedCluster.objects.update(due_at=get_database_time())
        (cluster,) = SyncedCluster.objects.all()
        self.caller = get_local_caller(cluster.connector, cluster.region)
        run_scan(SyncScan, cluster.pk, lambda *_: self)
        cluster.refresh_from_db()
        assert cluster.failure == ""
        return cluster

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.calls[operation] += 1
        if operation == OPERATION and self.denies:
            raise Denied("AccessDeniedException", "You may not.", service, operation)
        return self.caller.call(service, operation, params)


@pytest.fixture
def story(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> Story:
    drive.run("1.27")
    drive.pass_time(1200, step=60)
    return Story(drive, monkeypatch)


def test_it_is_read_every_few_minutes_for_those_who_look(story: Story) -> None:
    story.sync()
    assert story.calls[OPERATION] == 0, "nobody looks"
    assert "The next sync of the cluster reads them." in story.read_dashboard()
    for _ in range(2):
        story.sync()
    assert story.calls[OPERATION] == 1, "the values are new"
    text = story.read_dashboard()
    assert "CPU of myapp in percent of the reservation, last three hours: now " in text
    assert "<li>100 %</li><li>50 %</li><li>0 %</li>" in text
    assert text.count('class="gap"') == 2, "of either, the time before it ran"
    assert "the table below has the numbers" in text
    usage = get_usage(EcsServiceRecord.objects.get())
    assert usage is not None
    assert 3 <= len(usage.known) <= 5, "a value for each five minutes that it has run"
    assert all(
        0 < (usage_point.cpu or 0) < 100 and 0 < (usage_point.memory or 0) < 100
        for usage_point in usage.known
    )
    cpu, memory = usage.measures
    assert f"{cpu.current:.1f} %" in text
    assert f"{memory.current:.1f} %" in text
    story.drive.pass_time(300, step=60)
    story.sync()
    assert story.calls[OPERATION] == 2
    new_usage = get_usage(EcsServiceRecord.objects.get())
    assert new_usage is not None
    assert new_usage.known[1:] == usage.known, "what was told stays"


def test_a_policy_that_denies_it_is_named_and_stops_nothing(story: Story) -> None:
    story.sync()
    story.read_dashboard()
    story.denies = True
    assert [denied_read["action"] for denied_read in story.sync().denied_reads] == [
        "cloudwatch:GetMetricData"
    ]
    assert "Allow <code>cloudwatch:GetMetricData</code>" in story.read_dashboard()


def test_one_call_asks_for_as_many_services_as_cloudwatch_takes() -> None:
    names = tuple(f"{'demo' if number % 2 else 'other'}/s{number}" for number in range(251))
    cursor = SyncCursor("2026-01-01T12:03:00+00:00", USAGE, names, is_listed=True, is_filled=True)
    first = cursor.build_call("demo").params
    assert len(first["MetricDataQueries"]) == 500
    assert (first["StartTime"], first["EndTime"]) == (
        "2026-01-01T09:00:00+00:00",
        "2026-01-01T12:00:00+00:00",
    )
    next_cursor = cursor.after_describe_page({"NextToken": "page 2"})
    assert next_cursor.build_call("demo").params == {**first, "NextToken": "page 2"}
    last_params = next_cursor.after_describe_page({}).build_call("demo").params
    dimensions = [query["MetricStat"]["Metric"]["Dimensions"] for query in last_params["MetricDataQueries"]]
    assert (
        dimensions
        == [[{"Name": "ClusterName", "Value": "other"}, {"Name": "ServiceName", "Value": "s250"}]] * 2
    )


@pytest.mark.django_db
def test_whatever_is_told_is_kept_as_points_or_left_out(cluster: SyncedCluster) -> None:
    now = datetime(2026, 1, 1, 12, 3, tzinfo=UTC)
    window_start, window_end = compute_usage_window(now)
    EcsServiceRecord.objects.create(cluster=cluster, name="s0", first_seen_at=now, seen_at=now)
    cursor = SyncCursor(now.isoformat(), USAGE, ("large/s0",), is_listed=True, is_filled=True)
    params = cursor.build_call("large").params
    odd_values: list[Any] = [None, "x", True, -1, float("nan"), float("inf"), 2**2000, [], 1e300]
    timestamps = [window_end - timedelta(minutes=5 * number) for number in range(1, len(odd_values) + 1)]
    metric_results = [
        {
            "Id": "m0",
            "Timestamps": [*timestamps, window_start.isoformat(), "never"],
            "Values": [*odd_values, 12.34567, 1],
        },
        {"Id": "m1", "Timestamps": "x", "Values": {}},
        {"Id": "m9\0", "Timestamps": [window_end.isoformat()], "Values": [1]},
        "nothing",
    ]
    for response in ({"MetricDataResults": metric_results}, {"MetricDataResults": 7}, None):
        update_usage(cluster, params, response, now)
    assert EcsServiceRecord.objects.get().usage == {"cpu": {window_start.isoformat(): 12.346}, "memory": {}}


def create_cluster(cluster: SyncedCluster, name: str, **changes: Any) -> SyncedCluster:
    """Create another cluster that differs from `cluster` in the given fields."""
    now = get_database_time()
    default_fields = {"connector": cluster.connector, "region": cluster.region, "account": cluster.account}
    return SyncedCluster.objects.create(
        cluster=name, last_used_at=now, due_at=now, **{**default_fields, **changes}
    )


def watch_service(cluster: SyncedCluster, name: str) -> EcsServiceRecord:
    now = get_database_time()
    return EcsServiceRecord.objects.create(
        cluster=cluster, name=name, first_seen_at=now, seen_at=now, viewed_at=now, usage_requested_at=None
    )


@pytest.mark.django_db
def test_the_first_of_all_clusters_of_a_connector_account_and_region_asks_for_all(
    cluster: SyncedCluster,
) -> None:
    now = get_database_time()
    same_account = create_cluster(cluster, "arn:aws:ecs:us-east-1:123456789012:cluster/small")
    foreign_clusters = [
        create_cluster(cluster, "small", region="eu-west-1"),
        create_cluster(cluster, "small", account="210987654321"),
        create_cluster(
            cluster,
            "small",
            connector=Connector.objects.create(scope=cluster.connector.scope, identifier="b", spec={}),
        ),
    ]
    records = [
        watch_service(cluster, "web"),
        watch_service(same_account, "web"),
        watch_service(same_account, "job"),
    ]
    other_records = [watch_service(foreign_cluster, "web") for foreign_cluster in foreign_clusters]
    watch_service(same_account, "odd name")
    with transaction.atomic():
        due_names = list_due_usages(cluster, now)
    assert due_names == ["large/web", "small/web", "small/job"]
    with transaction.atomic():
        assert list_due_usages(same_account, now) == [], "another has asked already"
        assert list_due_usages(same_account, now + timedelta(minutes=2, seconds=1)) == due_names, (
            "it was lost"
        )
        assert [list_due_usages(foreign_cluster, now) for foreign_cluster in foreign_clusters] == [
            ["small/web"]
        ] * 3

    cursor = SyncCursor(now.isoformat(), USAGE, tuple(due_names), is_listed=True, is_filled=True)
    params = cursor.build_call("large").params
    assert len(params["MetricDataQueries"]) == 6, "one call for both clusters"
    timestamp = compute_usage_window(now)[0].isoformat()
    results = [{"Id": f"m{number}", "Timestamps": [timestamp], "Values": [number]} for number in range(6)]
    with transaction.atomic():
        update_usage(cluster, params, {"MetricDataResults": results}, now)
    for number, record in enumerate(records):
        record.refresh_from_db()
        assert record.usage == {"cpu": {timestamp: 2.0 * number}, "memory": {timestamp: 2.0 * number + 1}}
    assert (
        not EcsServiceRecord.objects.filter(pk__in=[other_record.pk for other_record in other_records])
        .exclude(usage={})
        .exists()
    )
    with transaction.atomic():
        assert list_due_usages(same_account, now + timedelta(minutes=3)) == [], "they are new"
        assert list_due_usages(same_account, now + timedelta(minutes=5)) == due_names
