"""Who made an ECS service grow: a step that set its count, auto scaling, or somebody outside Slipway."""

from datetime import datetime, timedelta

import pytest
from django.db import transaction

from deployments.execution.operations import roll_back_execution
from deployments.models import Execution
from inventory.models.instances import EcsServiceEvent, EcsServiceRecord, ServiceInstance, SyncedCluster
from inventory.sync import sync_scan
from inventory.sync.upserts.scale_attribution import attribute_scaling
from inventory.sync.upserts.scaling import insert_scaling_activities
from tests.deployments.engine.conftest import Write, write
from tests.deployments.engine.test_service_locks import _build_pipeline, _build_scale_step
from tests.fixtures.engine_driver import Drive
from tests.inventory.sync.test_sync import sync

__all__ = ["write"]
pytestmark = pytest.mark.django_db(transaction=True)


def list_origins() -> list[tuple[str, Execution | None]]:
    """Return the origins of the running tasks, the oldest first."""
    rows = ServiceInstance.objects.filter(stopped_at=None).select_related("execution")
    return [(instance.origin, instance.execution) for instance in rows.order_by("created_at", "pk")]


def list_changes() -> list[str]:
    rows = EcsServiceEvent.objects.filter(kind=EcsServiceEvent.Kind.COUNT).order_by("at", "pk")
    return list(rows.values_list("message", flat=True))


