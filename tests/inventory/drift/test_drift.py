"""What is changed outside Slipway is named, field by field, for as long as it is so."""

from datetime import timedelta
from typing import Any

from catalog.operations import delete_service
from deployments.models import Execution, StageExecution
from inventory.drift import clusters, drift_scan
from inventory.drift.documents.field_rules import (
    SCALABLE_TARGET,
    SCALING_POLICY,
    SERVICE_DEFINITION,
    TASK_DEFINITION,
)
from inventory.models.drift import ClusterDriftScan, Drift, DriftComparison
from inventory.models.instances import SyncedCluster
from inventory.queries.drift import count_drifted_services, list_comparisons
from pipelines.models import Pipeline
from pipelines.operations.pipelines import delete_pipeline
from rbac.models import AuditEntry, User
from tests.fixtures.engine_driver import Drive
from tests.inventory.drift.scans import get_state, list_drifts, request_scan, scan_after_sync, sync_cluster
from web.clock import get_database_time

STATES = DriftComparison.State


def register_revision(
    drive: Drive, task: dict[str, Any] | None = None, base_arn: str = "", **container: Any
) -> str:
    """Register a changed revision of `base_arn`, or of the running one, by hand."""
    arn = base_arn or drive.service()["taskDefinition"]
    revision = drive.call("ecs", "DescribeTaskDefinition", {"taskDefinition": arn})["taskDefinition"]
    copied_fields = (
        "family", "taskRoleArn", "executionRoleArn", "networkMode", "requiresCompatibilities", "cpu",
        "memory",
    )  # fmt: skip
    definition = {key: revision[key] for key in copied_fields}
    definition["containerDefinitions"] = [{**revision["containerDefinitions"][0], **container}]
    response = drive.call("ecs", "RegisterTaskDefinition", {**definition, **(task or {})})
    return str(response["taskDefinition"]["taskDefinitionArn"])


def update_service(drive: Drive, **changes: Any) -> None:
    drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", **changes})


def test_what_was_deployed_is_in_step(drive: Drive) -> None:
    execution = drive.run("1.27")
    assert list_drifts() == []
    comparison = DriftComparison.objects.get()
    assert (comparison.state, comparison.execution) == (STATES.IN_STEP, execution)


SERVICE_CHANGES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"desiredCount": 3}, {"desiredCount": 1}, "desiredCount"),
    ({"enableExecuteCommand": True}, {"enableExecuteCommand": False}, "enableExecuteCommand"),
    ({"propagateTags": "SERVICE"}, {"propagateTags": "NONE"}, "propagateTags"),
    ({"enableECSManagedTags": True}, {"enableECSManagedTags": False}, "enableECSManagedTags"),
    (
        {"deploymentConfiguration": {"maximumPercent": 150, "minimumHealthyPercent": 100}},
        {"deploymentConfiguration": {"maximumPercent": 200, "minimumHealthyPercent": 100}},
        "deploymentConfiguration.maximumPercent",
    ),
    (
        {"deploymentConfiguration": {"deploymentCircuitBreaker": {"enable": True, "rollback": False}}},
        {"deploymentConfiguration": {"deploymentCircuitBreaker": {"enable": False, "rollback": False}}},
        "deploymentConfiguration.deploymentCircuitBreaker.enable",
    ),
]


def test_each_field_of_the_service_that_somebody_changed_is_the_one_that_is_named(drive: Drive) -> None:
    drive.run("1.27")
    for changes, original, field in SERVICE_CHANGES:
        assert list_drifts() == [], field
        update_service(drive, **changes)
        assert list_drifts() == [f"{SERVICE_DEFINITION}:{field}"]
        assert get_state() == STATES.DRIFTED
        update_service(drive, **original)
    assert list_drifts() == []
    assert get_state() == STATES.IN_STEP


