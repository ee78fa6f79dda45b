"""How few clicks and keys lead to what people look for most often."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from catalog.models import Environment, Infrastructure, Service
from deployments.models import Execution
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from pipelines.models import Pipeline
from rbac.models import RoleAssignment, User
from tests.browser.conftest import Visit
from tests.browser.fake_execution_socket import Wire, line

pytestmark = pytest.mark.browser
SERVICES, UNHEALTHY = 500, 3
FIRST_ERROR = 140
PASSWORD = "first-of-three-words"


def sign_in(page: Page, live_server: LiveServer, person: User) -> None:
    """Sign in with a new password; the overview opens."""
    person.set_password(PASSWORD)
    person.save(update_fields=["password"])
    page.goto(f"{live_server.url}/")
    page.locator("input[name=username]").fill(person.username)
    page.locator("input[name=password]").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()


def run_in_production(service: Service) -> Environment:
    """Create an environment Production where ECS runs a service, as the last sync read it."""
    sample = Infrastructure.objects.earliest("pk")
    now = timezone.now()
    production = Environment.objects.create(
        scope=service.scope, identifier="prod", name="Production", kind=Environment.Kind.PRODUCTION
    )
    infrastructure = Infrastructure.objects.create(
        environment=production,
        identifier="prod",
        name="Production",
        connector=sample.connector,
        region="us-east-1",
        cluster="prod",
    )
    cluster = SyncedCluster.objects.create(
        connector=sample.connector, region="us-east-1", cluster="prod", last_used_at=now, synced_at=now
    )
    EcsServiceRecord.objects.create(
        cluster=cluster,
        infrastructure=infrastructure,
        service=service,
        arn="arn:aws:ecs:us-east-1:123456789012:service/prod/web",
        name="web",
        desired=1,
        running=1,
        status="ACTIVE",
        first_seen_at=now,
        seen_at=now,
    )
    return production


def test_who_may_deploy_to_production_is_two_clicks_from_the_sign_in(
    page: Page, complaints: list[str], live_server: LiveServer, demo: Pipeline
) -> None:
    run_in_production(Service.objects.earliest("pk"))
    sign_in(page, live_server, User.objects.get(username="admin"))
    page.get_by_role("columnheader", name="Production").get_by_role("link").click()
    page.get_by_role("link", name="Who can deploy").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Who can deploy to environment Production")
    expect(page.locator("main tbody th")).to_have_text(["admin", "deployer"])
    expect(page.locator("main tbody tr", has_text="deployer")).to_contain_text("has role Pipeline Executor")


def test_a_role_is_given_in_three_steps_from_the_list_of_people(
    page: Page, complaints: list[str], live_server: LiveServer, demo: Pipeline
) -> None:
    sign_in(page, live_server, User.objects.get(username="admin"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.goto(f"{live_server.url}/access/people/")
    page.get_by_role("link", name="Assign role to viewer").click()
    page.get_by_label("Role").select_option(label="Pipeline Executor")
    page.get_by_role("button", name="Assign role").click()
    expect(page.get_by_role("region", name="Roles of viewer")).to_contain_text("Pipeline Executor")
    assignment = RoleAssignment.objects.get(user__username="viewer", role__identifier="pipeline_executor")
    assert assignment.scope == demo.scope


def test_the_failing_line_is_two_clicks_from_the_sign_in(
    page: Page,
    complaints: list[str],
    live_server: LiveServer,
    deployer: User,
    execution: Execution,
    wire: Wire,
) -> None:
    wire.log = [line(number, level="error" if number == FIRST_ERROR else "info") for number in range(1, 301)]
    failure = {"code": "X", "message": "It broke", "step": "s", "container": None, "exit_code": None}
    Execution.objects.filter(pk=execution.pk).update(
        status="FAILED", outcome="FAILED", failure=failure, next_line_number=301, ended_at=timezone.now()
    )
    sign_in(page, live_server, deployer)
    page.get_by_role("region", name=re.compile("^Failed or rolled back")).get_by_role("link").first.click()
    expect(page.locator(f"[data-n='{FIRST_ERROR}']")).to_have_class("log-row error picked")
    wire.send_lines(*wire.log)
    expect(page.locator(f"[data-n='{FIRST_ERROR}']")).to_be_in_viewport()


def test_the_unhealthy_of_five_hundred_services_have_an_address(
    page: Page, visit: Visit, demo: Pipeline
) -> None:
    infrastructure = Infrastructure.objects.select_related("environment").earliest("pk")
    scope = Service.objects.earliest("pk").scope
    now = timezone.now()
    cluster = SyncedCluster.objects.create(
        connector=infrastructure.connector,
        region="us-east-1",
        cluster="many",
        last_used_at=now,
        synced_at=now,
    )
    services = Service.objects.bulk_create(
        Service(scope=scope, identifier=f"service{number}", name=f"Service {number}")
        for number in range(SERVICES)
    )
    EcsServiceRecord.objects.bulk_create(
        EcsServiceRecord(
            cluster=cluster,
            infrastructure=infrastructure,
            service=service,
            arn=f"arn:aws:ecs:us-east-1:123456789012:service/many/{service.identifier}",
            name=service.identifier,
            desired=1,
            running=int(number >= UNHEALTHY),
            status="ACTIVE",
            first_seen_at=now - timedelta(days=1),
            seen_at=now,
        )
        for number, service in enumerate(services)
    )
    visit("/services/?show=unhealthy&sort=name&density=compact")
    names = page.locator("main tbody a.name")
    expect(names).to_have_text([f"Service {number}" for number in range(UNHEALTHY)])
    expect(page.get_by_label("Show", exact=True)).to_have_value("unhealthy")
