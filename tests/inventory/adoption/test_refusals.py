"""What cannot be taken over is refused with the reason and the next step, whenever it turns out."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from catalog.models import Infrastructure, Service
from connectors.models import Connector
from inventory.adoption.live import read_adoption_snapshots
from inventory.adoption.owners import describe_other_owner
from inventory.adoption.proposals import AdoptionProposal
from inventory.drift import clusters, drift_scan
from inventory.models.adoption import Adoption
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from inventory.operations.adoptions import (
    AdoptionSpec,
    adopt_service,
    list_unmanaged_services,
    read_for_adoption,
)
from inventory.queries.drift import get_adoption_failure
from inventory.sync.scans.runner import run_scan
from pipelines.models import Pipeline
from rbac.models import Scope, User
from tests.contract.endpoint import Aws
from tests.contract.express_services import create_express_service
from tests.fixtures.engine_driver import Drive
from tests.inventory.adoption.foreign_services import (
    STATES,
    adopt,
    build_task_definition,
    create_foreign_service,
    read_adoption,
    wait_until_steady,
)
from tests.inventory.drift.scans import scan_after_sync, sync_cluster
from web.http.problems import BadInput, Conflict

pytestmark = pytest.mark.django_db(transaction=True)


def create(drive: Drive, name: str, **fields: Any) -> None:
    """Create an ECS service without tasks, so that there is nothing to wait for."""
    drive.call("ecs", "CreateService", {"cluster": "demo", "serviceName": name, **fields})


def test_a_service_of_another_controller_without_a_task_set_is_refused(drive: Drive) -> None:
    create(drive, "theirs", desiredCount=1, deploymentController={"type": "EXTERNAL"})
    sync_cluster()
    adoption = read_adoption("theirs")
    assert adoption.state == STATES.REFUSED, "although it names no task definition"
    assert "It has no task set" in adoption.reason
    assert "read the ECS service again" in adoption.reason


def test_a_daemon_is_adopted_without_a_count_for_the_rolling_step(drive: Drive) -> None:
    web_container = {**build_task_definition(drive)["containerDefinitions"][0], "memory": 64}
    task = {
        "requiresCompatibilities": ["EC2"],
        "networkMode": "bridge",
        "cpu": None,
        "memory": None,
        "containerDefinitions": [web_container],
    }
    daemon = {"launchType": "EC2", "schedulingStrategy": "DAEMON", "desiredCount": None}
    create_foreign_service(drive, "agent", task=task, networkConfiguration=None, **daemon)
    sync_cluster()
    adoption = read_adoption("agent")
    assert adoption.state == STATES.READY, adoption.reason
    proposal = AdoptionProposal.of(adoption)
    assert proposal.strategies == ("Rolling",)
    assert "desiredCount" not in (proposal.documents.service or {})


def test_what_ecs_is_deploying_right_now_is_refused_until_that_is_over(drive: Drive) -> None:
    create_foreign_service(drive, "legacy")
    drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "legacy", "forceNewDeployment": True})
    drive.sandbox.advance(1)
    sync_cluster()
    adoption = read_adoption("legacy")
    assert adoption.state == STATES.REFUSED
    assert "deployment is in progress" in adoption.reason
    wait_until_steady(drive)
    sync_cluster()
    assert read_adoption("legacy").state == STATES.READY


def test_an_inactive_revision_is_refused_also_where_it_was_read_while_it_was_active(drive: Drive) -> None:
    arn = create_foreign_service(drive, "legacy")
    sync_cluster()
    adoption = read_adoption("legacy")
    assert adoption.state == STATES.READY
    drive.call("ecs", "DeregisterTaskDefinition", {"taskDefinition": arn})
    adoption = read_adoption("legacy")
    assert adoption.state == STATES.REFUSED
    assert "INACTIVE" in adoption.reason


def test_what_was_deleted_or_changed_or_begun_since_it_was_read_is_not_adopted(drive: Drive) -> None:
    admin = User.objects.get(username="admin")
    create_foreign_service(drive, "legacy")
    sync_cluster()
    adoption = read_adoption("legacy")
    call = {"cluster": "demo", "service": "legacy"}

    drive.call("ecs", "UpdateService", {**call, "desiredCount": 3})
    wait_until_steady(drive)
    sync_cluster()
    with pytest.raises(Conflict, match="has changed since it was read"):
        adopt_service(actor=admin, adoption=_reload(adoption), spec=AdoptionSpec("taken", "Taken"))

    adoption = read_adoption("legacy")
    drive.call("ecs", "UpdateService", {**call, "forceNewDeployment": True})
    drive.sandbox.advance(1)
    sync_cluster()
    with pytest.raises(Conflict, match="deployment is in progress"):
        adopt_service(actor=admin, adoption=_reload(adoption), spec=AdoptionSpec("taken", "Taken"))
    wait_until_steady(drive)

    drive.call("ecs", "DeleteService", {**call, "force": True})
    wait_until_steady(drive)
    sync_cluster()
    with pytest.raises(Conflict, match="no longer exists"):
        adopt_service(actor=admin, adoption=_reload(adoption), spec=AdoptionSpec("taken", "Taken"))
    assert not Service.objects.filter(identifier="taken").exists()


def test_a_missing_permission_is_told_while_somebody_waits(drive: Drive) -> None:
    create_foreign_service(drive, "legacy")
    cluster = sync_cluster()
    admin, infrastructure = User.objects.get(username="admin"), Infrastructure.objects.get()
    drive.sandbox.fault("denied", service="ecs", operation="DescribeTaskDefinition")
    adoption = read_for_adoption(actor=admin, infrastructure=infrastructure, ecs_service="legacy")
    snapshot = read_adoption_snapshots([str(adoption.pk)])
    run_scan(drift_scan.DriftScan, clusters.advance_due_date(cluster, adoption.requested_at).pk)
    assert read_adoption_snapshots([str(adoption.pk)]) != snapshot, "the page that waits is told"
    drive.sandbox.clear_faults()
    assert "ecs:DescribeTaskDefinition" in get_adoption_failure(adoption)
    second_adoption = read_adoption("legacy")
    assert (second_adoption.state, get_adoption_failure(second_adoption)) == (STATES.READY, "")


def test_names_that_are_taken_are_told_and_nothing_is_made(drive: Drive) -> None:
    admin = User.objects.get(username="admin")
    create_foreign_service(drive, "legacy")
    sync_cluster()
    adoption = read_adoption("legacy")
    with pytest.raises(Conflict, match="already a service with the identifier myapp"):
        adopt_service(actor=admin, adoption=adoption, spec=AdoptionSpec("myapp", "My app"))
    pipeline = Pipeline.objects.get(identifier="rolling_demo")
    Pipeline.objects.filter(pk=pipeline.pk).update(identifier="deploy_taken")
    with pytest.raises(Conflict, match="already a pipeline with the identifier deploy_taken"):
        adopt_service(actor=admin, adoption=adoption, spec=AdoptionSpec("taken", "Taken"))
    assert not Service.objects.filter(identifier="taken").exists()
    adoption.refresh_from_db()
    assert adoption.state == STATES.READY


def test_two_who_adopt_at_once_by_two_infrastructures_make_one(drive: Drive) -> None:
    """One cluster may be named by several environments, and be read by several people at once."""
    admin = User.objects.get(username="admin")
    create_foreign_service(drive, "legacy")
    sync_cluster()
    first = read_adoption("legacy")
    infrastructure = first.infrastructure
    other = Infrastructure.objects.create(
        environment=infrastructure.environment,
        identifier="again",
        name="Again",
        connector=infrastructure.connector,
        region=infrastructure.region,
        cluster=infrastructure.cluster,
    )
    second = read_for_adoption(actor=admin, infrastructure=other, ecs_service="legacy")
    scan_after_sync()
    second.refresh_from_db()
    assert (first.state, second.state) == (STATES.READY, STATES.READY)
    # Both have asked whose it is; what follows is what either would do next.
    stale_adoption = _reload(second)
    adopt_service(actor=admin, adoption=_reload(first), spec=AdoptionSpec("taken", "Taken"))
    EcsServiceRecord.objects.filter(name="legacy").update(service=None)
    with pytest.raises(Conflict, match="admin has already adopted this ECS service"):
        adopt_service(actor=admin, adoption=stale_adoption, spec=AdoptionSpec("mine", "Mine"))
    assert not Service.objects.filter(identifier="mine").exists()
    assert Adoption.objects.filter(state=STATES.ADOPTED).count() == 1
    with pytest.raises(Conflict, match="admin has already adopted this ECS service"):
        adopt_service(actor=admin, adoption=_reload(first), spec=AdoptionSpec("other", "Other"))


def test_the_same_request_once_more_answers_the_same(drive: Drive) -> None:
    admin = User.objects.get(username="admin")
    create_foreign_service(drive, "legacy")
    sync_cluster()
    adoption = adopt("legacy")
    repeated_adoption = adopt_service(
        actor=admin, adoption=_reload(adoption), spec=AdoptionSpec("taken", "Taken over")
    )
    assert (repeated_adoption.service, repeated_adoption.pipeline) == (adoption.service, adoption.pipeline)
    assert Service.objects.filter(identifier="taken").count() == 1


def test_what_another_project_deploys_by_its_own_connector_is_told_and_not_taken(drive: Drive) -> None:
    admin = User.objects.get(username="admin")
    create_foreign_service(drive, "legacy")
    sync_cluster()
    owner = _deploy_elsewhere("legacy")
    infrastructure = Infrastructure.objects.get()
    unmanaged_service = list_unmanaged_services(infrastructure).get(name="legacy")
    assert unmanaged_service.is_elsewhere  # type: ignore[attr-defined]
    with pytest.raises(BadInput) as error:
        read_for_adoption(actor=admin, infrastructure=infrastructure, ecs_service="legacy")
    assert f"Service theirs in {owner.scope.path}" in str(error.value)
    stranger = User.objects.get(username="deployer")
    description = describe_other_owner(owner, stranger)
    assert "theirs" not in description
    assert owner.scope.path not in description
    assert "cannot view" in description


def test_an_express_service_is_marked_and_refused_with_the_way_out(
    drive: Drive, browse: Callable[[User], Client]
) -> None:
    create_express_service(Aws.pretend(drive.sandbox), "express")
    sync_cluster()
    page = browse(User.objects.get(username="admin")).get(
        reverse("unknown-services", args=[Infrastructure.objects.get().pk])
    )
    assert "Express service" in page.content.decode()
    assert "Managed by ECS" in page.content.decode()
    assert 'value="express"' not in page.content.decode()
    adoption = read_adoption("express")
    assert adoption.state == STATES.REFUSED
    assert "update-express-gateway-service" in adoption.reason


def _deploy_elsewhere(name: str) -> Service:
    """Deploy to the same cluster from another project, with a connector of its own."""
    org = Scope.objects.get(identifier="demo").parent
    project = Scope.objects.create(identifier="others", name="Others", parent=org, kind=Scope.Kind.PROJECT)
    record = EcsServiceRecord.objects.select_related("cluster__connector").get(name=name)
    connector = Connector.objects.get(pk=record.cluster.connector_id)
    connector.pk, connector.scope, connector.identifier = None, project, "theirs_aws"
    connector.secret = None
    connector.save()
    cluster = SyncedCluster.objects.get(pk=record.cluster_id)
    cluster.pk, cluster.connector, cluster.due_at = None, connector, None
    cluster.save()
    owner = Service.objects.create(scope=project, identifier="theirs", name="Theirs")
    record.pk, record.cluster, record.service = None, cluster, owner
    record.save()
    return owner


def _reload(adoption: Adoption) -> Adoption:
    """Return the same row as another request would read it."""
    rows = Adoption.objects.select_related(
        "infrastructure__environment__scope", "ecs_service__cluster", "service"
    )
    return rows.get(pk=adoption.pk)
