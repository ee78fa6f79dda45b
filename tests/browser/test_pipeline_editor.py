"""The pipeline editor in a browser: a graph that follows, names that are suggested, mistakes placed."""

import pytest
from playwright.sync_api import Page, Route, expect

from catalog.models import Service
from pipelines.models import Pipeline
from rbac.models import Role, RoleAssignment, User
from tests.browser.conftest import Visit

pytestmark = pytest.mark.browser


@pytest.fixture
def writer(deployer: User, demo: Pipeline) -> User:
    """A visitor who may write pipelines."""
    role = Role.objects.get(identifier="project_admin", scope=None)
    RoleAssignment.objects.create(user=deployer, role=role, scope=demo.scope)
    return deployer


def test_the_graph_follows_the_text_and_keeps_the_last_that_could_be_read(
    page: Page, visit: Visit, demo: Pipeline, writer: User
) -> None:
    visit(f"/pipelines/{demo.pk}/edit/")
    area, graph = page.get_by_label("YAML", exact=True), page.locator("#graph")
    expect(graph.locator(".graph-title")).to_have_text("Deploy to dev")
    area.fill(demo.yaml.replace("name: Deploy to dev", "name: Somewhere else"))
    expect(graph.locator(".graph-title")).to_have_text("Somewhere else")
    area.fill(demo.yaml.replace("type: Deployment", "type: Nonsense"))
    expect(page.locator("#graph-state")).to_have_text("The graph shows the last valid YAML.")
    expect(graph.locator(".graph-title")).to_have_text("Somewhere else")
    expect(page.locator(".editor-problems")).to_contain_text("Line 8, column 15")
    area.fill(demo.yaml)
    expect(page.locator("#graph-state")).to_have_text("")
    expect(graph.locator(".graph-title")).to_have_text("Deploy to dev")


def test_what_exists_is_suggested(page: Page, visit: Visit, demo: Pipeline, writer: User) -> None:
    visit(f"/pipelines/{demo.pk}/edit/")
    area = page.get_by_label("YAML", exact=True)
    at = demo.yaml.index("serviceRef: myapp") + len("serviceRef: ")
    area.focus()
    area.evaluate("(area, at) => area.setSelectionRange(at, at + 5)", at)
    page.keyboard.press("Delete")
    page.keyboard.type("my")
    page.keyboard.press("Control+Space")
    option = page.get_by_role("option", name="myapp")
    expect(option).to_be_visible()
    page.keyboard.press("Enter")
    expect(area).to_have_value(demo.yaml)


def test_a_manifest_suggests_what_its_kind_and_its_service_know(
    page: Page, visit: Visit, demo: Pipeline, writer: User
) -> None:
    service = Service.objects.get(identifier="myapp")
    service.variables = {"level": "info"}
    service.save()
    visit(f"/services/{service.pk}/edit/")
    page.get_by_role("button", name="Add manifest").click()
    area = page.locator("textarea[data-editor]").last
    area.fill("fam")
    area.press("Control+Space")
    expect(page.get_by_role("option", name="family")).to_be_visible()
    area.press("Enter")
    expect(area).to_have_value("family: ")
    area.press_sequentially("<+serviceVariables.")
    expect(page.get_by_role("option", name="serviceVariables.level")).to_be_visible()


def test_suggestions_asked_for_too_early_show_when_they_come(
    page: Page, visit: Visit, demo: Pipeline, writer: User
) -> None:
    routes: list[Route] = []
    page.route("**/services/words/**", lambda route: routes.append(route))
    visit(f"/services/{Service.objects.get(identifier='myapp').pk}/edit/")
    page.get_by_role("button", name="Add manifest").click()
    area = page.locator("textarea[data-editor]").last
    with page.expect_request("**/services/words/**"):
        area.fill("fam")
    area.press("Control+Space")
    expect(page.get_by_text("Loading suggestions…")).to_be_attached()
    expect(page.get_by_role("option", name="family")).to_have_count(0)
    routes[0].continue_()
    expect(page.get_by_role("option", name="family")).to_be_visible()
