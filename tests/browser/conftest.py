"""The demo in a browser: signed in, with every broken rule of the content policy noted."""

import re
from collections.abc import Callable, Iterator

import pytest
from django.test import Client
from playwright.sync_api import Page, Response
from pytest_django.live_server_helper import LiveServer

from deployments.execution.operations import run_pipeline
from deployments.models import Execution
from ops.demo.pipelines import SandboxFacts
from pipelines.models import Pipeline
from rbac.models import User
from tests.browser.fake_execution_socket import Wire
from tests.fixtures.demo import fill_in_demo

FACTS = SandboxFacts(
    region="us-east-1",
    cluster="demo",
    subnets=("subnet-0a", "subnet-0b"),
    security_group="sg-0a",
    role_arn="arn:aws:iam::123456789012:role/ecsTaskExecutionRole",
)
Visit = Callable[[str], Response | None]
# Numbers of the lines that the log pane draws.
ROW_NUMBERS = "[...document.querySelectorAll('.log-row')].map(row => Number(row.dataset.n))"


@pytest.fixture(scope="module", autouse=True)
def loop_of_playwright() -> Iterator[None]:
    """The database is emptied after the page is closed, while the loop of Playwright still runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield


@pytest.fixture
def demo(transactional_db: None, account: object) -> Pipeline:
    fill_in_demo(FACTS)
    return Pipeline.objects.get(identifier="rolling_demo")


@pytest.fixture
def deployer(demo: Pipeline) -> User:
    return User.objects.get(username="deployer")


@pytest.fixture
def execution(demo: Pipeline, deployer: User) -> Execution:
    """An execution whose plan is written and which nothing moves on."""
    return run_pipeline(actor=deployer, pipeline=demo, artifact_tag="1.27")


@pytest.fixture
def complaints(page: Page, request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Collect the error messages of the browser; a test ends with none."""
    messages: list[str] = []
    # This server has no sockets, and every page opens the first, many the second.
    page.route_web_socket("**/ws/approvals/", lambda socket: None)
    if "site" not in request.fixturenames:
        page.route_web_socket(re.compile("/ws/live/"), lambda socket: None)
    page.on("console", lambda message: messages.append(message.text) if message.type == "error" else None)
    yield messages
    assert messages == []


@pytest.fixture
def visit(page: Page, complaints: list[str], live_server: LiveServer, deployer: User) -> Visit:
    """Return a function that opens a URL of the site as the deployer."""
    client = Client()
    client.force_login(deployer)
    cookies = [
        {"name": name, "value": morsel.value, "url": live_server.url}
        for name, morsel in client.cookies.items()
    ]
    page.context.add_cookies(cookies)
    return lambda path: page.goto(f"{live_server.url}{path}")


@pytest.fixture
def wire(page: Page, execution: Execution) -> Wire:
    """A fake between the page and the server, so that a test can drop messages."""
    return Wire(page, execution)
