"""From the list of delegates to a connected one in a browser, with few clicks and *Deploy now*."""

from collections.abc import Iterator

import pytest
from django.test import Client
from playwright.sync_api import Page, expect
from pytest_django import Settings

from delegates.models import Delegate
from ops.demo.pipelines import SandboxFacts
from rbac.models import Scope, User
from sandbox.process import SandboxProcess
from tests.fixtures.agents import Manager
from tests.fixtures.delegates import make_token
from tests.fixtures.demo import fill_in_demo
from tests.secret_watch.marker import planted

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
# Goal of the product: a delegate that Slipway deploys is connected after five clicks.
MOST_CLICKS = 5
COUNT_CLICKS = """
addEventListener("click", () => { sessionStorage.clicks = Number(sessionStorage.clicks || 0) + 1; }, true);
"""
CONNECTED_MILLISECONDS = 120_000


@pytest.fixture(scope="module", autouse=True)
def _loop_of_playwright() -> Iterator[None]:
    """The database is emptied after the page is closed, while the loop of Playwright still runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield


@pytest.fixture
def address(
    live_broker: str, manager: Manager, pretend_aws: SandboxProcess, settings: Settings, admin: User
) -> str:
    """The address of a manager with the demo's project and connector to the sandbox."""
    pretend_aws.reset()
    settings.SANDBOX_URL, settings.PUBLIC_URL = pretend_aws.url, manager.url
    fill_in_demo(SandboxFacts.from_wire(pretend_aws.seed()))
    return manager.url


def test_a_delegate_is_connected_after_five_clicks(address: str, page: Page) -> None:
    project = Scope.objects.get(path="account/default/demo")
    client = Client()
    client.force_login(User.objects.get(username="admin"))
    page.context.add_cookies(
        [{"name": name, "value": cookie.value, "url": address} for name, cookie in client.cookies.items()]
    )
    page.add_init_script(COUNT_CLICKS)
    page.goto(f"{address}/delegates/?scope=account/default/demo")
    page.get_by_role("link", name="New delegate").first.click()
    page.get_by_label("Name", exact=True).click()
    page.keyboard.type("quick")
    # The page has read the network through the only connector.
    expect(page.locator("[name=listed_subnets]:checked")).to_have_count(2)
    expect(page.locator("[name=listed_security_groups]:checked")).to_have_count(1)
    expect(page.get_by_text("security groups allow outbound HTTPS")).to_be_visible()
    expect(page.locator("[name=cluster]")).not_to_have_value("")
    expect(page.locator("[name=aws_account_id]")).not_to_have_value("")
    page.get_by_role("button", name="Create delegate").click()
    expect(page.get_by_text("Waiting for the delegate to connect")).to_be_visible()
    token = make_token(project, "planted", f"slp_dlt_0123{planted('c' * 27)}")
    Delegate.objects.filter(name="quick").update(token=token)
    page.get_by_role("link", name="Deploy now").click()
    page.get_by_role("button", name="Deploy delegate").click()
    expect(page.get_by_text("quick is connected with 1 instance")).to_be_visible(
        timeout=CONNECTED_MILLISECONDS
    )
    assert 0 < int(page.evaluate("sessionStorage.clicks")) <= MOST_CLICKS
