"""A person plans, starts, follows and cancels an acceptance run on its pages, and programs with the API."""

import json
from typing import Any

import pytest
from celery.signals import before_task_publish
from django.test import Client
from rest_framework.test import APIClient

from connectors.models import Connector
from ops.models import AcceptanceRun
from ops.tasks import continue_acceptance_runs
from rbac.models import Role, RoleAssignment, Scope, User
from tests.fixtures.engine_driver import Drive
from tests.fixtures.people import make_person
from tests.stories.acceptance.runs import MAX_PASSES, make_passes

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(User.objects.get(username="admin"))
    return client


@pytest.fixture
def entered(drive: Drive) -> dict[str, Any]:
    """The demo's cluster and network."""
    seed = drive.sandbox.seed()
    return {
        "connector": Connector.objects.get(identifier="sandbox_aws").pk,
        "region": "us-east-1",
        "cluster": seed["cluster"],
        "subnets": ", ".join(seed["subnets"]),
        "security_groups": seed["security_group"],
        "image": "nginx:1.27",
    }


@pytest.fixture
def api_body(entered: dict[str, Any]) -> dict[str, Any]:
    return {
        **entered,
        "connector": "sandbox_aws",
        "subnets": entered["subnets"].split(", "),
        "security_groups": [entered["security_groups"]],
    }


def start(client: Client, entered: dict[str, Any]) -> AcceptanceRun:
    answer = client.post("/system/acceptance/new/", {**entered, "confirmed": "1"})
    assert answer.status_code == 302, answer.content.decode()
    run = AcceptanceRun.objects.latest("pk")
    assert answer["Location"] == f"/system/acceptance/{run.pk}/"
    return run


def test_a_run_is_planned_confirmed_followed_and_canceled(
    drive: Drive, client: Client, entered: dict[str, Any]
) -> None:
    assert "No acceptance runs" in client.get("/system/acceptance/").content.decode()
    mark = drive.mark()
    plan = client.post("/system/acceptance/new/", entered).content.decode()
    assert "1 ECS service and the task definitions of 1 family" in plan
    assert "About an hour and 0.01 USD" in plan
    assert "without a public IP" in plan
    assert drive.effects(mark) == []
    assert not AcceptanceRun.objects.exists()

    run = start(client, entered)
    make_passes(drive, run, 40)
    page = client.get(f"/system/acceptance/{run.pk}/").content.decode()
    assert f'data-topics="acceptance-run:{run.pk}"' in page
    assert "1 of 5 scenarios done" in page
    assert "A task goes through its statuses in their order." in page

    assert "is aborted" in client.get(f"/system/acceptance/{run.pk}/cancel/").content.decode()
    assert client.post(f"/system/acceptance/{run.pk}/cancel/").status_code == 302
    make_passes(drive, run, MAX_PASSES)

    page = client.get(f"/system/acceptance/{run.pk}/").content.decode()
    assert "Canceled" in page
    assert "data-topics" not in page
    report = client.get(f"/system/acceptance/{run.pk}/report.json")
    assert report["Content-Disposition"] == f'attachment; filename="acceptance-{run.key}.json"'
    assert [each["scenario"] for each in json.loads(report.content)["observations"]] == ["first"]
    markdown = client.get(f"/system/acceptance/{run.pk}/report.md").content.decode()
    assert "## The first deployment of a service" in markdown
    listed = client.get("/system/acceptance/").content.decode()
    assert run.key in listed
    assert drive.call("ecs", "ListServices", {"cluster": "demo"})["serviceArns"] == []


def test_what_is_wrong_is_shown_at_its_field(client: Client, entered: dict[str, Any]) -> None:
    answer = client.post(
        "/system/acceptance/new/", {**entered, "image": "nginx", "prod_listener": "demo", "subnets": "a b"}
    )
    text = answer.content.decode()
    assert answer.status_code == 400
    assert "Enter an image with its tag, such as nginx:stable." in text
    assert "Enter IDs such as subnet-0123." in text
    assert "Blue/green needs a load balancer" in text


