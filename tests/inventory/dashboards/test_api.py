"""The API tells the facts that the pages of the overview show."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from deployments.models import Execution
from steps.states import Outcome, Status
from tests.api.sample_project import CANARY, World

pytestmark = pytest.mark.django_db


def get_json(reader: Client, name: str, *keys: int, **query: object) -> Any:
    response = reader.get(reverse(name, args=keys), query)
    assert response.status_code == 200, response.content
    return response.json()


def test_the_overview_counts_what_ended_and_names_what_runs(world: World, reader: Client) -> None:
    overview = get_json(reader, "api-overview", org="default", project="demo", days=7)
    assert overview["deploying"]["count"] == 1
    assert overview["deploying"]["newest"][0]["id"] == str(world.execution.pk)
    now = timezone.now()
    Execution.objects.update(
        status=Status.FAILED, outcome=Outcome.FAILED, started_at=now, ended_at=now, failure={"message": "no"}
    )
    overview = get_json(reader, "api-overview", days=7)
    assert (overview["deploying"]["count"], overview["failed_or_rolled_back"]["newest"][0]["failure"]) == (
        0,
        "no",
    )
    assert len(overview["days"]) == 7
    assert overview["days"][-1]["failed"] == overview["all"]["failed"] == 1
    assert overview["all"]["failure_rate"] == 1.0


def test_a_range_that_there_is_not_is_refused_by_name(world: World, reader: Client) -> None:
    response = reader.get(reverse("api-overview"), {"days": 8})
    assert response.status_code == 400
    assert response.json()["errors"] == [{"path": "days", "message": "must be one of 7, 14, 30, 90"}]


def test_a_service_tells_its_places_and_deployments(world: World, reader: Client) -> None:
    (placement,) = get_json(reader, "api-service-dashboard", world.service.pk)["places"]
    assert (placement["environment"], placement["cluster"], placement["ecs_service"]) == (
        "dev",
        "demo",
        CANARY,
    )
    assert [version["tasks"] for version in placement["versions"]] == [1]
    (deployment,) = get_json(reader, "api-service-deployments", world.service.pk)["results"]
    assert (deployment["execution"], deployment["can_return"]) == (str(world.execution.pk), False)
    (row,) = get_json(reader, "api-what-runs-where")["results"]
    assert row["service"]["identifier"] == "myapp"
    dashboard_keys = {"target_groups", "usage", "drift", "kept_back"}
    assert row["places"] == [{name: value for name, value in placement.items() if name not in dashboard_keys}]


def test_events_are_searched_by_the_same_words_as_on_the_page(world: World, reader: Client) -> None:
    (event,) = get_json(reader, "api-events", q=CANARY.lower())["results"]
    assert (event["message"], event["service"], event["environment"]) == (CANARY, "myapp", "dev")
    assert get_json(reader, "api-events", q="nothing")["results"] == []
    response = reader.get(reverse("api-events"), {"since": "ever"})
    assert response.json()["errors"][0]["path"] == "since"


def test_a_deployment_that_ended_well_is_deployed_again(world: World, reader: Client) -> None:
    Execution.objects.update(status=Status.SUCCESS, outcome=Outcome.COMPLETED, ended_at=timezone.now())
    stage = world.execution.stages.get()
    address = reverse("api-return-to-deployment", args=[world.service.pk, stage.pk])
    response = reader.post(address, content_type="application/json")
    assert response.status_code == 201
    assert Execution.objects.get(pk=response.json()["id"]).rerun_of == world.execution
    comparison_params = {"from": stage.pk, "to": stage.pk}
    assert get_json(reader, "api-compare-deployments", world.service.pk, **comparison_params)["diff"] is None
