"""The timeline in a browser: a click on what happened opens the log at that line."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from deployments.log import NewLogLine, store_lines
from deployments.models import Execution, StepExecution
from steps.states import Status
from tests.browser.conftest import Visit
from tests.browser.fake_execution_socket import Wire, line

pytestmark = pytest.mark.browser
LINES = 400
EARLIEST = 30


@pytest.fixture
def step(execution: Execution) -> StepExecution:
    """A step that began when line 30 of 400 was written, and still runs."""
    start = timezone.now() - timedelta(minutes=10)
    step = StepExecution.objects.filter(stage__execution=execution).order_by("section", "position")[0]
    Execution.objects.filter(pk=execution.pk).update(
        created_at=start, started_at=start, status=Status.RUNNING
    )
    StepExecution.objects.filter(pk=step.pk).update(
        started_at=start + timedelta(seconds=EARLIEST), status=Status.RUNNING
    )
    execution.refresh_from_db()
    first = execution.next_line_number
    store_lines(
        execution.pk,
        [
            NewLogLine(
                start + timedelta(seconds=number), step.pk, step.identifier, "", "info", f"line {number}"
            )
            for number in range(first, LINES + 1)
        ],
    )
    return step


@pytest.fixture
def log(wire: Wire) -> Wire:
    wire.log = [line(number) for number in range(1, LINES + 1)]
    return wire


@pytest.mark.parametrize("place", ["chart", "table"])
def test_a_click_opens_the_log_at_that_line(
    page: Page, visit: Visit, step: StepExecution, execution: Execution, log: Wire, place: str
) -> None:
    visit(f"/deployments/{execution.pk}/timeline/")
    bar = page.locator("svg a", has=page.locator("rect.step > title", has_text=step.name))
    entry = page.get_by_role("row", name=step.name).get_by_role("link", name=re.compile("^line "))
    (bar if place == "chart" else entry).first.click()
    expect(page).to_have_url(
        re.compile(rf"/deployments/{execution.pk}/\?step={step.identifier}&line=\d+#L\d+$")
    )
    expect(page.locator("[data-connection]")).to_have_text("Live")
    number = int(page.url.rpartition("#L")[2])
    assert number >= EARLIEST
    log.send_lines(*log.log)
    expect(page.locator(f"[data-n='{number}']")).to_be_in_viewport()


def test_a_narrow_window_scrolls_the_chart_and_not_the_page(
    page: Page, visit: Visit, step: StepExecution, execution: Execution
) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    visit(f"/deployments/{execution.pk}/timeline/")
    expect(page.get_by_role("region", name=re.compile("^Chart of the timeline"))).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
