"""What deployments left behind is listed with why, deleted on request, and never what serves people."""

import pytest
from rest_framework.test import APIClient

from deployments.execution.operations import abort_execution
from deployments.models import Execution, ServiceLock
from pipelines.models import Pipeline
from rbac.models import AuditEntry
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)


def _listed(client: APIClient, execution: Execution) -> dict[str, bool]:
    answer = client.get(f"/api/v1/executions/{execution.pk}/leftovers")
    assert answer.status_code == 200, answer.json()
    return {one["name"]: one["may_go"] for one in answer.json()}


def _clean(client: APIClient, execution: Execution, *services: str) -> tuple[int, Execution | None]:
    address = f"/api/v1/executions/{execution.pk}/leftovers"
    answer = client.post(address, {"services": list(services)}, format="json")
    found = Execution.objects.get(pk=answer.json()["id"]) if answer.status_code == 202 else None
    return answer.status_code, found


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
    assert _listed(client, canary) == {"webshopCanary": True}
    status, cleaning = _clean(client, canary, "webshopCanary")
    assert (status, cleaning is not None) == (202, True)
    assert cleaning is not None
    drive.until_over(cleaning)
    assert cleaning.status == "SUCCESS", drive.log(cleaning)
    assert drive.service("webshopCanary").get("status", "INACTIVE") == "INACTIVE"
    assert drive.service("webshop")["runningCount"] > 0
    assert "Deleting service webshopCanary.." in drive.log(cleaning)
    assert AuditEntry.objects.filter(action="pipeline.execute", actor=drive.deployer).count() == 3
    assert not ServiceLock.objects.exists()
    assert _listed(client, canary) == {}


def test_a_name_that_no_strategy_gives_is_refused(drive: Drive, client: APIClient, canary: Execution) -> None:
    for name in ("webshop", "otherCanary", "webshop__3"):
        assert _clean(client, canary, name)[0] == 400, name
    assert _clean(client, canary)[0] == 400


def test_what_receives_production_traffic_is_kept_even_when_it_is_asked_for(
    drive: Drive, client: APIClient
) -> None:
    drive.pipeline = Pipeline.objects.get(identifier="blue_green_demo")
    drive.run("1.27")
    execution = drive.run("1.28")
    listed = _listed(client, execution)
    assert sorted(listed.values()) == [False, True], listed
    serving = next(name for name, may_go in listed.items() if not may_go)
    old = next(name for name, may_go in listed.items() if may_go)
    _, refused = _clean(client, execution, serving)
    assert refused is not None
    drive.until_over(refused)
    assert (refused.status, refused.failure["code"]) == ("FAILED", "NOT_A_LEFTOVER")
    assert drive.service(serving)["runningCount"] > 0
    _, cleaning = _clean(client, execution, old)
    assert cleaning is not None
    drive.until_over(cleaning)
    assert cleaning.status == "SUCCESS"
    assert drive.service(serving)["runningCount"] > 0


def test_while_an_execution_is_at_work_nothing_is_called_a_leftover(drive: Drive, client: APIClient) -> None:
    drive.pipeline = Pipeline.objects.get(identifier="canary_demo")
    before = drive.run("1.27")
    drive.start("1.28")
    while not drive.service("webshopCanary").get("runningCount"):
        drive.pass_time(1)
    assert _listed(client, before) == {"webshopCanary": False}


def test_where_a_delegate_makes_the_calls_the_execution_looks_alone(
    drive: Drive, client: APIClient, canary: Execution
) -> None:
    connector = canary.stages.get().connector
    connector.spec = {**connector.spec, "connect_through": "Delegate"}
    connector.save()
    listed = client.get(f"/api/v1/executions/{canary.pk}/leftovers").json()
    assert [one["name"] for one in listed] == ["webshopCanary", "webshop__1", "webshop__2"]
    assert {(one["running"], one["may_go"]) for one in listed} == {(None, True)}
