"""A new delegate in a browser: few clicks to its task definition, and the page turns when it connects."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Page, expect

from delegates import live
from delegates.models import Delegate, DelegateEvent
from rbac.models import Scope, User
from tests.fixtures.delegates import make_delegate, make_instance
from tests.fixtures.people import make_person

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
# Goal of the product: a first delegate in six clicks at most.
MOST_CLICKS = 6
COUNT_CLICKS = """
addEventListener("click", () => { sessionStorage.clicks = Number(sessionStorage.clicks || 0) + 1; }, true);
"""


@pytest.fixture
def manager(project: Scope) -> User:
    """A new user who may create delegates."""
    return make_person("manager", "delegate_manager", project)


@pytest.fixture
def signed_in(page: Page, complaints: list[str], live_broker: str, site: str, manager: User) -> str:
    """The address of a web server that has sockets, where the manager is signed in."""
    client = Client()
    client.force_login(manager)
    page.context.add_cookies(
        [{"name": name, "value": cookie.value, "url": site} for name, cookie in client.cookies.items()]
    )
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=site)
    return site


def register(delegate: Delegate) -> None:
    """Connect an agent: create its row and publish the change, outside Playwright's loop."""

    def connect_instance() -> None:
        make_instance(delegate)
        live.publish_delegates_changed(delegate.pk)
        connection.close()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(connect_instance).result()


def test_a_new_user_has_a_connected_delegate_after_few_clicks(page: Page, signed_in: str) -> None:
    page.add_init_script(COUNT_CLICKS)
    page.goto(f"{signed_in}/delegates/")
    page.get_by_role("link", name="New delegate").first.click()
    page.get_by_label("Name", exact=True).click()
    page.keyboard.type("prod-eu")
    page.get_by_role("button", name="Create delegate").click()
    page.get_by_role("button", name="Copy fargate-task-definition.json").click()
    expect(page.get_by_text("Waiting for the delegate to connect…")).to_be_visible()
    # Copying takes its time, and says when it is done.
    expect(page.locator("#announcer")).to_have_text("Copied")
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    delegate = Delegate.objects.select_related("token").get(name="prod-eu")
    assert delegate.token is not None
    values = {
        variable["name"]: variable["value"] for variable in copied["containerDefinitions"][0]["environment"]
    }
    assert values["HARNESS_NAME"] == "prod-eu"
    (secret,) = copied["containerDefinitions"][0]["secrets"]
    assert secret["name"] == "HARNESS_TOKEN"
    assert secret["valueFrom"].endswith(":secret:slipway/delegates/prod-eu")
    expect(page.get_by_text(delegate.token.value)).to_be_visible()
    assert 0 < int(page.evaluate("sessionStorage.clicks")) <= MOST_CLICKS
    page.evaluate("window.stayed = true")
    register(delegate)
    expect(page.get_by_text("prod-eu is connected with 1 instance and accepts tasks.")).to_be_visible()
    expect(page.locator("#announcer")).to_have_text("Connected")
    expect(page.locator(".wizard-steps [aria-current]")).to_have_text("3 Verify")
    assert page.evaluate("window.stayed")


def test_a_delegate_that_does_not_come_gets_its_likely_causes(
    page: Page, signed_in: str, project: Scope
) -> None:
    delegate = make_delegate(project, "lost")
    page.clock.install()
    page.goto(f"{signed_in}/delegates/{delegate.pk}/install/")
    expect(page.get_by_text("Waiting for the delegate to connect…")).to_be_visible()
    expect(page.get_by_role("heading", name="Likely causes")).to_have_count(0)
    Delegate.objects.filter(pk=delegate.pk).update(created_at=timezone.now() - timedelta(minutes=2))
    page.clock.fast_forward(62_000)
    expect(page.get_by_role("heading", name="Likely causes")).to_be_visible()
    expect(page.get_by_text("No delegate has tried to register with this name")).to_be_visible()
    DelegateEvent.objects.create(
        scope=project, name="lost", at=timezone.now(), kind="REFUSED", text="The token is revoked."
    )
    page.get_by_role("link", name="Check again").click()
    expect(page.get_by_text("The token is revoked.", exact=True)).to_be_visible()
    expect(page.get_by_text("Registration refused")).to_be_visible()


def test_a_name_is_checked_while_it_is_typed(page: Page, signed_in: str) -> None:
    page.goto(f"{signed_in}/delegates/new/")
    page.get_by_label("Name", exact=True).press_sequentially("prod eu")
    expect(page.get_by_text("Use up to 63 letters, digits and hyphens")).to_be_visible()
    page.get_by_label("Name", exact=True).fill("prod-eu")
    expect(page.get_by_text("Use up to 63 letters, digits and hyphens")).to_be_hidden()


def test_the_form_asks_for_what_fits_the_target_alone(page: Page, signed_in: str) -> None:
    page.goto(f"{signed_in}/delegates/new/")
    subnets, region = page.get_by_label("Subnets"), page.get_by_label("Region")
    expect(subnets).to_be_visible()
    page.get_by_role("radio", name="ECS on EC2").check()
    expect(subnets).to_be_hidden()
    expect(region).to_be_visible()
    page.get_by_role("radio", name="Docker on a virtual machine").check()
    expect(region).to_be_hidden()
    page.get_by_text("Token, configuration, proxy and more").click()
    expect(page.get_by_label("Hostname")).to_be_visible()
