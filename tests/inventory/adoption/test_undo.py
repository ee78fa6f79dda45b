"""An adoption just made is taken back: what it made goes, AWS stays, and it can be adopted again."""

import pytest
from django.test import Client
from django.urls import reverse

from catalog.models import Infrastructure, Service
from inventory.models.drift import DriftComparison
from inventory.models.instances import EcsServiceRecord
from inventory.operations.adoption_undo import can_undo_adoption, describe_undo_obstacle, undo_adoption
from inventory.operations.adoptions import AdoptionSpec, adopt_service, list_unmanaged_services
from pipelines.models import Pipeline
from rbac.models import AuditEntry, User
from rbac.policy import NotVisible
from tests.fixtures.engine_driver import Drive
from tests.inventory.adoption.foreign_services import STATES, adopt, create_foreign_service
from tests.inventory.drift.scans import list_drifts, sync_cluster
from web.http.problems import Conflict

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_was_made_goes_and_it_can_be_adopted_again(drive: Drive) -> None:
    admin = User.objects.get(username="admin")
    create_foreign_service(drive, "legacy")
    sync_cluster()
    adoption = adopt("legacy")
    assert list_drifts() == []
    before = drive.mark()
    undone_adoption = undo_adoption(actor=admin, adoption=adoption)
    assert (
        undone_adoption.state,
        undone_adoption.service,
        undone_adoption.pipeline,
        undone_adoption.reserved_arn,
    ) == (STATES.READY, None, None, "")
    assert not Service.objects.filter(identifier="taken").exists()
    assert not Pipeline.with_deleted.filter(identifier="deploy_taken").exists()
    assert not DriftComparison.objects.filter(ecs_service__name="legacy").exists()
    assert EcsServiceRecord.objects.get(name="legacy").service is None
    assert drive.effects(before) == [], "AWS is not asked"
    entry = AuditEntry.objects.get(action="adoption.undo")
    assert entry.before["service"].startswith("taken") or "taken" in str(entry.before)
    sync_cluster()
    assert EcsServiceRecord.objects.get(name="legacy").service is None
    assert list_unmanaged_services(Infrastructure.objects.get()).filter(name="legacy").exists()
    second_adoption = adopt_service(
        actor=admin, adoption=undone_adoption, spec=AdoptionSpec("taken", "Taken over")
    )
    assert second_adoption.state == STATES.ADOPTED


def test_the_page_says_what_goes_and_undoes_it(drive: Drive) -> None:
    create_foreign_service(drive, "legacy")
    sync_cluster()
    adoption, client = adopt("legacy"), Client()
    client.force_login(User.objects.get(username="admin"))
    address = reverse("undo-adoption", args=[adoption.pk])
    assert "The service Taken over and the pipeline" in client.get(address).content.decode()
    response = client.post(address, follow=True)
    assert response.redirect_chain[0][0] == reverse("unknown-services", args=[adoption.infrastructure_id])
    assert "The adoption of legacy was undone." in response.content.decode()
    conflict_response = client.post(address)
    assert conflict_response.status_code == 409
    assert "Could not undo the adoption" in conflict_response.content.decode()


def test_once_something_was_run_it_stays(drive: Drive) -> None:
    admin = User.objects.get(username="admin")
    create_foreign_service(drive, "legacy")
    sync_cluster()
    adoption = adopt("legacy")
    assert adoption.pipeline is not None
    drive.pipeline = adoption.pipeline
    drive.start()
    assert "was deployed after its adoption" in describe_undo_obstacle(adoption)
    with pytest.raises(Conflict, match="was deployed after its adoption"):
        undo_adoption(actor=admin, adoption=adoption)
    assert Service.objects.filter(identifier="taken").exists()


def test_twice_is_once_and_what_was_never_adopted_is_refused(drive: Drive) -> None:
    admin = User.objects.get(username="admin")
    create_foreign_service(drive, "legacy")
    sync_cluster()
    adoption = adopt("legacy")
    stale_adoption = type(adoption).objects.select_related("service", "pipeline").get(pk=adoption.pk)
    undo_adoption(actor=admin, adoption=adoption)
    for candidate in (adoption, stale_adoption):
        with pytest.raises(Conflict):
            undo_adoption(actor=admin, adoption=candidate)
    assert AuditEntry.objects.filter(action="adoption.undo").count() == 1


def test_who_may_not_delete_what_was_made_may_not_take_it_back(drive: Drive) -> None:
    create_foreign_service(drive, "legacy")
    sync_cluster()
    adoption = adopt("legacy")
    stranger = User.objects.create_user(username="stranger")
    assert not can_undo_adoption(stranger, adoption)
    with pytest.raises(NotVisible):
        undo_adoption(actor=stranger, adoption=adoption)
    assert Service.objects.filter(identifier="taken").exists()
