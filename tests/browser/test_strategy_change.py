"""Somebody changes the strategy of a running service, from its dashboard to the preview of the next run."""

import pytest
from playwright.sync_api import Page, expect

from catalog.models import Service
from pipelines.models import Pipeline
from rbac.models import Role, RoleAssignment, User
from tests.browser.conftest import Visit
from tests.browser.test_accessibility import violations
from tests.inventory.strategy_changes.read_pipelines import make_read_pipeline
from tests.inventory.strategy_changes.readings import ROLE

pytestmark = pytest.mark.browser


def test_a_strategy_is_chosen_reviewed_and_changed(
    demo: Pipeline, deployer: User, visit: Visit, page: Page
) -> None:
    role = Role.objects.get(identifier="project_admin", scope=None)
    RoleAssignment.objects.create(user=deployer, role=role, scope=demo.scope)
    pipeline = make_read_pipeline(demo.scope, deployer)

    visit(f"/services/{Service.objects.get(identifier='shop').pk}/dashboard/")
    page.get_by_role("link", name="Change strategy").click()
    page.get_by_role("link", name="Deploy", exact=True).click()
    page.get_by_label("New strategy").select_option(label="Canary by ECS")
    page.get_by_role("button", name="Continue").click()
    page.get_by_label("Test rule").select_option(index=2)
    page.get_by_label("Role of ECS").fill(ROLE)
    assert violations(page) == []
    page.get_by_role("button", name="Review change").click()
    expect(page.get_by_role("heading", name="Review: Rolling to Canary by ECS")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Change to Canary by ECS").click()

    expect(page.get_by_text("deploys with Canary by ECS now")).to_be_visible()
    pipeline.refresh_from_db()
    assert "EcsNativeDeploy" in pipeline.yaml
