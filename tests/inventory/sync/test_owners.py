"""Whose an ECS service is, and who started a task, where a stage changes several or runs tasks."""

import pytest

from catalog.models import Infrastructure, Manifest, Service
from inventory.models.instances import EcsServiceRecord, ServiceInstance, SyncedCluster
from inventory.queries.instances import get_cluster
from inventory.sync.clusters import create_clusters, list_due_clusters, schedule_follow_ups
from tests.deployments.engine.conftest import DEPLOY, Write, job, write
from tests.deployments.engine.test_service_locks import (
    _build_parallel,
    _build_pipeline,
    _build_scale_step,
    worker,
)
from tests.fixtures.engine_driver import Drive
from tests.inventory.sync.test_sync import sync
from tests.stories.rolling.test_rolling_deployment import SERVICE_FILE, TASK_FILE
from web.clock import get_database_time

__all__ = ["worker", "write"]
pytestmark = pytest.mark.django_db(transaction=True)


def test_an_ecs_service_that_one_branch_of_a_stage_changes_belongs_to_the_service_of_the_stage(
    write: Write, drive: Drive, worker: str
) -> None:
    sync()
    assert EcsServiceRecord.objects.get(name=worker).service is None, (
        "made outside, and nobody has deployed it"
    )
    story_drive = write(_build_pipeline(_build_parallel(DEPLOY, _build_scale_step("more", worker, 2))))
    execution = story_drive.until_over(story_drive.start("1.28"))
    assert execution.outcome == "COMPLETED", execution.failure
    sync()
    owners = EcsServiceRecord.objects.order_by("name").values_list("name", "service", "infrastructure")
    stage = execution.stages.get()
    assert list(owners) == [(name, stage.service_id, stage.infrastructure_id) for name in ("myapp", worker)]


def test_a_task_that_a_step_ran_by_itself_was_started_by_its_execution(write: Write, drive: Drive) -> None:
    story_drive = write(_build_pipeline(job(drive, "migrate")))
    execution = story_drive.until_over(story_drive.start("1.28"))
    assert execution.status == "SUCCESS", execution.failure
    sync()
    instance = ServiceInstance.objects.get(ecs_service=None)
    assert (instance.origin, instance.execution) == ("EXECUTION", execution)


def test_a_cluster_that_an_infrastructure_names_by_an_expression_is_followed_by_what_was_deployed_there(
    drive: Drive,
) -> None:
    execution = drive.run("1.27")
    expressions = {"region": "<+provisioner.region>", "cluster": "<+provisioner.cluster>"}
    Infrastructure.objects.update(is_dynamic=True, **expressions)
    assert create_clusters(get_database_time()) == 0
    assert execution.ended_at is not None
    assert schedule_follow_ups(execution.ended_at) == 1
    cluster = SyncedCluster.objects.get()
    assert cluster.cluster == "demo"
    assert get_cluster(Infrastructure.objects.get()) == cluster
    SyncedCluster.objects.update(due_at=None)
    assert schedule_follow_ups(execution.ended_at) == 1, "it was given up, and something was deployed since"
    SyncedCluster.objects.update(due_at=get_database_time())
    assert list_due_clusters(get_database_time(), 9) == [cluster.pk]
    sync()
    assert EcsServiceRecord.objects.get().infrastructure == Infrastructure.objects.get()


def test_who_only_named_an_ecs_service_and_changed_nothing_does_not_own_it(drive: Drive) -> None:
    owner = drive.run("1.27").stages.get().service
    other = Service.objects.get(identifier="canary_app")
    yaml = drive.pipeline.yaml.replace("serviceRef: myapp", f"serviceRef: {other.identifier}")
    assert yaml != drive.pipeline.yaml
    for kind, file in (("EcsServiceDefinition", SERVICE_FILE), ("EcsTaskDefinition", TASK_FILE)):
        Manifest.objects.filter(service=other, kind=kind).update(paths=[file])
    drive.pipeline.yaml = yaml
    drive.pipeline.save(update_fields=["yaml"])
    drive.sandbox.fault("denied", service="ecs", operation="RegisterTaskDefinition")
    execution = drive.run("1.28")
    assert execution.status == "FAILED"
    assert execution.stages.get().service == other
    sync()
    assert EcsServiceRecord.objects.get(name="myapp").service == owner
