"""The visual side of the pipeline editor in a browser: forms and text stay in step."""

import re

import pytest
from playwright.sync_api import Page, expect

from pipelines.models import Pipeline
from rbac.models import Role, RoleAssignment, User
from tests.browser.conftest import Visit
from tests.browser.test_accessibility import violations

pytestmark = pytest.mark.browser
IS_WARNED = "!window.dispatchEvent(new Event('beforeunload', { cancelable: true }))"


@pytest.fixture
def writer(deployer: User, demo: Pipeline) -> User:
    """A visitor who may write pipelines."""
    role = Role.objects.get(identifier="project_admin", scope=None)
    RoleAssignment.objects.create(user=deployer, role=role, scope=demo.scope)
    return deployer


def test_a_step_added_by_form_is_saved_with_every_comment_kept(
    page: Page, visit: Visit, demo: Pipeline, writer: User
) -> None:
    Pipeline.objects.filter(pk=demo.pk).update(yaml="# Ours.\n" + demo.yaml + "# The end.\n")
    visit(f"/pipelines/{demo.pk}/edit/?tab=visual")
    steps = page.get_by_role("region", name="Steps of Deploy to dev", exact=True)
    steps.get_by_label("Step to add").select_option("EcsRunTask")
    steps.get_by_role("button", name="Add step").click()
    form = page.get_by_role("form", name="ECS Run Task")
    form.get_by_label("Name").fill("Migrate")
    form.get_by_label("Task definition ARN").fill("arn:aws:ecs:us-east-1:123456789012:task-definition/job:1")
    request = form.get_by_role("group", name="Run task request definition")
    request.get_by_label("Store").select_option("Inline")
    request.get_by_label("Content").fill("count: 1\n")
    # Saved without Apply: what was entered belongs to it.
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("saved as version 2")).to_be_visible()
    saved = Pipeline.objects.get(pk=demo.pk).yaml
    assert saved.startswith("# Ours.\n")
    assert saved.endswith("# The end.\n")
    assert "name: Migrate" in saved
    assert [line for line in demo.yaml.split("\n") if line not in saved.split("\n")] == []


def test_the_forms_follow_the_text_and_undo_takes_a_change_back(
    page: Page, visit: Visit, demo: Pipeline, writer: User
) -> None:
    visit(f"/pipelines/{demo.pk}/edit/")
    area = page.get_by_label("YAML", exact=True)
    area.fill(demo.yaml.replace("name: Deploy to dev", "name: Elsewhere"))
    page.get_by_role("tab", name="Visual").click()
    page.get_by_role("button", name="Elsewhere Deploys").click()
    page.get_by_role("button", name="Canary").click()
    steps = page.get_by_role("region", name="Steps of Elsewhere", exact=True)
    expect(steps.get_by_role("button", name="ECS Canary Deploy ECS Canary Deploy")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(steps.get_by_role("button", name="ECS Canary Deploy ECS Canary Deploy")).to_have_count(0)
    expect(area).to_have_value(demo.yaml.replace("name: Deploy to dev", "name: Elsewhere"))


def test_a_pipeline_is_created_step_by_step_and_can_be_run(
    page: Page, visit: Visit, demo: Pipeline, writer: User
) -> None:
    visit("/pipelines/")
    page.get_by_role("link", name="Create a Pipeline").click()
    page.get_by_label("Name", exact=True).fill("Web shop")
    page.get_by_role("button", name="Start").click()
    add = page.locator(".visual-add")
    expect(add.get_by_label("Deploy", exact=True)).to_be_checked()
    add.get_by_label("Stage name").fill("To dev")
    expect(add.get_by_label("Amazon ECS")).to_be_checked()
    add.get_by_role("button", name="Set Up Stage").click()
    form = page.get_by_role("form", name="To dev")
    form.get_by_label("Service", exact=True).select_option("myapp")
    form.get_by_label("Environment and infrastructure").select_option("dev/sandbox")
    page.get_by_role("button", name="Rolling", exact=True).click()
    undoing = page.get_by_role("region", name="Rollback steps of To dev")
    expect(undoing.get_by_role("button", name="ECS Rolling Rollback ECS")).to_be_visible()
    expect(page.locator(".visual-problem")).to_have_count(0)
    page.get_by_role("button", name="Create pipeline").click()
    expect(page.get_by_role("heading", name="Web shop")).to_be_visible()
    page.get_by_role("link", name="Run", exact=True).first.click()
    page.get_by_label("Image tag").fill("1.27")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page).to_have_url(re.compile(r"/deployments/[0-9a-f-]+/"))


