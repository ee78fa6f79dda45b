"""How healthy targets are: read for everybody together, and only where somebody looks."""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django.test import Client
from django.urls import reverse

from aws.errors import Denied, NotFound, NotSent
from delegates.access.aws_access import get_local_caller
from deployments.journal import rate_limits
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from inventory.sync.clusters import create_clusters
from inventory.sync.scans.runner import run_scan
from inventory.sync.sync_scan import SyncScan
from tests.stories.blue_green.conftest import _full_buckets, shop
from tests.stories.blue_green.shop import Shop
from web.clock import get_database_time

__all__ = ["_full_buckets", "shop"]
OPERATION = "DescribeTargetHealth"
Turn = Callable[[dict[str, Any]], dict[str, Any]]


class TargetHealthCaller:
    """The way to the sandbox; counts the calls, and lets a test turn what is told of targets."""

    def __init__(self, change_response: Turn = lambda response: response) -> None:
        self.change_response = change_response
        self.calls: Counter[str] = Counter()

    def sync(self) -> SyncedCluster:
        """Run one whole sync of the only cluster."""
        rate_limits.reset_buckets()
        create_clusters(get_database_time())
        SyncedCluster.objects.update(due_at=get_database_time())
        (cluster,) = SyncedCluster.objects.all()
        inner_caller = get_local_caller(cluster.connector, cluster.region)
        self.caller = inner_caller
        run_scan(SyncScan, cluster.pk, lambda *_: self)
        cluster.refresh_from_db()
        assert cluster.failure == ""
        return cluster

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.calls[operation] += 1
        response = self.caller.call(service, operation, params)
        return self.change_response(response) if operation == OPERATION else response


def read_dashboard(shop: Shop) -> str:
    """Return the dashboard; reading it marks the service as watched."""
    client = Client()
    client.force_login(shop.drive.deployer)
    record = EcsServiceRecord.objects.filter(service__isnull=False)[0]
    return client.get(reverse("service-dashboard", args=[record.service_id])).content.decode()


def add_unhealthy_target(response: dict[str, Any]) -> dict[str, Any]:
    """Add one unhealthy target with hostile texts to a response."""
    health = {
        "State": "unhealthy",
        "Reason": "Target.ResponseCodeMismatch",
        "Description": "<b>codes:</b> [503]\0",
    }
    return {"TargetHealthDescriptions": [{"Target": {"Id": "10.1.2.3", "Port": 80}, "TargetHealth": health}]}


def test_targets_are_read_once_for_all_who_look_and_not_where_nobody_looks(shop: Shop) -> None:
    shop.drive.run("1")
    health_caller = TargetHealthCaller()
    health_caller.sync()
    assert health_caller.calls[OPERATION] == 0, "nobody looks"
    assert "not read yet" in read_dashboard(shop)
    read_dashboard(shop)
    health_caller.sync()
    assert health_caller.calls[OPERATION] == 1, "however many look"
    text = read_dashboard(shop)
    assert "2 healthy" in text
    assert "that are not healthy" not in text
    EcsServiceRecord.objects.update(viewed_at=get_database_time() - timedelta(minutes=16))
    health_caller.sync()
    assert health_caller.calls[OPERATION] == 1, "everybody has left"

    EcsServiceRecord.objects.update(viewed_at=get_database_time())
    TargetHealthCaller(add_unhealthy_target).sync()
    text = read_dashboard(shop)
    assert "10.1.2.3:80" in text
    assert "no running task" in text
    assert "Compare the health check path" in text
    assert "Target.ResponseCodeMismatch" in text
    assert "&lt;b&gt;codes:&lt;/b&gt; [503]" in text
    assert "1 unhealthy" in text


def test_a_group_that_is_gone_and_a_policy_that_denies_are_told_and_stop_nothing(shop: Shop) -> None:
    shop.drive.run("1")
    TargetHealthCaller().sync()
    read_dashboard(shop)

    def raise_not_found(_: object) -> dict[str, Any]:
        raise NotFound("TargetGroupNotFound", "One or more target groups not found", "elbv2", OPERATION)

    cluster = TargetHealthCaller(raise_not_found).sync()
    assert cluster.denied_reads == []
    assert "This target group does not exist in AWS" in read_dashboard(shop)

    def raise_denied(_: object) -> dict[str, Any]:
        raise Denied("AccessDenied", "You may not.", "elbv2", OPERATION)

    cluster = TargetHealthCaller(raise_denied).sync()
    assert [denied_read["operation"] for denied_read in cluster.denied_reads] == [OPERATION]
    text = read_dashboard(shop)
    assert "Allow <code>elasticloadbalancing:DescribeTargetHealth</code>" in text
    assert "choose <em>Sync now</em>" in text


def test_a_read_that_did_not_reach_aws_is_not_called_denied(shop: Shop) -> None:
    shop.drive.run("1")
    TargetHealthCaller().sync()
    read_dashboard(shop)

    def raise_not_sent(_: object) -> dict[str, Any]:
        raise NotSent("EndpointConnectionError", "Could not connect to the endpoint", "elbv2", OPERATION)

    TargetHealthCaller(raise_not_sent).sync()
    text, client = read_dashboard(shop), Client()
    assert "Target health: not available. elbv2 DescribeTargetHealth was not sent" in text
    assert "denied" not in text
    client.force_login(shop.drive.deployer)
    assert "Missing permission" not in client.get(reverse("instances")).content.decode()
