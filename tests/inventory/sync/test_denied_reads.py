"""What a policy denies beside the picture: pages name the permission and what to do, the rest is whole."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from inventory.models.instances import EcsServiceRecord, ServiceInstance, SyncedCluster
from tests.inventory.sync.test_sync import sync
from tests.stories.blue_green.conftest import _full_buckets, shop
from tests.stories.blue_green.shop import Shop
from web.clock import get_database_time

__all__ = ["_full_buckets", "shop"]
pytestmark = pytest.mark.django_db(transaction=True)

# By what the sandbox denies: the permission that pages name, and what the dashboard says is not known.
DENIED = {
    "DescribeScalableTargets": ("application-autoscaling", "Auto scaling"),
    "DescribeTargetHealth": ("elasticloadbalancing", "Target health"),
    "GetMetricData": ("cloudwatch", "CPU and memory utilization"),
}


def read_pages(shop: Shop) -> tuple[str, str]:
    """Return the dashboard, which marks the service as viewed, and the list of instances."""
    client = Client()
    client.force_login(shop.drive.deployer)
    service = EcsServiceRecord.objects.filter(service__isnull=False)[0].service_id
    addresses = reverse("service-dashboard", args=[service]), reverse("instances")
    dashboard, instance_list = (client.get(address).content.decode() for address in addresses)
    EcsServiceRecord.objects.update(viewed_at=get_database_time())
    return dashboard, instance_list


def test_the_rest_goes_on_and_each_page_says_what_to_allow(shop: Shop) -> None:
    shop.drive.run("1")
    for operation in DENIED:
        shop.drive.sandbox.fault("denied", operation=operation)
    sync()
    read_pages(shop)
    cluster = sync()
    assert (cluster.failure, cluster.failures) == ("", 0)
    assert ServiceInstance.objects.filter(stopped_at=None).count() == 2
    assert {denied_read["operation"] for denied_read in cluster.denied_reads} == set(DENIED)
    dashboard, instance_list = read_pages(shop)
    for operation, (prefix, subject) in DENIED.items():
        message = rf"{subject}: not available, access denied by AWS. Allow <code>{prefix}:{operation}</code>"
        assert re.search(rf"{message}[^.]*<em>Sync now</em>", dashboard), operation
        assert f"Missing permission: allow <code>{prefix}:{operation}</code>" in instance_list
    assert "2 of 2 run" in dashboard

    shop.drive.sandbox.clear_faults()
    SyncedCluster.objects.update(denied_reads=[], scaling_read_at=None)
    assert sync().denied_reads == []
    dashboard, instance_list = read_pages(shop)
    assert "access denied by AWS" not in dashboard
    assert "Missing permission" not in instance_list
    assert "fixed at 2" in dashboard
    assert "2 healthy" in dashboard


def test_what_is_denied_and_wanted_by_nobody_any_more_is_forgotten_after_an_hour(shop: Shop) -> None:
    shop.drive.run("1")
    sync()
    read_pages(shop)
    shop.drive.sandbox.fault("denied", operation="GetMetricData")
    assert len(sync().denied_reads) == 1
    EcsServiceRecord.objects.update(viewed_at=None)
    assert len(sync().denied_reads) == 1, "within the hour"
    cluster = SyncedCluster.objects.get()
    cluster.denied_reads[0]["until"] = get_database_time().isoformat()
    cluster.save()
    assert sync().denied_reads == []