def test_a_run_can_be_changed_after_its_plan_was_read(client: Client, entered: dict[str, Any]) -> None:
    text = client.post("/system/acceptance/new/", {**entered, "change": "1"}).content.decode()
    assert 'value="nginx:1.27"' in text
    assert "Review plan" in text


def test_who_may_not_use_the_connector_starts_nothing(entered: dict[str, Any]) -> None:
    account, person = Scope.objects.account(), make_person("manager")
    role = Role.objects.create(identifier="managers", name="Managers", scope=account)
    role.set_permissions(["core_account_view", "core_account_edit"])
    RoleAssignment.objects.create(user=person, role=role, scope=account)
    client = Client()
    client.force_login(person)
    assert client.get("/system/acceptance/").status_code == 200
    answer = client.post("/system/acceptance/new/", {**entered, "confirmed": "1"})
    assert answer.status_code == 400
    assert not AcceptanceRun.objects.exists()


def test_a_run_that_is_due_gets_a_message_each_tick_until_it_ends(
    drive: Drive, client: Client, entered: dict[str, Any]
) -> None:
    run = start(client, entered)
    sent: list[tuple[str, dict[str, Any]]] = []

    # Counted as they are sent: a worker of another test may take them at once.
    def record(sender: str, body: tuple[Any, dict[str, Any], Any], **_: Any) -> None:
        sent.append((sender, body[1]))

    before_task_publish.connect(record)
    try:
        continue_acceptance_runs()
        AcceptanceRun.objects.filter(pk=run.pk).update(due_at=None)
        continue_acceptance_runs()
    finally:
        before_task_publish.disconnect(record)
    assert sent == [("ops.tasks.advance_acceptance_run", {"run": run.pk})]


def test_the_api_plans_starts_lists_shows_and_cancels(drive: Drive, api_body: dict[str, Any]) -> None:
    api = APIClient()
    api.force_authenticate(User.objects.get(username="admin"))
    plan = api.post("/api/v1/acceptance-runs/plan", api_body, format="json").json()
    assert (plan["cost_usd"], plan["leftovers"], plan["denied_actions"]) == ("0.01", [], [])

    created = api.post("/api/v1/acceptance-runs", api_body, format="json")
    assert created.status_code == 201, created.json()
    pk = created.json()["id"]
    second = api.post("/api/v1/acceptance-runs", api_body, format="json")
    assert second.status_code == 409

    assert api.post(f"/api/v1/acceptance-runs/{pk}/cancel").status_code == 200
    make_passes(drive, AcceptanceRun.objects.get(pk=pk), MAX_PASSES)
    listed = api.get("/api/v1/acceptance-runs").json()["results"]
    assert [(each["id"], each["status"]) for each in listed] == [(pk, "ABORTED")]
    shown = api.get(f"/api/v1/acceptance-runs/{pk}").json()
    assert shown["report"]["is_complete"] is False
    assert {scenario["state"] for scenario in shown["scenarios"]} == {"SKIPPED"}


def test_the_api_deletes_leftovers_only_on_request(drive: Drive, api_body: dict[str, Any]) -> None:
    api = APIClient()
    api.force_authenticate(User.objects.get(username="admin"))
    pk = api.post("/api/v1/acceptance-runs", api_body, format="json").json()["id"]
    run = make_passes(drive, AcceptanceRun.objects.get(pk=pk), 5)
    drive.sandbox.fault("denied", service="ecs", operation="DeleteService")
    api.post(f"/api/v1/acceptance-runs/{pk}/cancel")
    make_passes(drive, run, MAX_PASSES)
    drive.sandbox.clear_faults()

    refused = api.post("/api/v1/acceptance-runs", api_body, format="json")
    assert refused.status_code == 409
    assert f"slipway-acceptance-{run.key}" in refused.json()["detail"]
    assert api.post(f"/api/v1/acceptance-runs/{pk}/clean-up").status_code == 200
    make_passes(drive, run, MAX_PASSES)
    assert run.left == []
