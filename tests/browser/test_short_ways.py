"""How few clicks and keys lead to what people look for most often."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from catalog.models import Infrastructure, Service
from deployments.models import Execution
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from pipelines.models import Pipeline
from rbac.models import User
from tests.browser.conftest import Visit
from tests.browser.fake_execution_socket import Wire, line

pytestmark = pytest.mark.browser
SERVICES, UNHEALTHY = 500, 3
FIRST_ERROR = 140
PASSWORD = "first-of-three-words"


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
    deployer.set_password(PASSWORD)
    deployer.save(update_fields=["password"])
    page.goto(f"{live_server.url}/")
    page.locator("input[name=username]").fill(deployer.username)
    page.locator("input[name=password]").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
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
