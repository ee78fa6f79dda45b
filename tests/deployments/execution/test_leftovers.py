"""What deployments left behind is listed with why, deleted on request, and never what serves people."""

import pytest
from rest_framework.test import APIClient

from deployments.execution.operations import abort_execution
from deployments.models import Execution, ServiceLock
from pipelines.models import Pipeline
from rbac.models import AuditEntry
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)


def _list_leftovers(client: APIClient, execution: Execution) -> dict[str, bool]:
    response = client.get(f"/api/v1/executions/{execution.pk}/leftovers")
    assert response.status_code == 200, response.json()
    return {row["name"]: row["may_go"] for row in response.json()}


def _delete_leftovers(
    client: APIClient, execution: Execution, *services: str
) -> tuple[int, Execution | None]:
    address = f"/api/v1/executions/{execution.pk}/leftovers"
    response = client.post(address, {"services": list(services)}, format="json")
    cleanup = Execution.objects.get(pk=response.json()["id"]) if response.status_code == 202 else None
    return response.status_code, cleanup


@pytest.fixture
def canary(drive: Drive) -> Execution:
    """A canary deployment that somebody aborted without a rollback: the canary is still there."""
    drive.pipeline = Pipeline.objects.get(identifier="canary_demo")
    assert drive.run("1.27").status == "SUCCESS"
    execution = drive.start("1.28")
    while not drive.service("webshopCanary").get("runningCount"):
        drive.pass_time(1)
    abort_execution(actor=drive.deployer, execution=Execution.objects.get(pk=execution.pk))
    return drive.until_over(execution)


def test_a_canary_that_was_left_is_listed_and_deleted_by_an_execution(
    drive: Drive, client: APIClient, canary: Execution
) -> None:
    assert canary.status == "ABORTED"
    assert _list_leftovers(client, canary) == {"webshopCanary": True}
    status, cleanup = _delete_leftovers(client, canary, "webshopCanary")
    assert (status, cleanup is not None) == (202, True)
    assert cleanup is not None
    drive.until_over(cleanup)
    assert cleanup.status == "SUCCESS", drive.log(cleanup)
    assert drive.service("webshopCanary").get("status", "INACTIVE") == "INACTIVE"
    assert drive.service("webshop")["runningCount"] > 0
    assert "Deleting service webshopCanary.." in drive.log(cleanup)
    assert AuditEntry.objects.filter(action="pipeline.execute", actor=drive.deployer).count() == 3
    assert not ServiceLock.objects.exists()
    assert _list_leftovers(client, canary) == {}


def test_a_name_that_no_strategy_gives_is_refused(drive: Drive, client: APIClient, canary: Execution) -> None:
    for name in ("webshop", "otherCanary", "webshop__3"):
        assert _delete_leftovers(client, canary, name)[0] == 400, name
    assert _delete_leftovers(client, canary)[0] == 400


def test_what_receives_production_traffic_is_kept_even_when_it_is_asked_for(
    drive: Drive, client: APIClient
) -> None:
    drive.pipeline = Pipeline.objects.get(identifier="blue_green_demo")
    drive.run("1.27")
    execution = drive.run("1.28")
    services = _list_leftovers(client, execution)
    assert sorted(services.values()) == [False, True], services
    serving_service = next(name for name, is_removable in services.items() if not is_removable)
    old_service = next(name for name, is_removable in services.items() if is_removable)
    _, refused_cleanup = _delete_leftovers(client, execution, serving_service)
    assert refused_cleanup is not None
    drive.until_over(refused_cleanup)
    assert (refused_cleanup.status, refused_cleanup.failure["code"]) == ("FAILED", "NOT_A_LEFTOVER")
    assert drive.service(serving_service)["runningCount"] > 0
    _, cleanup = _delete_leftovers(client, execution, old_service)
    assert cleanup is not None
    drive.until_over(cleanup)
    assert cleanup.status == "SUCCESS"
    assert drive.service(serving_service)["runningCount"] > 0


def test_while_an_execution_is_at_work_nothing_is_called_a_leftover(drive: Drive, client: APIClient) -> None:
    drive.pipeline = Pipeline.objects.get(identifier="canary_demo")
    before = drive.run("1.27")
    drive.start("1.28")
    while not drive.service("webshopCanary").get("runningCount"):
        drive.pass_time(1)
    assert _list_leftovers(client, before) == {"webshopCanary": False}


def test_where_a_delegate_makes_the_calls_the_execution_looks_alone(
    drive: Drive, client: APIClient, canary: Execution
) -> None:
    connector = canary.stages.get().connector
    connector.spec = {**connector.spec, "connect_through": "Delegate"}
    connector.save()
    rows = client.get(f"/api/v1/executions/{canary.pk}/leftovers").json()
    assert [row["name"] for row in rows] == ["webshopCanary", "webshop__1", "webshop__2"]
    assert {(row["running"], row["may_go"]) for row in rows} == {(None, True)}
