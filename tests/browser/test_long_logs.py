"""A log of which the page has only the newest lines: others are searched, shown and copied all the same."""

import re

import pytest
from playwright.sync_api import Page, expect

from deployments.models import Execution
from tests.browser.conftest import ROW_NUMBERS, Visit
from tests.browser.fake_execution_socket import Wire, line
from tests.fixtures.processes import wait_until

pytestmark = pytest.mark.browser


@pytest.fixture
def long(page: Page, visit: Visit, execution: Execution, wire: Wire) -> Wire:
    """A log of thirty thousand lines, of which the page has the newest."""
    levels = {500: "error", 501: "error", 9_000: "error"}
    wire.log = [
        line(number, f"needle {number}" if number % 5000 == 0 else "", levels.get(number, "info"))
        for number in range(1, 30_001)
    ]
    Execution.objects.filter(pk=execution.pk).update(next_line_number=30_001)
    wire.state = {**wire.state, "last_line": 30_000}
    visit(f"/deployments/{execution.pk}/")
    expect(page.locator("[data-connection]")).to_have_text("Live")
    wire.send_lines(*wire.log[29_500:])
    wait_until(lambda: page.evaluate("window.slipway.pane.lines.count") >= 20_000, "the newest lines")
    return wire


def test_old_lines_are_loaded_when_somebody_looks_there(page: Page, long: Wire) -> None:
    page.wait_for_timeout(300)
    assert min(long.requested_positions) >= 9_000
    page.evaluate("window.slipway.pane.toLine(10)")
    expect(page.locator("[data-n='10'] .x")).to_have_text("line 10")
    assert 0 in long.requested_positions


def test_search_finds_what_is_not_loaded(page: Page, long: Wire) -> None:
    page.locator("[data-log-search]").fill("needle")
    expect(page.locator("[data-log-hits]")).to_have_text("6 matches")
    assert long.searched[0] == {"q": "needle", "after": "0"}
    expect(page).to_have_url(re.compile("find=needle"))
    page.evaluate("window.slipway.pane.search.at = 1")
    page.keyboard.press("Shift+Enter")
    expect(page.locator(".log-row.hit mark")).to_have_text("needle")
    expect(page.locator(".log-row.hit")).to_have_attribute("data-n", "5000")


def test_a_filter_shows_what_is_not_loaded(page: Page, long: Wire) -> None:
    page.locator("[data-log-level]").select_option("errors")
    expect(page.locator("[data-n='9000'] .x")).to_contain_text("line 9000")
    expect(page.locator("[data-n='500'] .x")).to_contain_text("line 500")
    assert page.evaluate(ROW_NUMBERS) == [500, 501, 9000]
    expect(page).to_have_url(re.compile("level=errors"))


def test_a_search_without_an_answer_is_not_taken_for_one_without_a_match(
    page: Page, long: Wire, complaints: list[str]
) -> None:
    page.route(re.compile("/log/search"), lambda route: route.fulfill(status=503, body="{}"))
    page.locator("[data-log-search]").fill("needle 5000")
    expect(page.locator("[data-log-hits]")).to_have_text("0+, search failed")
    page.locator("[data-log-search]").fill("")
    page.locator("[data-log-level]").select_option("errors")
    empty = page.locator("[data-log-empty]")
    expect(empty).to_have_text("The log could not be searched. Choose the filter again.")
    page.evaluate("window.slipway.pane.nextFailure()")
    expect(page.locator("#announcer")).to_have_text("The log could not be searched. Try again.")
    assert all("503" in complaint for complaint in complaints)
    complaints.clear()


def test_a_filter_loads_only_the_lines_that_it_shows(page: Page, long: Wire) -> None:
    count = len(long.requested_positions)
    page.locator("[data-log-level]").select_option("errors")
    expect(page.locator("[data-n='9000'] .x")).to_contain_text("line 9000")
    expect(page.locator("[data-n='500'] .x")).to_contain_text("line 500")
    page.wait_for_timeout(500)
    assert sorted(long.requested_positions[count:]) == [0, 8000]


def test_the_next_failure_may_be_far_up(page: Page, long: Wire) -> None:
    page.locator("[data-log-scroll]").focus()
    page.keyboard.press("f")
    expect(page.locator("[data-n='500']")).to_have_class("log-row error picked")
    page.keyboard.press("f")
    expect(page.locator("[data-n='9000']")).to_have_class("log-row error picked")


def test_picked_lines_are_copied_though_they_were_not_loaded(page: Page, long: Wire) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("window.slipway.pane.pick([2990, 3010])")
    page.locator("[data-log-copy]").click()
    expect(page.get_by_text("21 lines copied")).to_be_attached()
    copied = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert copied == [f"line {number}" for number in range(2990, 3000)] + ["line 3000"] + [
        f"line {number}" for number in range(3001, 3011)
    ]


def test_picked_lines_are_copied_though_the_server_sends_few_at_a_time(page: Page, long: Wire) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    long.most_lines = 100
    page.evaluate("window.slipway.pane.display.picked = [2900, 2904]")
    page.locator("[data-log-copy]").click()
    expect(page.get_by_text("5 lines copied")).to_be_attached()
    copied = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert copied == [f"line {number}" for number in range(2900, 2905)]


def test_a_selection_is_copied_up_to_a_line_that_cannot_be_loaded(page: Page, long: Wire) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    long.log = long.log[:2_002]
    page.evaluate("window.slipway.pane.display.picked = [2_000, 9_900]")
    page.locator("[data-log-copy]").click()
    expect(page.get_by_text("3 lines copied; line 2,003 could not be loaded")).to_be_attached()


def test_a_selection_is_copied_up_to_the_end_of_the_log(
    page: Page, visit: Visit, execution: Execution, wire: Wire
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    wire.log = [line(number) for number in range(1, 11)]
    Execution.objects.filter(pk=execution.pk).update(next_line_number=11)
    visit(f"/deployments/{execution.pk}/#L9-L999999999")
    expect(page.locator("[data-n='9']")).to_have_class("log-row info picked")
    page.locator("[data-log-copy]").click()
    expect(page.get_by_text("2 lines copied")).to_be_attached()
    assert page.evaluate("navigator.clipboard.readText()") == "line 9\nline 10\n"
    assert set(wire.requested_positions) == {0}
