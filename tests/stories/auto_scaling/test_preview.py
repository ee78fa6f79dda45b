"""A preview lists what auto scaling and the options of a service make a run write."""

import pytest

from catalog.models import Manifest, Service
from tests.deployments.preview.comparison import (
    assert_same,
    list_planned_calls,
    list_recorded_calls,
    load_preview,
)
from tests.fixtures.engine_driver import Drive
from tests.stories.auto_scaling.conftest import AutoScaling, tracking

pytestmark = pytest.mark.django_db(transaction=True)


def _same(drive: Drive, tag: str) -> list[str]:
    details = load_preview(drive, tag)
    assert [step["failure"] for step in details["steps"]] == [None]
    execution = drive.run(tag)
    assert execution.outcome == "COMPLETED"
    assert_same(list_planned_calls(details), list_recorded_calls(execution))
    return [operation.split(":")[1] for _, operation, _ in list_planned_calls(details)]


def test_a_run_writes_of_auto_scaling_what_its_preview_lists(drive: Drive, scaling: AutoScaling) -> None:
    scaling.set_manifests(tracking("cpu", 60), bounds=(1, 4))
    assert _same(drive, "1.27")[-2:] == ["RegisterScalableTarget", "PutScalingPolicy"]
    suspends_and_resumes = _same(drive, "1.28")
    assert suspends_and_resumes.count("RegisterScalableTarget") == 2
    assert "PutScalingPolicy" not in suspends_and_resumes
    scaling.set_manifests(tracking("cpu", 50), tracking("memory", 70), bounds=(2, 5))
    operations = _same(drive, "1.29")
    assert (operations.count("RegisterScalableTarget"), operations.count("PutScalingPolicy")) == (3, 2)


def test_a_task_definition_by_arn_is_previewed_as_it_is_deployed(drive: Drive) -> None:
    drive.run("1.27")
    manifest = Service.objects.get(identifier="myapp").manifests.get(kind=Manifest.Kind.TASK_DEFINITION)
    manifest.store, manifest.paths = "TaskDefinitionArn", []
    manifest.content = drive.service()["taskDefinition"]
    manifest.save()
    assert _same(drive, "1.27") == ["UpdateService"]