TASK_CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"environment": [{"name": "LOG", "value": "debug"}]}, "environment[LOG]"),
    ({"memoryReservation": 256}, "memoryReservation"),
    ({"image": "docker.io/library/nginx:1.26"}, "image"),
    ({"command": ["sleep", "9"]}, "command"),
    ({"readonlyRootFilesystem": True}, "readonlyRootFilesystem"),
    ({"stopTimeout": 20}, "stopTimeout"),
    ({"healthCheck": {"command": ["CMD", "true"]}}, "healthCheck.command"),
]


def test_each_field_of_a_foreign_revision_is_the_one_that_is_named(drive: Drive) -> None:
    drive.run("1.27")
    own_revision = drive.service()["taskDefinition"]
    for container, field in TASK_CHANGES:
        update_service(drive, taskDefinition=register_revision(drive, **container))
        assert list_drifts() == [f"{TASK_DEFINITION}:containerDefinitions[nginx].{field}"]
        update_service(drive, taskDefinition=own_revision)
        assert list_drifts() == []
    attributions = set(Drift.objects.values_list("attribution", flat=True))
    assert len(attributions) == len(TASK_CHANGES)
    assert all("which was not registered by Slipway" in attribution for attribution in attributions)


def test_the_values_of_an_environment_are_kept_nowhere_and_a_second_change_is_another_drift(
    drive: Drive,
) -> None:
    drive.run("1.27")
    for value in ("first-hidden", "second-hidden"):
        update_service(
            drive, taskDefinition=register_revision(drive, environment=[{"name": "LOG", "value": value}])
        )
        list_drifts()
    first, second = Drift.objects.order_by("pk")
    assert first.resolved_at is not None
    assert second.resolved_at is None
    assert (second.desired, second.actual) == (None, "(hidden)")
    assert not AuditEntry.objects.filter(after__icontains="first-hidden").exists()


def test_a_foreign_revision_that_says_the_same_is_named_by_itself(drive: Drive) -> None:
    drive.run("1.27")
    update_service(drive, taskDefinition=register_revision(drive))
    assert list_drifts() == [f"{SERVICE_DEFINITION}:taskDefinition"]


def test_auto_scaling_moves_the_count_and_that_is_no_drift(drive: Drive) -> None:
    drive.run("1.27")
    drive.call(
        "application-autoscaling",
        "RegisterScalableTarget",
        {
            "ServiceNamespace": "ecs",
            "ResourceId": "service/demo/myapp",
            "ScalableDimension": "ecs:service:DesiredCount",
            "MinCapacity": 1,
            "MaxCapacity": 4,
        },
    )
    assert list_drifts() == [], "what scaled it at the first look is as it was when it was deployed"
    update_service(drive, desiredCount=3)
    assert list_drifts() == []


def test_what_a_look_read_in_the_middle_of_a_deployment_is_not_judged_after_it(drive: Drive) -> None:
    drive.run("1.27")
    scaling_target = {"ResourceId": "service/demo/myapp", "ScalableDimension": "ecs:service:DesiredCount"}
    target = {"ServiceNamespace": "ecs", **scaling_target, "MinCapacity": 1, "MaxCapacity": 4}
    drive.call("application-autoscaling", "RegisterScalableTarget", target)
    assert list_drifts() == []
    execution = drive.start("1.28")
    drive.pass_time(12)
    scan = drift_scan.DriftScan.claim(request_scan(SyncedCluster.objects.get()).pk)
    assert scan is not None
    question = scan.build_call()
    response = drive.call(question.service, question.operation, dict(question.params))
    assert response["ScalableTargets"][0]["SuspendedState"]["DynamicScalingInSuspended"], "by the deployment"
    scan.apply_response(question, response)
    drive.until_over(execution)
    sync_cluster()
    while not scan.cursor.is_complete:
        question = scan.build_call()
        scan.apply_response(question, drive.call(question.service, question.operation, dict(question.params)))
    scan.finish()
    assert list_drifts() == []
    assert not Drift.objects.exists()


