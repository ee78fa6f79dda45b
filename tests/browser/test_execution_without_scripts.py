"""The execution page where no script runs: one panel, the last lines of the log, no false emptiness."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from pytest_django.live_server_helper import LiveServer

from deployments.log import NewLogLine, store_lines
from deployments.models import AwsCall, Execution, StepExecution
from tests.browser.conftest import Visit
from tests.deployments.log.conftest import AT

pytestmark = pytest.mark.browser
PANELS = ("log", "outputs", "calls", "checklist")


@pytest.fixture
def still(chromium: Browser, page: Page, visit: Visit) -> Iterator[Page]:
    """A page of the deployer with JavaScript off."""
    visit("/deployments/")
    bare = chromium.new_context(java_script_enabled=False, storage_state=page.context.storage_state())
    yield bare.new_page()
    bare.close()


def write_lines(execution: Execution, count: int) -> int:
    """Store lines and return the number of the last one."""
    store_lines(
        execution.pk, [NewLogLine(AT, None, "s", "u", "info", f"text {number}") for number in range(count)]
    )
    execution.refresh_from_db()
    return execution.next_line_number - 1


@pytest.mark.parametrize("width", [1500, 390])
def test_each_tab_is_a_page_with_one_panel(
    still: Page, live_server: LiveServer, execution: Execution, width: int
) -> None:
    write_lines(execution, 3)
    still.set_viewport_size({"width": width, "height": 900})
    still.goto(f"{live_server.url}/deployments/{execution.pk}/")
    for name, title in zip(PANELS, ("Log", "Outputs", "AWS calls", "Rollback checklist"), strict=True):
        still.get_by_role("tab", name=title).click()
        for other in PANELS:
            expect(still.locator(f"#panel-{other}")).to_be_visible(visible=other == name)
        expect(still.get_by_role("tab", name=title)).to_have_attribute("aria-selected", "true")
        expect(still.get_by_text("No lines yet")).to_be_hidden()
        assert still.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_the_last_lines_are_read_and_the_others_are_one_link_away(
    still: Page, live_server: LiveServer, execution: Execution
) -> None:
    last = write_lines(execution, 450)
    still.goto(f"{live_server.url}/deployments/{execution.pk}/")
    expect(still.locator(".log-row")).to_have_count(200)
    expect(still.locator(f"#L{last}")).to_contain_text("text 449")
    height = still.locator("[data-log-scroll]").evaluate("area => area.clientHeight")
    assert height > 200, "The lines have no room without the toolbar."
    expect(still.get_by_role("button", name="Match case")).to_be_hidden()
    still.get_by_role("link", name="Show the whole log as plain text").click()
    expect(still.locator("body")).to_contain_text("text 0")


@pytest.mark.parametrize("width", [1500, 390])
def test_the_log_is_searched_from_match_to_match(
    still: Page, live_server: LiveServer, execution: Execution, width: int
) -> None:
    last = write_lines(execution, 450)
    still.set_viewport_size({"width": width, "height": 900})
    still.goto(f"{live_server.url}/deployments/{execution.pk}/")
    still.get_by_label("Search in the log").fill("text 44")
    still.get_by_role("button", name="Search", exact=True).click()
    expect(still.get_by_text("11 matches")).to_be_visible()
    still.get_by_role("link", name=str(last - 9), exact=True).click()
    expect(still.locator(".log-row.picked")).to_contain_text("text 440")
    still.get_by_role("link", name="Next match").click()
    expect(still.locator(".log-row.picked mark")).to_be_in_viewport()
    expect(still.get_by_text("Match 3 of 11")).to_be_visible()
    assert still.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_a_log_without_lines_says_so(still: Page, live_server: LiveServer, execution: Execution) -> None:
    Execution.objects.filter(pk=execution.pk).update(next_line_number=1)
    still.goto(f"{live_server.url}/deployments/{execution.pk}/")
    expect(still.get_by_text("No lines yet")).to_be_visible()


def test_the_error_of_a_call_is_seen(still: Page, live_server: LiveServer, execution: Execution) -> None:
    step = StepExecution.objects.filter(stage__execution=execution, actions__isnull=False).earliest("pk")
    AwsCall.objects.create(
        execution=execution,
        step=step,
        action=step.actions.earliest("pk"),
        attempt=1,
        phase="start",
        number=0,
        service="ecs",
        operation="UpdateService",
        is_write=True,
        params_hash="0",
        parameters="{}",
        planned_at=AT,
        state="FAILED",
        error={"code": "AccessDenied", "message": "no"},
    )
    still.goto(f"{live_server.url}/deployments/{execution.pk}/?tab=calls")
    expect(still.get_by_text("AccessDenied: no")).to_be_visible()
