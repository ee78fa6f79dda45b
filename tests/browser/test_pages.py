"""Pages in a browser: under the content policy, without script, in both themes and at both widths."""

import re
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser, Page, expect
from pytest_django.live_server_helper import LiveServer

from catalog.models import Service
from connectors.models import Connector, FileNode
from delegates.models import Delegate
from deployments.models import Execution, Interrupt
from pipelines.models import Pipeline
from rbac.models import Role, RoleAssignment, User
from tests.browser.conftest import Visit
from tests.browser.fake_execution_socket import Wire

pytestmark = pytest.mark.browser


def addresses(execution: Execution) -> list[str]:
    """Every page that there is to read."""
    file, folder = (FileNode.objects.filter(is_folder=kind).earliest("pk") for kind in (False, True))
    service = Service.objects.get(identifier="myapp")
    connector = Connector.objects.get()
    pipeline = Pipeline.objects.get(identifier="rolling_demo")
    delegate = Delegate.objects.get()
    return [
        "/deployments/",
        "/deployments/?status=aborted",
        f"/deployments/{execution.pk}/?tab=calls",
        f"/deployments/{execution.pk}/?tab=checklist",
        f"/deployments/{execution.pk}/?tab=outputs",
        "/pipelines/",
        f"/pipelines/{pipeline.pk}/",
        f"/pipelines/{pipeline.pk}/run/",
        "/services/",
        f"/services/{service.pk}/",
        "/environments/",
        "/connectors/",
        "/delegates/",
        f"/delegates/{delegate.pk}/",
        f"/delegates/{delegate.pk}/?tab=lists",
        "/files/",
        f"/files/{file.pk}/",
        f"/files/{folder.pk}/",
        f"/connectors/{connector.pk}/",
        "/secrets/",
        "/secrets/new/",
        "/connectors/new/?kind=Vault",
        f"/secrets/{connector.secret_id}/",
        f"/files/{file.pk}/history/",
    ]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_breaks_the_policy_or_its_width(
    page: Page,
    visit: Visit,
    live_server: LiveServer,
    execution: Execution,
    wire: Wire,
    deployer: User,
    theme: str,
    width: int,
) -> None:
    # Who may change things sees more of each page, and its forms.
    RoleAssignment.objects.create(
        user=deployer, role=Role.objects.get(identifier="project_admin"), scope=execution.scope
    )
    page.set_viewport_size({"width": width, "height": 800})
    # This server has no sockets; what arrives through them is another test's.
    page.context.add_cookies([{"name": "slipway_theme", "value": theme, "url": live_server.url}])
    for address in addresses(execution):
        response = visit(address)
        assert response is not None
        assert response.status == 200, address
        assert page.locator("html").get_attribute("data-theme") == theme
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, address


def test_what_the_script_draws_is_what_the_server_drew(
    page: Page, chromium: Browser, visit: Visit, execution: Execution, wire: Wire
) -> None:
    visit(f"/deployments/{execution.pk}/")
    expect(page.locator("[data-connection]")).to_have_text("Live")
    bare = chromium.new_context(java_script_enabled=False, storage_state=page.context.storage_state())
    still = bare.new_page()
    still.goto(page.url)
    for part in ("status", "stages", "gauges", "steps"):
        drawn, served = (view.locator(f"[data-x-{part}]").inner_text().split() for view in (page, still))
        assert drawn == served, part
    bare.close()


def test_the_plan_is_readable_without_script(
    chromium: Browser, page: Page, visit: Visit, execution: Execution, wire: Wire
) -> None:
    visit("/deployments/")
    bare = chromium.new_context(java_script_enabled=False, storage_state=page.context.storage_state())
    still = bare.new_page()
    still.goto(page.url + f"{execution.pk}/")
    steps = still.get_by_label("Steps", exact=True)
    expect(steps).to_contain_text("Prepare rollback data")
    expect(steps).to_contain_text("Register the task definition")
    expect(still.get_by_role("link", name="Download")).to_be_visible()
    bare.close()