def register_scaling(drive: Drive) -> None:
    """Register a scalable target with one policy."""
    scaling_target = {
        "ServiceNamespace": "ecs",
        "ResourceId": "service/demo/myapp",
        "ScalableDimension": "ecs:service:DesiredCount",
    }
    scaling = "application-autoscaling"
    drive.call(scaling, "RegisterScalableTarget", {**scaling_target, "MinCapacity": 1, "MaxCapacity": 4})
    drive.call(
        scaling,
        "PutScalingPolicy",
        {
            **scaling_target,
            "PolicyName": "cpu",
            "PolicyType": "TargetTrackingScaling",
            "TargetTrackingScalingPolicyConfiguration": {
                "TargetValue": 60.0,
                "PredefinedMetricSpecification": {"PredefinedMetricType": "ECSServiceAverageCPUUtilization"},
            },
        },
    )


def deny_scaling(drive: Drive) -> None:
    drive.sandbox.fault("denied", service="application-autoscaling", operation="DescribeScalableTargets")


def test_scaling_that_came_later_is_drift(drive: Drive) -> None:
    drive.run("1.27")
    assert list_drifts() == []
    register_scaling(drive)
    assert list_drifts() == [f"{SCALABLE_TARGET}:", f"{SCALING_POLICY}:[cpu]"]


def test_scaling_that_may_not_be_read_for_a_while_is_no_drift(drive: Drive) -> None:
    drive.run("1.27")
    register_scaling(drive)
    deny_scaling(drive)
    assert list_drifts() == [], "the first comparison of the deployment has no permission"
    drive.sandbox.clear_faults()
    assert list_drifts() == [], "what scaled it at the first readable look is as it was when it was deployed"
    deny_scaling(drive)
    assert list_drifts() == []
    drive.sandbox.clear_faults()
    assert list_drifts() == []
    assert not Drift.objects.exists()


def test_drift_of_scaling_stays_as_it_is_while_that_may_not_be_read(drive: Drive) -> None:
    drive.run("1.27")
    assert list_drifts() == []
    update_service(drive, desiredCount=3)
    drifts = [f"{SERVICE_DEFINITION}:desiredCount"]
    assert list_drifts() == drifts
    deny_scaling(drive)
    assert (list_drifts(), get_state()) == (drifts, STATES.DRIFTED), "auto scaling may own the count"
    drive.sandbox.clear_faults()
    register_scaling(drive)
    drifts = [f"{SCALABLE_TARGET}:", f"{SCALING_POLICY}:[cpu]"]
    assert list_drifts() == drifts
    Drift.objects.update(accepted_at=get_database_time(), reason="A busy week")
    deny_scaling(drive)
    assert (list_drifts(), get_state()) == (drifts, STATES.ACCEPTED)
    drive.sandbox.clear_faults()
    assert (list_drifts(), get_state()) == (drifts, STATES.ACCEPTED)
    assert Drift.objects.count() == 3


def test_what_was_put_back_is_drift_no_more_and_stays_as_history(drive: Drive) -> None:
    drive.run("1.27")
    update_service(drive, desiredCount=3)
    list_drifts()
    update_service(drive, desiredCount=1)
    assert list_drifts() == []
    assert get_state() == STATES.IN_STEP
    (row,) = Drift.objects.all()
    assert row.resolved_at is not None


def test_the_next_deployment_is_what_counts(drive: Drive) -> None:
    drive.run("1.27")
    update_service(drive, enableExecuteCommand=True, desiredCount=3)
    assert len(list_drifts()) == 2
    second = drive.run("1.28")
    assert list_drifts() == [f"{SERVICE_DEFINITION}:enableExecuteCommand"], (
        "no manifest says it, no deployment resets it"
    )
    assert DriftComparison.objects.get().execution == second


