"""Somebody who has never adopted anything finds the way through it, and back, in a browser."""

import pytest
from playwright.sync_api import Page, expect
from pytest_django import Settings

from catalog.models import Infrastructure, Service
from connectors.models import Connector
from inventory.models.adoption import Adoption
from inventory.models.instances import EcsServiceRecord
from ops.demo.pipelines import SandboxFacts
from ops.demo.seed import seed_demo
from pipelines.models import Pipeline
from rbac.models import Role, RoleAssignment, User
from sandbox.process import SandboxProcess
from tests.browser.conftest import Visit
from tests.fixtures.engine_driver import Drive
from tests.inventory.adoption.foreign_services import build_task_definition, wait_until_steady
from tests.inventory.drift.scans import scan_after_sync, sync_cluster

pytestmark = pytest.mark.browser


@pytest.fixture
def drive(
    transactional_db: None, account: object, sandbox: SandboxProcess, settings: Settings, demo: Pipeline
) -> Drive:
    """The demo's connector reaches a sandbox, and the one who visits may make services and pipelines."""
    settings.ALLOW_AWS_ENDPOINTS = True
    settings.SANDBOX_URL = sandbox.url
    seed_demo(SandboxFacts.from_wire(sandbox.seed()))
    connector = Connector.objects.get(identifier="sandbox_aws")
    connector.spec = {**connector.spec, "endpoint_url": sandbox.url}
    connector.save()
    deployer = User.objects.get(username="deployer")
    role = Role.objects.get(identifier="project_admin", scope=None)
    RoleAssignment.objects.create(user=deployer, role=role, scope=demo.scope)
    return Drive(sandbox, deployer, demo)


def create_live_service(drive: Drive) -> None:
    group = drive.sandbox.seed()["load_balancer"]["target_groups"]["target1"]
    registered = drive.call("ecs", "RegisterTaskDefinition", build_task_definition(drive, family="store"))
    drive.call(
        "ecs",
        "CreateService",
        {
            "cluster": "demo",
            "serviceName": "store__1",
            "taskDefinition": registered["taskDefinition"]["taskDefinitionArn"],
            "desiredCount": 1,
            "launchType": "FARGATE",
            "networkConfiguration": {
                "awsvpcConfiguration": {"subnets": list(drive.sandbox.seed()["subnets"])}
            },
            "loadBalancers": [{"targetGroupArn": group, "containerName": "web", "containerPort": 80}],
        },
    )
    wait_until_steady(drive)
    sync_cluster()


def test_a_pair_is_adopted_and_taken_back_from_the_list_on(
    drive: Drive, visit: Visit, page: Page, complaints: list[str]
) -> None:
    create_live_service(drive)
    place = Infrastructure.objects.get()
    visit(f"/infrastructures/{place.pk}/unknown/")
    page.get_by_role("button", name="Adopt store__1").click()
    expect(page.get_by_role("heading", name="Reading manifests from AWS")).to_be_visible()
    scan_after_sync()
    # This server has no sockets that would tell the page.
    page.reload()
    expect(page.get_by_label("Service name")).to_have_value("store")
    radio = page.get_by_role("group", name="Listener rules").get_by_role("radio", checked=True)
    expect(radio).to_have_count(1)
    expect(page.get_by_text("Production: demo, default rule of port 80")).not_to_have_count(0)
    page.get_by_label("Identifier").fill("myapp")
    page.get_by_role("button", name="Adopt service", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("already a service with the identifier myapp")
    expect(page.get_by_label("Service name")).to_have_value("store")
    page.get_by_label("Identifier").fill("store")
    page.get_by_role("button", name="Adopt service", exact=True).click()
    expect(page.get_by_text("Adopted by deployer")).to_be_visible()
    page.get_by_role("link", name="Undo adoption").click()
    page.get_by_role("button", name="Undo adoption").click()
    expect(page.get_by_text("The adoption of store__1 was undone")).to_be_visible()
    expect(page.get_by_role("button", name="Adopt store__1")).to_be_visible()
    assert not Service.objects.filter(identifier="store").exists()
    # A browser notes each refusal.
    complaints[:] = [complaint for complaint in complaints if "409" not in complaint]


def test_what_happened_meanwhile_is_told_with_a_way_on(
    drive: Drive, visit: Visit, page: Page, complaints: list[str]
) -> None:
    create_live_service(drive)
    place = Infrastructure.objects.get()
    visit(f"/infrastructures/{place.pk}/unknown/")
    page.get_by_role("button", name="Adopt store__1").click()
    scan_after_sync()
    # This server has no sockets that would tell the page.
    page.reload()
    expect(page.get_by_label("Service name")).to_be_visible()
    # Somebody else was faster.
    admin = User.objects.get(username="admin")
    Adoption.objects.update(state=Adoption.State.ADOPTED, adopted_by=admin)
    page.get_by_role("button", name="Adopt service", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("admin has already adopted this ECS service")
    # Somebody has deleted it.
    Adoption.objects.update(state=Adoption.State.READY, adopted_by=None)
    EcsServiceRecord.objects.update(gone_at="2026-01-01T00:00Z")
    visit(f"/adoptions/{Adoption.objects.get().pk}/")
    expect(page.get_by_role("alert")).to_contain_text("no longer exists")
    expect(page.get_by_role("button", name="Read again")).to_be_visible()
    expect(page.get_by_role("button", name="Adopt service", exact=True)).to_have_count(0)
    # A browser notes each refusal.
    complaints[:] = [complaint for complaint in complaints if "409" not in complaint]
