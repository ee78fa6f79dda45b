"""The panel that lists listeners and rules, and writes them into a blue/green step."""

import re

import pytest
from playwright.sync_api import Page, expect
from pytest_django import Settings

from connectors.models import Connector
from pipelines.models import Pipeline
from rbac.models import Role, RoleAssignment, User
from sandbox.process import SandboxProcess
from tests.browser.conftest import Visit

pytestmark = pytest.mark.browser

TEXT = """pipeline:
  identifier: web
  name: Web
  stages:
    - stage:
        identifier: one
        type: Deployment
        spec:
          execution:
            steps:
              - step:
                  identifier: create
                  type: EcsBlueGreenCreateService
                  spec:
                    loadBalancer: old
                    updateGreenService: true
              - step:
                  identifier: swap
                  type: EcsBlueGreenSwapTargetGroups
"""


@pytest.fixture
def _listed(demo: Pipeline, deployer: User, sandbox: SandboxProcess, settings: Settings) -> None:
    """The demo's connector reaches a sandbox, and the one who visits may write pipelines."""
    settings.ALLOW_AWS_ENDPOINTS = True
    sandbox.seed()
    connector = Connector.objects.get(identifier="sandbox_aws")
    connector.spec = {**connector.spec, "endpoint_url": sandbox.url}
    connector.save()
    role = Role.objects.get(identifier="project_admin", scope=None)
    RoleAssignment.objects.create(user=deployer, role=role, scope=demo.scope)


def _answered(page: Page) -> None:
    expect(page.locator("#listeners")).not_to_have_class(re.compile("htmx-"))


def _choose(page: Page, label: str, index: int = 1) -> None:
    with page.expect_response("**/pipelines/listeners/**"):
        page.get_by_label(label, exact=True).select_option(index=index)
    _answered(page)


def _check(page: Page, group: str) -> None:
    with page.expect_response("**/pipelines/listeners/**"):
        page.get_by_role("group", name=group).get_by_role("radio").first.click()
    _answered(page)
    # Only now: while the answer is put in place, the new radio button is not chosen yet.
    expect(page.get_by_role("group", name=group).get_by_role("radio").first).to_be_checked()


@pytest.mark.usefixtures("_listed")
def test_what_is_chosen_is_written_into_the_step_and_nothing_else(
    page: Page, visit: Visit, demo: Pipeline
) -> None:
    visit(f"/pipelines/{demo.pk}/edit/")
    area = page.get_by_label("YAML", exact=True)
    area.fill(TEXT)
    _choose(page, "Infrastructure")
    _choose(page, "Load balancer")
    _choose(page, "Production listener")
    expect(page.get_by_role("group", name="Production rule")).to_contain_text("if no other rule matches")
    _check(page, "Production rule")
    _choose(page, "Stage listener", 2)
    _check(page, "Stage rule")
    insert = page.get_by_role("button", name="Insert into the blue/green step")
    expect(insert).to_be_visible()
    insert.click()
    expect(page.locator("[data-inserted]")).to_have_text("Inserted into the step in line 13.")
    lines = area.input_value().split("\n")
    assert lines[:14] == TEXT.split("\n")[:14]
    keys = [line.strip().split(":")[0] for line in lines[14:20]]
    assert keys == [
        "loadBalancer",
        "updateGreenService",
        "prodListener",
        "prodListenerRuleArn",
        "stageListener",
        "stageListenerRuleArn",
    ]
    assert lines[14] == "                    loadBalancer: demo"
    assert lines[20:] == TEXT.split("\n")[16:]


@pytest.mark.usefixtures("_listed")
def test_a_text_without_such_a_step_is_left_alone(page: Page, visit: Visit, demo: Pipeline) -> None:
    visit(f"/pipelines/{demo.pk}/edit/")
    for label in ("Infrastructure", "Load balancer", "Production listener", "Stage listener"):
        _choose(page, label)
    for group in ("Production rule", "Stage rule"):
        _check(page, group)
    expect(page.get_by_text("Both rules send traffic to")).to_be_visible()
    page.get_by_role("button", name="Insert into the blue/green step").click()
    expect(page.locator("[data-inserted]")).to_contain_text("no EcsBlueGreenCreateService step")
    expect(page.get_by_label("YAML", exact=True)).to_have_value(demo.yaml)