def test_a_run_is_chosen_and_started(page: Page, visit: Visit, demo: Pipeline) -> None:
    page.route("**/api/v1/**", lambda route: route.fulfill(json={"lines": [], "end": False}))
    page.route_web_socket("**/ws/**", lambda socket: None)
    visit("/pipelines/")
    page.get_by_role("link", name="Run Rolling demo").click()
    expect(page.get_by_role("heading", name="Plan")).to_be_visible()
    expect(page.get_by_text("Wait for steady state")).to_be_visible()
    page.get_by_label("Image tag").fill("1.28")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Execution 1")
    assert Execution.objects.get().artifact["tag"] == "1.28"


def test_a_bad_tag_is_explained_beside_the_field(page: Page, visit: Visit, demo: Pipeline) -> None:
    visit(f"/pipelines/{demo.pk}/run/")
    page.get_by_label("Image tag").fill("no spaces here")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_label("Image tag")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#tag-error")).to_contain_text("letters, digits")
    assert not Execution.objects.exists()


def test_abort_asks_before_it_acts(page: Page, visit: Visit, execution: Execution, wire: Wire) -> None:
    visit(f"/deployments/{execution.pk}/")
    page.get_by_role("button", name="Abort").click()
    expect(page.get_by_role("heading", name="Abort execution 1?")).to_be_visible()
    page.get_by_role("button", name="Keep running").click()
    assert not Interrupt.objects.exists()

    page.get_by_role("button", name="Abort").click()
    # The page looks the same before and after; only the answer says that it was taken.
    with page.expect_navigation():
        page.get_by_role("button", name="Abort and roll back").click()
    expect(page.locator("dialog[open]")).to_have_count(0)
    expect(page.get_by_role("heading", level=1)).to_have_text("Execution 1")
    assert Interrupt.objects.get().kind == Interrupt.Kind.ABORT_AND_ROLL_BACK


def test_the_theme_is_kept_by_the_server(page: Page, visit: Visit, demo: Pipeline) -> None:
    visit("/pipelines/")
    page.get_by_label("Your menu").click()
    with page.expect_response("**/theme/"):
        page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_narrow_page_shows_in_its_navigation_where_the_reader_is(
    page: Page, visit: Visit, demo: Pipeline
) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    for address, name in (("/access/keys/", "Access and settings"), ("/", "Overview")):
        visit(address)
        expect(page.get_by_label("Main").get_by_role("link", name=name)).to_be_in_viewport(ratio=1)
    visit("/notifications/")
    tabs = page.get_by_label("Access and settings")
    expect(tabs.get_by_role("link", name="Notifications")).to_be_in_viewport(ratio=1)


def test_the_keyboard_reaches_pages_and_help(page: Page, visit: Visit, demo: Pipeline) -> None:
    visit("/deployments/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("p")
    expect(page.get_by_role("heading", level=1)).to_have_text("Pipelines")


def test_names_that_hold_markup_are_shown_as_they_are(page: Page, visit: Visit, demo: Pipeline) -> None:
    canary = '"><img src=x onerror=alert(1)>{{7*7}}'
    Pipeline.objects.update(name=canary, description=canary)
    page.on("dialog", lambda dialog: pytest.fail(f"a name was run: {dialog.message}"))
    visit(f"/pipelines/{demo.pk}/")
    expect(page.get_by_role("heading", level=1)).to_have_text(canary)


def test_times_have_24_hours_and_their_zone(
    page: Page, visit: Visit, execution: Execution, wire: Wire
) -> None:
    Execution.objects.update(started_at=datetime(2026, 3, 1, 16, 5, 9, tzinfo=UTC))
    visit(f"/deployments/{execution.pk}/")
    started = page.locator('time[datetime^="2026-03-01"]').first
    expect(started).to_have_text(re.compile(r"\d\d:05:09 \S+$"))
