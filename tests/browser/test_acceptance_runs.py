"""The form of an acceptance run, its plan and its progress in a browser, on the sandbox."""

from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from deployments.engine import dispatch
from deployments.models import Pulse
from ops.demo.pipelines import SandboxFacts
from rbac.models import User
from sandbox.process import SandboxProcess
from tests.browser.conftest import Visit
from tests.browser.test_accessibility import violations
from tests.fixtures.demo import fill_in_demo

pytestmark = pytest.mark.browser


@pytest.fixture
def deployer(
    transactional_db: None, account: object, sandbox: SandboxProcess, broker_url: str, settings: Settings
) -> User:
    """The visitor: an administrator of a demo with its sandbox, whose workers dispatch while a test runs."""
    settings.SANDBOX_URL, settings.REDIS_URL = sandbox.url, broker_url
    at = timezone.now() + timedelta(minutes=10)
    Pulse.objects.update_or_create(name=dispatch.DISPATCHER, defaults={"at": at})
    fill_in_demo(SandboxFacts.from_wire(sandbox.seed()))
    return User.objects.get(username="admin")


@pytest.mark.parametrize(("theme", "width"), [("dark", 390), ("light", 1280)])
def test_a_run_is_entered_planned_started_and_canceled(
    page: Page, visit: Visit, live_server: LiveServer, sandbox: SandboxProcess, theme: str, width: int
) -> None:
    page.context.add_cookies([{"name": "slipway_theme", "value": theme, "url": live_server.url}])
    page.set_viewport_size({"width": width, "height": 800})
    visit("/system/acceptance/")
    assert violations(page) == []
    page.get_by_role("link", name="New acceptance run").click()
    expect(page.get_by_label("Cluster", exact=True)).to_have_value("demo")
    assert violations(page) == []
    seed = sandbox.seed()
    page.get_by_label("Subnets").fill(",".join(seed["subnets"]))
    page.get_by_label("Security groups").fill(seed["security_group"])
    page.get_by_role("button", name="Review plan").click()

    expect(page.get_by_role("heading", name="Start the acceptance run?")).to_be_visible()
    expect(page.get_by_text("About an hour and 0.01 USD")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Change").click()
    expect(page.get_by_label("Security groups")).to_have_value(seed["security_group"])
    page.get_by_role("button", name="Review plan").click()
    page.get_by_role("button", name="Start acceptance run").click()

    expect(page.get_by_role("heading", name="Scenarios")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("link", name="Cancel run").click()
    assert violations(page) == []
    page.get_by_role("button", name="Cancel run").click()
    expect(page.get_by_text("The run is canceled", exact=True)).to_be_visible()
    assert violations(page) == []
