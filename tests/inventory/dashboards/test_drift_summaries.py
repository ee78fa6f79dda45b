"""Drift by environment on the dashboard of a service and on the page of an environment."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from inventory.dashboards.drift_summaries import summarize_drift
from inventory.models.drift import DriftComparison
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from tests.api.sample_project import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def record(world: World) -> EcsServiceRecord:
    """The ECS service of the world's service, drifted, synced and compared just now."""
    SyncedCluster.objects.update(synced_at=timezone.now())
    DriftComparison.objects.update(state=DriftComparison.State.DRIFTED, compared_at=timezone.now(), reason="")
    return EcsServiceRecord.objects.get(service=world.service)


def get_state(record: EcsServiceRecord) -> str:
    row = EcsServiceRecord.objects.select_related("comparison", "cluster").get(pk=record.pk)
    return summarize_drift(row, timezone.now()).state


def load_pages(reader: Client, world: World) -> list[str]:
    addresses = [
        reverse("service-dashboard", args=[world.service.pk]),
        reverse("environment", args=[world.environment.pk]),
    ]
    return [reader.get(address).content.decode() for address in addresses]


def test_drift_is_shown_and_leads_to_its_fields(
    world: World, reader: Client, record: EcsServiceRecord
) -> None:
    address = reverse("drift-of-service", args=[record.comparison.pk])
    for page in load_pages(reader, world):
        (cell,) = [part for part in page.split("<td") if "drift-of-service" in part]
        assert f'<a href="{address}">' in cell
        assert "Drifted" in cell
        assert record.name in cell


@pytest.mark.parametrize(
    ("synced", "compared", "state"),
    [(1, 1, "DRIFTED"), (6, 1, "UNKNOWN_DRIFT"), (1, 11, "UNKNOWN_DRIFT"), (None, 1, "UNKNOWN_DRIFT")],
)
def test_drift_of_old_data_is_unknown(
    record: EcsServiceRecord, synced: int | None, compared: int, state: str
) -> None:
    now = timezone.now()
    SyncedCluster.objects.update(synced_at=synced and now - timedelta(minutes=synced))
    DriftComparison.objects.update(compared_at=now - timedelta(minutes=compared))
    assert get_state(record) == state


def test_unknown_drift_names_the_last_known_state(
    world: World, reader: Client, record: EcsServiceRecord
) -> None:
    SyncedCluster.objects.update(synced_at=timezone.now() - timedelta(hours=1))
    for page in load_pages(reader, world):
        assert "The cluster was not synced for 6 minutes. Last known: drifted." in page
        assert "Changed outside Slipway" not in page


def test_an_ecs_service_without_a_comparison_is_not_compared(
    world: World, reader: Client, record: EcsServiceRecord
) -> None:
    DriftComparison.objects.all().delete()
    assert get_state(record) == "NOT_COMPARED"
    for page in load_pages(reader, world):
        assert "Not compared" in page
        assert "No comparison yet." in page


def test_a_service_that_runs_nowhere_in_an_environment_is_not_deployed(
    world: World, reader: Client, record: EcsServiceRecord
) -> None:
    EcsServiceRecord.objects.update(gone_at=timezone.now())
    assert "Not deployed" in load_pages(reader, world)[1]