@pytest.fixture
def deployment(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> Execution:
    """An execution that is over for some minutes; the clocks of sync, story and sandbox go together."""
    monkeypatch.setattr(sync_scan, "get_database_time", drive.clock.now)
    execution = drive.run("1.27")
    drive.sandbox.advance(40)
    drive.pass_time(240, step=20)
    sync()
    assert list_origins() == [("EXECUTION", execution)]
    return execution


def test_a_step_that_scales_started_the_tasks_by_which_a_service_grew(
    drive: Drive, write: Write, deployment: Execution
) -> None:
    story_drive = write(_build_pipeline(_build_scale_step("more", "myapp", 3)))
    execution = story_drive.until_over(story_drive.start())
    assert execution.status == "SUCCESS", execution.failure
    sync()
    assert list_origins() == [("EXECUTION", deployment), ("EXECUTION", execution), ("EXECUTION", execution)]
    assert list_changes() == [f"The desired count changed from 1 to 3, set by Flow #{execution.number}."]
    drive.pass_time(120, step=20)
    stopped_instance = ServiceInstance.objects.filter(execution=execution).earliest("created_at")
    drive.call("ecs", "StopTask", {"cluster": "demo", "task": stopped_instance.arn, "reason": "tried out"})
    drive.pass_time(300, step=20)
    sync()
    assert list_origins()[-1] == ("REPLACED", deployment), "it came in the place of another"


def test_a_rollback_of_a_step_that_shrank_a_service_started_what_came_back(
    drive: Drive, write: Write, deployment: Execution
) -> None:
    story_drive = write(_build_pipeline(_build_scale_step("none", "myapp", 0)))
    execution = story_drive.until_over(story_drive.start())
    drive.pass_time(120, step=20)
    sync()
    assert list_origins() == []
    roll_back_execution(actor=drive.deployer, execution=execution)
    story_drive.until_over(execution)
    sync()
    assert list_origins() == [("EXECUTION", execution)]
    name = f"set by Flow #{execution.number}."
    assert list_changes() == [
        f"The desired count changed from 1 to 0, {name}",
        f"The desired count changed from 0 to 1, {name}",
    ]


def test_what_a_person_changed_in_aws_is_told_from_what_ecs_replaced(
    drive: Drive, deployment: Execution
) -> None:
    drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", "desiredCount": 3})
    drive.pass_time(60, step=20)
    sync()
    assert list_origins() == [("EXECUTION", deployment), ("OUTSIDE", None), ("OUTSIDE", None)]
    assert list_changes() == ["The desired count changed from 1 to 3, set outside Slipway."]
    sync()
    assert list_origins() == [("EXECUTION", deployment), ("OUTSIDE", None), ("OUTSIDE", None)]
    assert len(list_changes()) == 1


def test_a_count_that_auto_scaling_set_is_told_also_where_no_task_came_of_it(
    drive: Drive, deployment: Execution
) -> None:
    scaling_target = {"ServiceNamespace": "ecs", "ResourceId": "service/demo/myapp"}
    scaling_target["ScalableDimension"] = "ecs:service:DesiredCount"
    for minimum, maximum in ((3, 9), (1, 2)):
        bounds = {**scaling_target, "MinCapacity": minimum, "MaxCapacity": maximum}
        drive.call("application-autoscaling", "RegisterScalableTarget", bounds)
        drive.pass_time(120, step=20)
        sync()
    assert list_changes() == [
        "The desired count changed from 1 to 3, set by auto scaling.",
        "The desired count changed from 3 to 2, set by auto scaling.",
    ]
    assert [origin for origin, _ in list_origins()][1:] == ["AUTO_SCALED"]


def test_nobody_is_blamed_while_aws_throttles_the_read_of_scaling_activities(
    drive: Drive, deployment: Execution
) -> None:
    target = {"ServiceNamespace": "ecs", "ResourceId": "service/demo/myapp"}
    target["ScalableDimension"] = "ecs:service:DesiredCount"
    bounds = {**target, "MinCapacity": 3, "MaxCapacity": 9}
    drive.call("application-autoscaling", "RegisterScalableTarget", bounds)
    drive.pass_time(120, step=20)
    drive.sandbox.fault("throttle", operation="DescribeScalingActivities")
    cluster = sync()
    assert (cluster.failure, cluster.denied_reads) == ("", [])
    assert list_changes() == ["The desired count changed from 1 to 3."]
    drive.sandbox.clear_faults()
    sync()
    assert [origin for origin, _ in list_origins()] == ["EXECUTION", "AUTO_SCALED", "AUTO_SCALED"]


def record_change(count: int, at: datetime) -> None:
    """Record that sync noticed another desired count of the only service."""
    EcsServiceEvent.objects.create(
        ecs_service=EcsServiceRecord.objects.get(),
        kind=EcsServiceEvent.Kind.COUNT,
        event=f"count {at.isoformat()}",
        before=1,
        count=count,
        at=at,
        message=f"From 1 to {count}.",
    )


def test_auto_scaling_set_a_count_though_ecs_still_starts_tasks_for_it(
    drive: Drive, deployment: Execution
) -> None:
    cluster, now = SyncedCluster.objects.get(), drive.clock.now() + timedelta(seconds=1)
    EcsServiceRecord.objects.update(scaling={"min": 1, "max": 9, "suspended": []})
    record_change(3, now)
    activity = {
        "ActivityId": "4d759079",
        "ResourceId": "service/demo/myapp",
        "Description": "Setting desired count to 3.",
        "Cause": "monitor alarm busy in state ALARM triggered policy busy",
        "StartTime": now,
        "StatusCode": "InProgress",
        "StatusMessage": "Successfully set desired count to 3. Waiting for change to be fulfilled by ecs.",
    }
    undecided = {**activity, "ActivityId": "5e86", "StatusMessage": "Setting desired count to 3."}
    with transaction.atomic():
        insert_scaling_activities(cluster, {"ScalingActivities": [activity, undecided]}, now)
        attribute_scaling(cluster, now)
    assert list_changes() == ["From 1 to 3, set by auto scaling."]
    assert EcsServiceEvent.objects.filter(kind=EcsServiceEvent.Kind.SCALING).count() == 1


def test_where_auto_scaling_may_have_done_it_unseen_nobody_is_blamed(
    drive: Drive, deployment: Execution
) -> None:
    cluster, now = SyncedCluster.objects.get(), drive.clock.now() + timedelta(seconds=1)
    for scaling, denied_reads in (
        (None, []),
        ({"min": 1, "max": 9, "suspended": []}, [{"operation": "DescribeScalingActivities"}]),
    ):
        EcsServiceEvent.objects.filter(kind=EcsServiceEvent.Kind.COUNT).delete()
        record_change(3, now)
        EcsServiceRecord.objects.update(scaling=scaling)
        cluster.denied_reads = denied_reads
        with transaction.atomic():
            attribute_scaling(cluster, now)
        assert list_changes() == ["From 1 to 3."]
