"""The visual side of the pipeline editor in a browser: forms and text stay in step."""

import pytest
from playwright.sync_api import Page, expect

from deployments.models import Pipeline
from rbac.models import Role, RoleAssignment, User
from tests.browser.conftest import Visit

pytestmark = pytest.mark.browser


@pytest.fixture
def writer(deployer: User, demo: Pipeline) -> User:
    """The one who visits may write pipelines too."""
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
    form.get_by_label("Run task request definition").fill("type: Inline\nspec:\n  content: |\n    count: 1\n")
    # Saved without Apply: what was entered belongs to it.
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("is saved as version 2")).to_be_visible()
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
