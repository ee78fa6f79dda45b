"""A person presses Run and watches: real server, worker, broker, sandbox and browser, on the real clock."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from deployments.models import Execution
from ops.demo.pipelines import SandboxFacts
from ops.demo.seed import seed_demo
from rbac.models import User
from sandbox.process import SandboxProcess, start_sandbox
from tests.fixtures.people import PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def fast_sandbox(settings: object) -> Iterator[SandboxProcess]:
    """A pretend account in which time runs forty times as fast."""
    process = start_sandbox(paused=False, speed=40)
    settings.SANDBOX_URL = process.url  # type: ignore[attr-defined]
    yield process
    process.stop()


@pytest.fixture
def signed_in(
    transactional_db: None,
    account: object,
    fast_sandbox: SandboxProcess,
    site: str,
    worker: object,
    page: Page,
) -> Page:
    """The deployer of the demo, on the list of pipelines."""
    seed_demo(SandboxFacts.from_wire(fast_sandbox.seed()))
    deployer = User.objects.get(username="deployer")
    deployer.set_password(PASSWORD)
    deployer.save()
    page.goto(f"{site}/pipelines/")
    page.get_by_label("User name").fill("deployer")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    return page


def _run(page: Page, tag: str) -> Execution:
    page.get_by_role("link", name="Run Rolling demo", exact=True).click()
    page.get_by_label("Image tag").fill(tag)
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("heading", name=re.compile("Execution"))).to_be_visible()
    return Execution.objects.latest("created_at")


@pytest.mark.timeout(180)
def test_a_run_is_watched_live_and_a_lost_socket_loses_no_line(
    signed_in: Page, site: str, complaints: list[str]
) -> None:
    page = signed_in
    execution = _run(page, "1.27")
    expect(page.locator("[data-log]")).to_contain_text("Creating Task Definition", timeout=30_000)
    page.evaluate("window.slipway.live.drop()")
    expect(page.locator(".page-head")).to_contain_text("Success", timeout=60_000)
    expect(page.locator("[data-connection]")).to_have_text("Ended", timeout=20_000)
    loaded_lines = page.evaluate("[...window.slipway.pane.lines.loaded()].map((line) => line.text)")
    download = page.request.get(f"{site}/api/v1/executions/{execution.pk}/log?download=1").text()
    stored_lines = [line.split(" ", 1)[1] if " " in line else "" for line in download.splitlines()]
    assert [text.rstrip() for text in loaded_lines] == [text.rstrip() for text in stored_lines]
    assert " Deployment Successful." in loaded_lines


@pytest.mark.timeout(180)
def test_a_crash_shows_cause_rollback_and_checklist(signed_in: Page, complaints: list[str]) -> None:
    page = signed_in
    _run(page, "1.27")
    expect(page.locator(".page-head")).to_contain_text("Success", timeout=60_000)
    page.get_by_role("link", name="Pipelines").first.click()
    _run(page, "crash")
    head = page.locator(".page-head")
    expect(head).to_contain_text("Failed", timeout=90_000)
    # Failed it is as soon as the rollback begins.
    expect(head).to_contain_text("Rolled back", timeout=60_000)
    expect(page.locator("[data-x-notices]")).to_contain_text("exited with code 1")
    page.get_by_role("tab", name=re.compile("Rollback checklist")).click()
    expect(page.locator("#panel-checklist")).to_contain_text("Task definition of Service myapp")