def test_what_slipway_deploys_no_more_differs_from_nothing(drive: Drive) -> None:
    drive.run("1.27")
    update_service(drive, enableExecuteCommand=True)
    assert len(list_drifts()) == 1
    admin, service = User.objects.get(username="admin"), StageExecution.objects.get().service
    assert service is not None
    assert count_drifted_services([admin])[admin.pk] == 1
    for pipeline in Pipeline.objects.all():
        delete_pipeline(actor=admin, pipeline=pipeline)
    delete_service(actor=admin, service=service)
    assert list_drifts() == []
    assert count_drifted_services([admin])[admin.pk] == 0
    assert not list_comparisons(admin).exists()


def test_nothing_is_compared_while_an_execution_changes_the_service(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.start("1.28")
    drive.pass_time(20)
    scan_after_sync()
    assert get_state() == STATES.DEPLOYING
    drive.until_over(execution)
    scan_after_sync()
    assert get_state() == STATES.IN_STEP


def test_what_a_deployment_left_is_compared_as_soon_as_sync_has_seen_it(drive: Drive) -> None:
    drive.run("1.27")
    scan = scan_after_sync()
    ended_at = Execution.objects.get().ended_at
    # The story's clock is ahead of the one that a look goes by: the deployment has just ended.
    assert ended_at is not None
    ClusterDriftScan.objects.update(
        due_at=ended_at + drift_scan.SCAN_INTERVAL, compared_at=ended_at - timedelta(seconds=9)
    )
    SyncedCluster.objects.update(synced_at=ended_at - timedelta(seconds=10))
    now = ended_at + timedelta(seconds=2)
    assert clusters.schedule_follow_ups(now) == 0, "no sync has ended since that look"
    SyncedCluster.objects.update(synced_at=ended_at + timedelta(seconds=1))
    assert clusters.schedule_follow_ups(now) == 1
    assert clusters.list_due_clusters(now, 1) == [scan.pk]
    ClusterDriftScan.objects.update(due_at=now + drift_scan.SCAN_INTERVAL, compared_at=now)
    assert clusters.schedule_follow_ups(now) == 0, "that was looked at"


def test_a_drift_is_written_down_once_in_the_audit_trail(drive: Drive) -> None:
    drive.run("1.27")
    update_service(drive, enableExecuteCommand=True)
    list_drifts()
    list_drifts()
    entry = AuditEntry.objects.get(action="drift.found")
    assert entry.after["fields"] == [f"{SERVICE_DEFINITION} enableExecuteCommand"]


def test_a_look_asks_no_more_than_it_must(drive: Drive) -> None:
    drive.run("1.27")
    assert scan_after_sync().calls == 1, (
        "one call for what scales up to fifty services, none for a revision of ours"
    )
    update_service(drive, taskDefinition=register_revision(drive, stopTimeout=20))
    assert scan_after_sync().calls == 2
    assert scan_after_sync().calls == 1, "a revision never changes"


def test_what_sync_sees_while_a_look_is_under_way_waits_for_the_next(drive: Drive) -> None:
    drive.run("1.27")
    scan_after_sync()
    update_service(drive, enableExecuteCommand=True, taskDefinition=register_revision(drive, stopTimeout=20))
    cluster_scan = request_scan(SyncedCluster.objects.get())
    scan = drift_scan.DriftScan.claim(cluster_scan.pk)
    assert scan is not None
    sync_cluster()
    while not scan.cursor.is_complete:
        question = scan.build_call()
        scan.apply_response(question, drive.call(question.service, question.operation, dict(question.params)))
    scan.finish()
    assert get_state() == STATES.IN_STEP, "half of it would be wrong"
    cluster_scan.refresh_from_db()
    assert cluster_scan.due_at < get_database_time() + drift_scan.SCAN_INTERVAL / 2
    assert cluster_scan.compared_at is None
    assert list_drifts() == [
        f"{SERVICE_DEFINITION}:enableExecuteCommand",
        f"{TASK_DEFINITION}:containerDefinitions[nginx].stopTimeout",
    ]
