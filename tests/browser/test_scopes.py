"""Organizations and projects in a browser: choosing one, making one, putting it away and bringing it back."""

import pytest
from playwright.sync_api import Page, expect

from pipelines.models import Pipeline
from rbac.models import Scope, User
from rbac.operations import create_organization, create_project
from tests.browser.conftest import Visit

pytestmark = pytest.mark.browser


@pytest.fixture
def deployer(demo: Pipeline) -> User:
    """The visitor: a user who may change things."""
    return User.objects.get(username="admin")


def test_one_of_many_projects_is_chosen_by_keyboard(page: Page, visit: Visit, demo: Pipeline) -> None:
    payments = create_organization(actor=None, identifier="payments", name="Payments")
    for number in range(25):
        create_project(actor=None, organization=payments, identifier=f"p{number}", name=f"Ledger <{number}>")
    visit("/pipelines/")
    page.keyboard.press("o")
    search = page.get_by_label("Search organizations and projects")
    expect(search).to_be_focused()
    search.fill("LEDGER <24")
    link = page.get_by_role("link", name="Ledger <24> Project")
    expect(page.locator("[data-scope-list] a")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    expect(link).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("[data-scope-menu] > summary")).to_contain_text("Scope: payments / p24")
    expect(page.get_by_role("heading", name="Pipelines", exact=True)).to_be_visible()


def test_a_project_is_made_put_away_and_brought_back(page: Page, visit: Visit, demo: Pipeline) -> None:
    visit("/access/scopes/")
    page.get_by_role("link", name="Create project in Default organization").click()
    page.get_by_label("Name", exact=True).fill("Web shop")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("account/default/web_shop")).to_be_visible()
    page.get_by_role("link", name="Archive").click()
    page.get_by_role("button", name="Archive").click()
    expect(page.get_by_text("Web shop archived.")).to_be_visible()
    page.get_by_role("link", name="Archived").click()
    page.get_by_role("button", name="Restore Web shop").click()
    expect(page.get_by_text("Web shop restored")).to_be_visible()
    assert Scope.objects.get(path="account/default/web_shop").archived_at is None