def test_an_environment_is_made_within_the_stage_and_the_pipeline_saved(
    page: Page, visit: Visit, demo: Pipeline, writer: User
) -> None:
    visit(f"/pipelines/{demo.pk}/edit/?tab=visual")
    page.get_by_role("button", name="Deploy to dev Deploys").click()
    page.get_by_text("New environment or infrastructure").click()
    form = page.get_by_role("form", name="New environment or infrastructure")
    environment, place = form.get_by_role("group", name="Environment"), form.get_by_role("group").nth(1)
    environment.get_by_label("Name").fill("Staging")
    place.get_by_label("Name").fill("Main")
    page.locator("#visual-new-region").select_option("eu-west-1")
    # No sandbox answers here: the name can be typed.
    expect(place.get_by_text("Could not list clusters")).to_be_visible()
    page.get_by_role("group", name="Failure strategies").get_by_role("button", name="Add").click()
    assert violations(page) == []
    stage = page.get_by_role("form", name="Deploy to dev")
    stage.get_by_label("Name").fill("Deploy all")
    stage.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("form", name="Deploy all")).to_be_visible()
    expect(environment.get_by_label("Name")).to_have_value("Staging")
    expect(page.locator("#visual-new-region")).to_have_value("eu-west-1")
    expect(place.get_by_text("Could not list clusters")).to_be_visible()
    page.locator("#visual-new-cluster").fill("main")
    form.get_by_role("button", name="Create and select").click()
    picker = page.get_by_label("Environment and infrastructure")
    expect(picker).to_have_value("staging/main")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("saved as version 2")).to_be_visible()
    assert "environmentRef: staging" in Pipeline.objects.get(pk=demo.pk).yaml


def test_a_service_is_created_from_within_its_stage(
    page: Page, visit: Visit, demo: Pipeline, writer: User
) -> None:
    visit(f"/pipelines/{demo.pk}/edit/?tab=visual")
    page.get_by_role("button", name="Deploy to dev Deploys").click()
    form = page.get_by_role("form", name="Deploy to dev")
    form.get_by_label("Name").fill("Half typed")
    form.get_by_role("button", name="New service").click()
    expect(page.get_by_role("heading", name="New service")).to_be_visible()
    assert violations(page) == []
    page.get_by_label("Name", exact=True).first.fill("Web shop")
    page.get_by_role("button", name="Create service and return").click()
    expect(page.get_by_text("Service Web shop created and selected.")).to_be_visible()
    form = page.get_by_role("form", name="Half typed")
    expect(form.get_by_label("Service", exact=True)).to_have_value("web_shop")
    expect(page.get_by_label("YAML", exact=True)).to_have_value(re.compile("name: Half typed"))
    assert "Half typed" not in Pipeline.objects.get(pk=demo.pk).yaml


def test_a_save_that_did_not_go_through_saves_nothing_later_and_leaving_still_warns(
    page: Page, visit: Visit, complaints: list[str], demo: Pipeline, writer: User
) -> None:
    visit(f"/pipelines/{demo.pk}/edit/?tab=visual")
    page.get_by_role("button", name="Deploy to dev Deploys").click()
    form = page.get_by_role("form", name="Deploy to dev")
    form.get_by_label("Name").fill("Deploy all")
    form.get_by_role("button", name="Apply").click()
    form = page.get_by_role("form", name="Deploy all")
    form.get_by_label("Name").fill("Deploy everything")
    page.route("**/pipelines/visual/", lambda route: route.abort())
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Slipway did not answer. Try again.")).to_be_visible()
    assert page.evaluate(IS_WARNED)
    page.unroute("**/pipelines/visual/")
    form.get_by_role("button", name="Close").click()
    expect(form).to_have_count(0)
    page.wait_for_timeout(500)
    assert Pipeline.objects.get(pk=demo.pk).version == 1
    assert page.evaluate(IS_WARNED)
    # The browser reports each request without an answer.
    complaints.clear()
