"""An ECS service that somebody else deployed is taken over as it runs: nothing is called, nothing differs."""

import pytest

from catalog.manifests.documents import parse_document
from catalog.models import Infrastructure, Service
from deployments.execution.operations import run_pipeline
from inventory.adoption.proposals import AdoptionProposal, render_manifest
from inventory.models.drift import DriftComparison
from inventory.models.instances import EcsServiceRecord
from inventory.operations.adoptions import (
    AdoptionSpec,
    adopt_service,
    list_unmanaged_services,
    read_for_adoption,
)
from pipelines.models import Pipeline
from rbac.models import AuditEntry, User
from tests.fixtures.engine_driver import Drive
from tests.inventory.adoption.foreign_services import STATES, adopt, delete_deployment_records, read_adoption
from tests.inventory.drift.scans import get_state, list_drifts, sync_cluster
from web.http.problems import BadInput, Conflict


@pytest.mark.parametrize(
    ("pipeline", "name"),
    [("rolling_demo", "myapp"), ("canary_demo", "webshop"), ("blue_green_demo", "storefront__1")],
)
def test_each_example_is_taken_over_without_a_change_and_without_drift(
    drive: Drive, pipeline: str, name: str
) -> None:
    drive.pipeline = Pipeline.objects.get(identifier=pipeline)
    drive.run("1.27")
    delete_deployment_records()
    sync_cluster()
    assert name in set(list_unmanaged_services(Infrastructure.objects.get()).values_list("name", flat=True))
    before = drive.mark()
    adoption = adopt(name)
    assert list_drifts() == []
    assert drive.effects(before) == [], "taking over calls nothing that changes anything"
    assert get_state(name) == DriftComparison.State.IN_STEP
    record = EcsServiceRecord.objects.get(name=name)
    assert (record.service, record.infrastructure) == (adoption.service, adoption.infrastructure)
    assert name not in set(list_unmanaged_services(adoption.infrastructure).values_list("name", flat=True))


def test_what_was_taken_over_is_deployed_with_the_next_image_and_nothing_else_changes(drive: Drive) -> None:
    drive.run("1.27")
    delete_deployment_records()
    sync_cluster()
    service = adopt("myapp")
    before = drive.service()
    assert service.pipeline is not None
    execution = drive.until_over(
        run_pipeline(actor=User.objects.get(username="admin"), pipeline=service.pipeline, artifact_tag="1.28")
    )
    assert execution.outcome == "COMPLETED", drive.log(execution)[-5:]
    after = drive.service()
    assert after["serviceArn"] == before["serviceArn"]
    assert after["createdAt"] == before["createdAt"]
    changed_keys = {key for key in after if after[key] != before.get(key)}
    assert changed_keys <= {
        "taskDefinition",
        "deployments",
        "events",
        "currentServiceDeployment",
        "currentServiceRevisions",
        "tags",
    }
    definition = drive.call("ecs", "DescribeTaskDefinition", {"taskDefinition": after["taskDefinition"]})
    assert definition["taskDefinition"]["containerDefinitions"][0]["image"].endswith(":1.28")
    assert list_drifts() == []
    assert DriftComparison.objects.get(ecs_service__name="myapp").execution == execution


def test_what_was_changed_after_it_was_taken_over_is_drift(drive: Drive) -> None:
    drive.run("1.27")
    delete_deployment_records()
    sync_cluster()
    adopt("myapp")
    assert list_drifts() == []
    drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", "enableExecuteCommand": True})
    assert list_drifts() == ["EcsServiceDefinition:enableExecuteCommand"]


def test_nothing_is_made_where_a_part_cannot_be_made(drive: Drive) -> None:
    drive.run("1.27")
    delete_deployment_records()
    sync_cluster()
    adoption, admin = read_adoption("myapp"), User.objects.get(username="admin")
    services, pipelines = Service.objects.count(), Pipeline.objects.count()
    with pytest.raises(Conflict):
        adopt_service(actor=admin, adoption=adoption, spec=AdoptionSpec("myapp", "The identifier is taken"))
    with pytest.raises(BadInput):
        adopt_service(actor=admin, adoption=adoption, spec=AdoptionSpec("other", "Other", "BlueGreen"))
    adoption.refresh_from_db()
    assert adoption.state == STATES.READY
    assert (Service.objects.count(), Pipeline.objects.count()) == (services, pipelines)
    first_adoption = adopt_service(
        actor=admin, adoption=adoption, spec=AdoptionSpec("other", "Other", "Canary")
    )
    with pytest.raises(Conflict):
        adopt_service(actor=admin, adoption=first_adoption, spec=AdoptionSpec("again", "Again"))
    assert AuditEntry.objects.filter(action="adoption.adopt").count() == 1


def test_the_manifests_say_only_what_somebody_would_have_written(drive: Drive) -> None:
    drive.run("1.27")
    delete_deployment_records()
    sync_cluster()
    task, service = AdoptionProposal.of(read_adoption("myapp")).manifests
    assert "<+primary.artifact.image>" in task.content
    for field in (
        "taskDefinitionArn",
        "registeredAt",
        "requiresAttributes",
        "mountPoints",
        "compatibilities:",
    ):
        assert field not in task.content.replace("requiresCompatibilities:", "")
    for field in (
        "serviceArn",
        "deployments",
        "events",
        "healthCheckGracePeriodSeconds",
        "roleArn",
        "maximumPercent",
    ):
        assert field not in service.content


def test_an_ecs_service_that_slipway_deploys_already_is_not_taken_over(drive: Drive) -> None:
    drive.run("1.27")
    sync_cluster()
    admin, infrastructure = User.objects.get(username="admin"), Infrastructure.objects.get()
    with pytest.raises(BadInput, match="already deploys this ECS service"):
        read_for_adoption(actor=admin, infrastructure=infrastructure, ecs_service="myapp")


@pytest.mark.parametrize("text", ["12e34567", "1234e56", "0o17"])
def test_a_text_that_looks_like_a_number_stays_a_text(text: str) -> None:
    rendered = render_manifest({"environment": [{"name": "COMMIT", "value": text}]})
    assert parse_document(rendered, "task definition").value["environment"][0]["value"] == text
