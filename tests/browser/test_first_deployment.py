"""From an empty project to a running deployment, only by what the pages offer."""

import pytest
from django.test import Client
from playwright.sync_api import Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from deployments.journal import rate_limits
from deployments.models import Execution
from ops.demo.pipelines import SandboxFacts
from pipelines.models import Pipeline
from rbac.models import Scope, User
from sandbox.process import SandboxProcess
from tests.fixtures.engine_driver import Drive
from tests.fixtures.people import make_person
from tests.secret_watch.marker import planted

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

SERVICE_DEFINITION = """serviceName: web
launchType: FARGATE
desiredCount: 1
networkConfiguration:
  awsvpcConfiguration:
    subnets: [{subnet}]
    securityGroups: [{group}]
"""


@pytest.fixture
def newcomer(account: Scope, project: Scope) -> User:
    """A user with every permission in an empty project."""
    return make_person("newcomer", "project_admin", project)


@pytest.fixture
def facts(sandbox: SandboxProcess, settings: Settings) -> SandboxFacts:
    settings.SANDBOX_URL = sandbox.url
    rate_limits.reset_buckets()
    return SandboxFacts.from_wire(sandbox.seed())


@pytest.fixture
def home(page: Page, complaints: list[str], live_server: LiveServer, newcomer: User) -> Page:
    """The first page that the newcomer sees."""
    client = Client()
    client.force_login(newcomer)
    page.context.add_cookies(
        [
            {"name": name, "value": cookie.value, "url": live_server.url}
            for name, cookie in client.cookies.items()
        ]
    )
    page.goto(live_server.url)
    return page


def follow(page: Page, stop: str) -> None:
    """Take the next stop that the page offers."""
    page.get_by_role("link", name="Deployments", exact=True).first.click()
    expect(page.locator("[aria-current=step] strong")).to_have_text(stop)
    page.get_by_role("link", name=stop, exact=True).click()


def test_a_newcomer_is_led_from_nothing_to_a_deployment(
    home: Page, facts: SandboxFacts, sandbox: SandboxProcess, newcomer: User
) -> None:
    page = home
    page.route_web_socket("**/ws/**", lambda socket: None)
    follow(page, "Connect an AWS account")
    page.get_by_label("Name", exact=True).fill("My account")
    page.get_by_label("Access key", exact=True).check()
    page.get_by_label("Access key id").fill("AKIAIOSFODNN7EXAMPLE")
    page.get_by_label("Secret access key (new value)").fill(planted("wJalrXUtnFEMI/K7MDENG"))
    page.get_by_label("Custom endpoint").fill(sandbox.url)
    page.get_by_role("button", name="Save and test").click()
    expect(page.get_by_text("Connected to account")).to_be_visible()

    follow(page, "Create a service")
    page.get_by_label("Name", exact=True).first.fill("Web")
    page.locator("#id_image").fill("nginx")
    page.get_by_label("Default tag").fill("1.27")
    text = SERVICE_DEFINITION.format(subnet=facts.subnets[0], group=facts.security_group)
    second = page.locator("textarea[data-editor]").nth(1)
    second.fill(text.replace("desiredCount: 1", "desiredCount: one"))
    expect(page.locator(".editor-problems").nth(1)).to_contain_text("Line 3")
    second.fill(text)
    expect(page.locator("[data-editor-state]").nth(1)).to_contain_text("No problems found")
    page.get_by_role("button", name="Create service").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Web")

    follow(page, "Create an environment")
    page.get_by_label("Name", exact=True).first.fill("Development")
    page.get_by_role("button", name="Create environment").click()

    follow(page, "Add an infrastructure")
    page.get_by_label("Name", exact=True).fill("East")
    expect(page.locator("#id_cluster")).to_have_value(facts.cluster)
    page.get_by_role("button", name="Add infrastructure").click()
    expect(page.get_by_role("rowheader", name="East")).to_be_visible()

    follow(page, "Create a pipeline")
    expect(page.locator(".graph-sub").first).to_have_text("web → development / east")
    page.get_by_role("button", name="Create pipeline").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Deploy Web")

    follow(page, "Run the pipeline")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Execution 1")

    execution = Execution.objects.get()
    Drive(sandbox=sandbox, deployer=newcomer, pipeline=Pipeline.objects.get()).until_over(execution)
    assert execution.status == "SUCCESS"
    page.reload()
    expect(page.locator("[data-x-status]")).to_contain_text("Success")


def test_somebody_who_may_not_is_told_so(
    page: Page, complaints: list[str], live_server: LiveServer, account: Scope, project: Scope
) -> None:
    client = Client()
    client.force_login(make_person("reader", "viewer", project))
    page.context.add_cookies(
        [
            {"name": name, "value": cookie.value, "url": live_server.url}
            for name, cookie in client.cookies.items()
        ]
    )
    page.goto(live_server.url)
    expect(page.get_by_text("Ask someone with the permission to do this.")).to_be_visible()
    expect(page.get_by_role("link", name="Connect an AWS account")).to_have_count(0)
