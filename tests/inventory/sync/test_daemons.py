"""Sync shows the daemons of managed instances, for a constant number of calls."""

from collections import Counter
from collections.abc import Callable

import pytest

from inventory.models.daemons import EcsDaemon
from inventory.models.instances import SyncedCluster
from tests.contract.endpoint import Aws
from tests.contract.managed_instances import (
    create_daemon,
    create_provider,
    register_daemon,
    run_managed_task,
)
from tests.fixtures.engine_driver import Drive
from tests.inventory.sync.test_sync import sync

# What a cluster without services and with one task costs: services, tasks, stopped ones, its machine.
OTHER_CALLS = Counter(ListServices=1, ListTasks=2, DescribeTasks=1, DescribeContainerInstances=1)


DESCRIPTIONS = ("DescribeDaemon", "DescribeDaemonDeployments", "DescribeDaemonRevisions")


def count_calls(drive: Drive, read: Callable[[], object]) -> Counter[str]:
    mark = drive.mark()
    read()
    return Counter(entry["operation"] for entry in drive.sandbox.journal(mark)) - OTHER_CALLS


def read_denied_actions(cluster: SyncedCluster) -> set[str]:
    return {entry["action"] for entry in cluster.denied_reads}


def sync_again() -> SyncedCluster:
    """Sync when the daemons are due again."""
    SyncedCluster.objects.update(daemons_read_at=None)
    return sync()


@pytest.fixture
def aws(drive: Drive) -> Aws:
    """The account of the demo, with one task on a managed instance."""
    account = Aws.pretend(drive.sandbox)
    create_provider(account)
    run_managed_task(account)
    account.advance(120)
    return account


def test_a_daemon_is_read_with_its_instances_revision_and_deployment(drive: Drive, aws: Aws) -> None:
    create_daemon(aws, "managed")
    aws.advance(60)
    sync()
    daemon = EcsDaemon.objects.get()
    assert (daemon.name, daemon.status, daemon.running, daemon.without_daemon) == (
        "monitoring",
        "ACTIVE",
        1,
        0,
    )
    assert daemon.capacity_providers == [{"name": "managed", "running": 1, "without_daemon": 0}]
    assert daemon.task_definition.endswith(":daemon-task-definition/monitoring-agent:1")
    assert daemon.containers == [{"name": "agent", "image": "monitoring-agent:v1", "digest": ""}]
    assert (daemon.deployment_status, daemon.is_critical) == ("SUCCESSFUL", True)


def test_a_cluster_without_managed_instances_costs_no_call(drive: Drive) -> None:
    calls = count_calls(drive, sync)
    assert not [operation for operation in calls if "Daemon" in operation]
    assert SyncedCluster.objects.get().daemons_read_at is None


def test_a_sync_reads_what_can_have_changed_and_five_daemons_at_most(drive: Drive, aws: Aws) -> None:
    for number in range(7):
        create_daemon(aws, "managed", name=f"agent-{number}")
    aws.advance(60)
    batches = {"DescribeDaemonDeployments": 1, "DescribeDaemonRevisions": 1}
    assert count_calls(drive, sync) == Counter(ListDaemons=1, DescribeDaemon=5, **batches)
    assert count_calls(drive, sync) == Counter(DescribeDaemon=2, **batches), "the rest of the list"
    assert count_calls(drive, sync) == Counter(), "read minutes ago"
    assert count_calls(drive, sync_again) == Counter(ListDaemons=1, DescribeDaemon=5)
    assert set(EcsDaemon.objects.values_list("deployment_status", flat=True)) == {"SUCCESSFUL"}


def test_a_deployment_is_followed_until_it_ends(drive: Drive, aws: Aws) -> None:
    arn = create_daemon(aws, "managed")["daemonArn"]
    aws.advance(60)
    sync()
    update = {"daemonTaskDefinitionArn": register_daemon(aws, "v2"), "capacityProviderArns": ["managed"]}
    aws.ecs.update_daemon(daemonArn=arn, **update)
    sync_again()
    assert EcsDaemon.objects.get().has_open_deployment
    aws.advance(60)
    calls = count_calls(drive, sync)
    assert calls == Counter(
        ListDaemons=1, DescribeDaemon=1, DescribeDaemonDeployments=1, DescribeDaemonRevisions=1
    )
    daemon = EcsDaemon.objects.get()
    assert (daemon.deployment_status, daemon.containers[0]["image"]) == ("SUCCESSFUL", "monitoring-agent:v2")


def test_a_deleted_daemon_ends(drive: Drive, aws: Aws) -> None:
    arn = create_daemon(aws, "managed")["daemonArn"]
    aws.advance(60)
    sync()
    aws.ecs.delete_daemon(daemonArn=arn)
    sync_again()
    daemon = EcsDaemon.objects.get()
    assert (daemon.status, daemon.gone_at) == ("DELETE_IN_PROGRESS", None)
    aws.advance(60)
    sync_again()
    daemon.refresh_from_db()
    assert daemon.gone_at is not None


def test_denied_reads_are_named_and_the_sync_goes_on_without_them(drive: Drive, aws: Aws) -> None:
    create_daemon(aws, "managed")
    aws.advance(60)
    drive.sandbox.fault("denied", operation="ListDaemons")
    cluster = sync()
    assert (cluster.failure, read_denied_actions(cluster)) == ("", {"ecs:ListDaemons"})
    assert count_calls(drive, sync)["ListDaemons"] == 0, "retried after an hour"

    drive.sandbox.clear_faults()
    for operation in DESCRIPTIONS:
        drive.sandbox.fault("denied", operation=operation)
    SyncedCluster.objects.update(denied_reads=[])
    assert read_denied_actions(sync()) == {"ecs:DescribeDaemon"}
    assert EcsDaemon.objects.get().name == "monitoring"

    drive.sandbox.clear_faults()
    for operation in DESCRIPTIONS[1:]:
        drive.sandbox.fault("denied", operation=operation)
    SyncedCluster.objects.update(denied_reads=[])
    assert read_denied_actions(sync()) == {f"ecs:{operation}" for operation in DESCRIPTIONS[1:]}
    assert EcsDaemon.objects.get().running == 1

    drive.sandbox.clear_faults()
    SyncedCluster.objects.update(denied_reads=[])
    assert sync_again().denied_reads == []
    assert EcsDaemon.objects.get().deployment_status == "SUCCESSFUL"
