"""The log pane: every line once and in order, few nodes, and nothing in a line is ever run."""

import re

import pytest
from playwright.sync_api import Page, expect

from deployments.log import NewLogLine, store_lines
from deployments.models import Execution
from tests.browser.conftest import ROW_NUMBERS, Visit
from tests.browser.fake_execution_socket import Wire, line
from tests.deployments.log.conftest import AT

pytestmark = pytest.mark.browser
MOST_NODES = 1500
TEXTS = "[...document.querySelectorAll('.log-row .x')].map(row => row.textContent)"
FILL = """count => {
    const at = "2026-11-21T10:00:00.000000+00:00";
    const kind = { at, step: "s", unit: "u", level: "info" };
    const lines = Array.from({ length: count }, (_, index) => (
        { ...kind, number: index + 1, text: `line ${index + 1} of a long log` }));
    window.slipway.pane.add(lines);
}"""


@pytest.fixture
def opened(page: Page, visit: Visit, execution: Execution, wire: Wire) -> Wire:
    visit(f"/deployments/{execution.pk}/")
    expect(page.locator("[data-connection]")).to_have_text("Live")
    return wire


def test_a_hundred_thousand_lines_need_few_nodes(page: Page, opened: Wire) -> None:
    page.evaluate(FILL, 100_000)
    expect(page.locator("[data-log-summary]")).to_have_text("100,000 lines")
    expect(page.locator(".log-row").last).to_contain_text("line 100000 of")
    assert page.evaluate("document.querySelectorAll('[data-log] *').length") < MOST_NODES

    page.evaluate("document.querySelector('[data-log-scroll]').scrollTop = 1_000_000")
    expect(page.locator("[data-n='50001']")).to_be_attached()
    assert page.evaluate("document.querySelectorAll('[data-log] *').length") < MOST_NODES


def test_lines_that_would_be_forgotten_again_are_not_fetched(page: Page, opened: Wire) -> None:
    page.evaluate(FILL, 199_437)
    page.evaluate("window.slipway.pane.expect(200_001)")
    assert page.evaluate("window.slipway.pane.lines.newestHole()") is None


def test_a_million_lines_end_where_the_list_ends(page: Page, opened: Wire) -> None:
    page.evaluate("() => { window.slipway.pane.expect(1_000_000); window.slipway.pane.onNeed = () => {}; }")
    page.evaluate("window.slipway.pane.follow(true)")
    expect(page.locator(".log-row").last).to_have_attribute("data-n", "1000000")
    assert page.evaluate("document.querySelector('.log-space').offsetHeight") <= 15_000_000


def test_lines_of_the_server_stay_until_the_script_has_its_own(
    page: Page, visit: Visit, execution: Execution, wire: Wire
) -> None:
    store_lines(
        execution.pk, [NewLogLine(AT, None, "s", "u", "info", f"old {count}") for count in range(300)]
    )
    execution.refresh_from_db()
    visit(f"/deployments/{execution.pk}/")
    expect(page.locator("[data-connection]")).to_have_text("Live")
    last = execution.next_line_number - 1
    expect(page.locator(f"#L{last}")).to_be_in_viewport()
    expect(page.get_by_text("No lines yet")).to_be_hidden()
    wire.send_lines(line(last, "fresh"))
    expect(page.locator("[data-log-served]")).to_have_count(0)
    expect(page.locator(f"[data-n='{last}'] .x")).to_have_text("fresh")


def test_a_gap_is_asked_for_over_http(page: Page, opened: Wire) -> None:
    opened.log = [line(number) for number in range(1, 11)]
    opened.send_lines(*opened.log[:5])
    opened.send_lines(*opened.log[8:])
    expect(page.locator("[data-n='7'] .x")).to_have_text("line 7")
    assert opened.requested_positions == [5]
    assert page.evaluate(ROW_NUMBERS) == list(range(1, 11))


def test_lines_that_came_before_are_dropped(page: Page, opened: Wire) -> None:
    opened.log = [line(number) for number in range(1, 4)]
    opened.send_lines(*opened.log)
    opened.send_lines(*opened.log[1:], line(4))
    expect(page.locator("[data-n='4']")).to_be_attached()
    assert page.evaluate(TEXTS) == ["line 1", "line 2", "line 3", "line 4"]


def test_a_lost_socket_comes_back_and_misses_nothing(page: Page, opened: Wire) -> None:
    opened.log = [line(number) for number in range(1, 4)]
    opened.send_lines(*opened.log)
    expect(page.locator("[data-n='3']")).to_be_attached()
    opened.log += [line(4), line(5)]

    page.evaluate("window.slipway.live.drop()")
    expect(page.locator("[data-connection]")).to_have_text("Reconnecting")
    expect(page.locator("[data-connection]")).to_have_text("Live")
    expect(page.locator("[data-n='5']")).to_be_attached()
    assert opened.connected == [0, 3]
    assert page.evaluate(ROW_NUMBERS) == [1, 2, 3, 4, 5]


def test_without_sockets_the_page_asks_again_and_again(
    page: Page, visit: Visit, execution: Execution, wire: Wire
) -> None:
    wire.refuses = True
    wire.log = [line(1), line(2)]
    visit(f"/deployments/{execution.pk}/")
    expect(page.locator("[data-connection]")).to_have_text("Polling", timeout=15_000)
    expect(page.locator("[data-n='2']")).to_be_attached()


def test_markup_in_a_line_stays_text(page: Page, opened: Wire) -> None:
    canaries = ["<img src=x onerror=alert(1)>", "{{7*7}}", "<script>alert(1)</script>", "javascript:alert(1)"]
    page.on("dialog", lambda dialog: pytest.fail(f"a line was run: {dialog.message}"))
    opened.send_lines(*(line(index + 1, text) for index, text in enumerate(canaries)))
    expect(page.locator("[data-n='4']")).to_be_attached()
    assert page.evaluate(TEXTS) == canaries
    assert page.evaluate("document.querySelectorAll('.log-row img, .log-row script').length") == 0


def test_colours_become_classes_and_other_controls_become_signs(page: Page, opened: Wire) -> None:
    texts = [
        "\x1b[1;31mred\x1b[0m plain \x1b[92mgreen",
        "\x1b]8;;https://evil.example\x07link\x1b]8;;\x07",
        "up\x1b[2Jclear",
        "bell\x07 nul\x00",
        "abc\u202edcba\u202c",
        "\x1b[38;5;200mcube \x1b[38;2;1;2;3mtrue \x1b[<script>",
        "see \x1b]8;;https://evil.example\ufffdthe link\x1b]8;;\ufffd of the server",
        "\x1b]0;never closed",
        "one\u2028two\u061c",
    ]
    opened.send_lines(*(line(index + 1, text) for index, text in enumerate(texts)))
    expect(page.locator("[data-n='9']")).to_be_attached()
    assert page.evaluate(TEXTS) == [
        "red plain green",
        "link",
        "upclear",
        "bell\u2407 nul\u2400",
        "abc\u27e8U+202E\u27e9dcba\u27e8U+202C\u27e9",
        "cube true cript>",
        "see the link of the server",
        "\u241b]0;never closed",
        "one\u27e8U+2028\u27e9two\u27e8U+061C\u27e9",
    ]
    assert page.locator("[data-n='1'] .a1.b").inner_text() == "red"
    assert page.locator("[data-n='1'] .a10").inner_text() == "green"
    assert page.locator(".log-row a[href*='evil']").count() == 0


def test_scrolling_up_ends_following_and_says_what_is_new(page: Page, opened: Wire) -> None:
    page.evaluate(FILL, 500)
    expect(page.locator("[data-n='500']")).to_be_attached()
    page.locator("[data-log-scroll]").hover()
    page.mouse.wheel(0, -2000)
    expect(page.locator("[data-log-follow]")).to_have_attribute("aria-pressed", "false")
    opened.send_lines(line(501), line(502))
    expect(page.locator("[data-log-more]")).to_have_text("2 new lines")

    page.keyboard.press("End")
    expect(page.locator("[data-log-follow]")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("[data-log-more]")).to_be_hidden()
    expect(page.locator("[data-n='502']")).to_be_in_viewport()


def test_a_link_to_lines_loads_and_picks_them(
    page: Page, visit: Visit, execution: Execution, wire: Wire
) -> None:
    wire.log = [line(number) for number in range(1, 2501)]
    Execution.objects.filter(pk=execution.pk).update(next_line_number=2501)
    visit(f"/deployments/{execution.pk}/#L120-L122")
    expect(page.locator("[data-n='121'] .x")).to_have_text("line 121")
    expect(page.locator(".log-row.picked")).to_have_count(3)
    expect(page.locator("[data-n='120']")).to_be_in_viewport()
    expect(page.locator("[data-log-follow]")).to_have_attribute("aria-pressed", "false")
    # What was there when the page was opened is not new.
    wire.send_lines(*wire.log[1500:])
    expect(page.locator("[data-log-summary]")).to_have_text("2,500 lines")
    expect(page.locator("[data-log-more]")).to_be_hidden()


def test_an_address_with_a_text_opens_the_log_at_its_first_match(
    page: Page, visit: Visit, execution: Execution, wire: Wire
) -> None:
    wire.log = [line(number, "needle" if number in (700, 2_400) else "") for number in range(1, 2_501)]
    Execution.objects.filter(pk=execution.pk).update(next_line_number=2_501)
    visit(f"/deployments/{execution.pk}/?find=needle")
    wire.send_lines(*wire.log[1500:])
    expect(page.locator("[data-n='700'] mark")).to_have_text("needle")
    expect(page.locator("[data-n='700']")).to_be_in_viewport()
    expect(page.locator("[data-log-hits]")).to_have_text("2 matches")
    expect(page.locator("[data-log-search]")).to_have_value("needle")
    expect(page.locator("[data-log-follow]")).to_have_attribute("aria-pressed", "false")


def test_an_address_with_a_line_opens_the_log_there_until_another_line_is_picked(
    page: Page, visit: Visit, execution: Execution, wire: Wire
) -> None:
    wire.log = [line(number) for number in range(1, 2_501)]
    Execution.objects.filter(pk=execution.pk).update(next_line_number=2_501)
    visit(f"/deployments/{execution.pk}/?line=120")
    expect(page.locator("[data-n='120']")).to_have_class("log-row info picked")
    expect(page.locator("[data-n='120']")).to_be_in_viewport()
    expect(page.locator("[data-log-follow]")).to_have_attribute("aria-pressed", "false")
    page.locator("[data-n='122'] a").click()
    expect(page).to_have_url(re.compile(f"/{execution.pk}/#L122$"))


def test_picking_lines_puts_them_in_the_address(page: Page, opened: Wire) -> None:
    opened.send_lines(*(line(number) for number in range(1, 11)))
    page.locator("[data-n='3'] a").click()
    page.locator("[data-n='6'] a").click(modifiers=["Shift"])
    expect(page.locator(".log-row.picked")).to_have_count(4)
    expect(page).to_have_url(re.compile("#L3-L6$"))


def test_keys_select_lines_and_bring_them_into_sight(page: Page, opened: Wire) -> None:
    opened.send_lines(*(line(number, f"text {number}") for number in range(1, 201)))
    page.locator("[data-n='200'] a").click()
    for _ in range(40):
        page.keyboard.press("k")
    expect(page).to_have_url(re.compile("#L160$"))
    expect(page.locator("[data-n='160']")).to_be_in_viewport()
    page.keyboard.press("K")
    page.keyboard.press("J")
    expect(page).to_have_url(re.compile("#L159-L161$"))
    expect(page.locator(".log-row.picked")).to_have_count(3)
    expect(page.locator("#announcer")).to_have_text("Line 161: text 161")
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile("#L162$"))


def test_keys_select_only_the_lines_that_a_filter_shows(page: Page, opened: Wire) -> None:
    opened.send_lines(
        *(line(number, level="error" if number % 10 == 0 else "info") for number in range(1, 101))
    )
    page.locator("[data-n='92'] a").click()
    page.locator("[data-log-level]").select_option("problems")
    page.locator("[data-log-scroll]").focus()
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile("#L100$"))
    page.keyboard.press("k")
    expect(page).to_have_url(re.compile("#L90$"))


def test_search_finds_marks_and_walks(page: Page, opened: Wire) -> None:
    opened.send_lines(
        *(line(number, f"needle {number}" if number % 100 == 0 else "") for number in range(1, 501))
    )
    page.keyboard.press("/")
    page.keyboard.type("NEEDLE")
    expect(page.locator("[data-log-hits]")).to_have_text("5 matches")
    page.keyboard.press("Enter")
    page.keyboard.press("Shift+Enter")
    expect(page.locator("[data-log-hits]")).to_contain_text("/5")
    expect(page.locator(".log-row.hit mark")).to_have_text("needle")

    page.locator("[data-log-case]").click()
    expect(page.locator("[data-log-hits]")).to_have_text("0 matches")


def test_wrapped_lines_are_counted_at_their_height(page: Page, opened: Wire) -> None:
    opened.send_lines(*(line(number, "long " * 100 if number % 2 else "short") for number in range(1, 1001)))
    expect(page.locator("[data-log-wrap]")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("[data-n='1000']")).to_be_in_viewport()
    page.evaluate("window.slipway.pane.toLine(500)")
    expect(page.locator("[data-n='500']")).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(
    ("width", "query", "wraps"),
    [(1280, "", "true"), (1400, "", "false"), (1280, "?wrap=0", "false"), (1400, "?wrap=1", "true")],
)
def test_lines_wrap_in_a_narrow_window_unless_the_address_says_otherwise(
    page: Page, visit: Visit, execution: Execution, wire: Wire, width: int, query: str, wraps: str
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    visit(f"/deployments/{execution.pk}/{query}")
    expect(page.locator("[data-log-wrap]")).to_have_attribute("aria-pressed", wraps)


def test_the_reader_decides_for_good_whether_lines_wrap(
    page: Page, visit: Visit, execution: Execution, opened: Wire
) -> None:
    page.locator("[data-log-wrap]").click()
    expect(page).to_have_url(re.compile("wrap=0"))
    visit(f"/deployments/{execution.pk}/")
    expect(page.locator("[data-log-wrap]")).to_have_attribute("aria-pressed", "false")


def test_only_problems_can_be_shown(page: Page, opened: Wire) -> None:
    levels = {7: "warning", 9: "error"}
    opened.send_lines(*(line(number, level=levels.get(number, "info")) for number in range(1, 21)))
    page.locator("[data-log-level]").select_option("problems")
    expect(page.locator(".log-row")).to_have_count(2)
    opened.send_lines(line(21, level="error"), line(22))
    expect(page.locator(".log-row")).to_have_count(3)
    assert page.evaluate(ROW_NUMBERS) == [7, 9, 21]


def test_a_failure_stops_following_at_its_first_error(page: Page, opened: Wire) -> None:
    opened.send_lines(*(line(number, level="error" if number == 40 else "info") for number in range(1, 301)))
    failure = {"code": "X", "message": "It broke", "step": "s", "container": None, "exit_code": None}
    opened.change(status="FAILED", failure=failure)
    expect(page.locator("[data-n='40']")).to_be_in_viewport()
    expect(page.locator("[data-n='40']")).to_have_class("log-row error picked")
    expect(page.locator("[data-log-follow]")).to_have_attribute("aria-pressed", "false")


@pytest.fixture
def failed(execution: Execution, wire: Wire) -> Wire:
    """A failed execution of three hundred lines whose first error is line 40."""
    wire.log = [line(number, level="error" if number in (40, 41, 90) else "info") for number in range(1, 301)]
    failure = {"code": "X", "message": "It broke", "step": "s", "container": None, "exit_code": None}
    failure["advice"] = "Mend <it>."
    Execution.objects.filter(pk=execution.pk).update(
        status="FAILED", outcome="FAILED", failure=failure, next_line_number=301, ended_at=AT
    )
    return wire


def test_a_failed_execution_opened_later_starts_at_its_first_error(
    page: Page, visit: Visit, execution: Execution, failed: Wire
) -> None:
    visit(f"/deployments/{execution.pk}/")
    expect(page.locator("[data-n='40']")).to_have_class("log-row error picked")
    failed.send_lines(*failed.log)
    expect(page.locator("[data-n='39']")).to_be_attached()
    expect(page.locator("[data-x-notices] .advice")).to_have_text("What to do: Mend <it>.")
    expect(page.locator("[data-n='40']")).to_be_in_viewport()
    expect(page.locator("[data-log-follow]")).to_have_attribute("aria-pressed", "false")


def test_a_failed_execution_whose_log_is_opened_last_starts_at_its_first_error(
    page: Page, visit: Visit, execution: Execution, failed: Wire
) -> None:
    visit(f"/deployments/{execution.pk}/?tab=outputs")
    expect(page.locator("[data-connection]")).to_have_text("Live")
    failed.send_lines(*failed.log)
    page.get_by_role("tab", name="Log", exact=True).click()
    expect(page.locator("[data-n='40']")).to_be_in_viewport()


def test_lines_in_the_address_come_before_the_first_error(
    page: Page, visit: Visit, execution: Execution, failed: Wire
) -> None:
    visit(f"/deployments/{execution.pk}/#L200")
    expect(page.locator("[data-connection]")).to_have_text("Live")
    expect(page.locator("[data-n='200']")).to_be_in_viewport()
    page.wait_for_timeout(300)
    expect(page.locator(".log-row.picked")).to_have_attribute("data-n", "200")


def test_the_end_is_said(page: Page, opened: Wire) -> None:
    opened.log = [line(1)]
    opened.state = {**opened.state, "status": "SUCCESS", "outcome": "COMPLETED", "last_line": 1}
    opened.send_lines(*opened.log)
    opened.end()
    expect(page.locator("[data-connection]")).to_have_text("Ended")
    expect(page.locator("[data-x-status]")).to_have_text("Success")


FAR_ERRORS = """() => {
    const { pane } = window.slipway;
    const errors = [5, 250_000, 399_999];
    window.needed = [];
    pane.onFind = async () => ({ numbers: errors, next: null });
    pane.onNeed = async (number) => {
        window.needed.push(number);
        await new Promise((resolve) => setTimeout(resolve, 10));
        const first = Math.floor((number - 1) / 1000) * 1000 + 1;
        pane.add(Array.from({ length: 1000 }, (_, index) => {
            const [number, level] = [first + index, errors.includes(first + index) ? "error" : "info"];
            return { number, at: 0, step: "s", unit: "u", level, text: `line ${number}` };
        }));
    };
    pane.expect(400_000);
}"""


def test_an_error_line_that_is_loaded_again_counts_once(page: Page, opened: Wire) -> None:
    page.evaluate(FAR_ERRORS)
    page.evaluate("window.slipway.pane.onNeed(5)")
    expect(page.locator("[data-log-summary]")).to_have_text("400,000 lines, 2+ errors")
    for first in range(0, 201):
        page.evaluate("number => window.slipway.pane.onNeed(number)", 190_000 + 1000 * first + 1)
    assert page.evaluate("window.slipway.pane.lines.get(5)") is None
    page.evaluate("window.slipway.pane.onNeed(5)")
    expect(page.locator("[data-log-summary]")).to_have_text("400,000 lines, 3+ errors")


def test_a_filter_of_a_very_long_log_ends_loading(page: Page, opened: Wire) -> None:
    page.evaluate(FILL, 199_437)
    page.evaluate(FAR_ERRORS)
    page.locator("[data-log-level]").select_option("errors")
    for number in (250_000, 399_999):
        expect(page.locator(f"[data-n='{number}'] .x")).to_contain_text(f"line {number}")
    page.wait_for_timeout(500)
    # The end of the log is in sight before the filter.
    assert sorted({number for number in page.evaluate("window.needed") if number < 399_900}) == [5, 250_000]
    assert len(page.evaluate("window.needed")) < 10
    assert page.evaluate("window.slipway.pane.lines.count") <= 200_000


def test_lines_that_were_skipped_are_asked_for(page: Page, opened: Wire) -> None:
    opened.log = [line(number) for number in range(1, 41)]
    opened.send_lines(*opened.log[:5])
    opened.skip(6, 30)
    opened.send_lines(*opened.log[30:])
    expect(page.locator("[data-n='20'] .x")).to_have_text("line 20")
    expect(page.locator("[data-n='40'] .x")).to_have_text("line 40")
    assert opened.requested_positions == [5]


def test_the_first_new_line_is_marked_until_the_reader_follows_again(page: Page, opened: Wire) -> None:
    opened.send_lines(*(line(number) for number in range(1, 11)))
    page.locator("[data-log-follow]").click()
    opened.send_lines(line(11), line(12))
    expect(page.locator(".log-row.new-from")).to_have_attribute("data-n", "11")
    page.locator("[data-log-follow]").click()
    expect(page.locator(".log-row.new-from")).to_have_count(0)


def test_how_the_log_is_shown_stands_in_the_address(
    page: Page, visit: Visit, execution: Execution, wire: Wire
) -> None:
    visit(f"/deployments/{execution.pk}/?find=two&case=1&origin=aws&time=utc&wrap=1")
    expect(page.locator("[data-connection]")).to_have_text("Live")
    wire.send_lines(line(1, "One"), {**line(2, "two"), "origin": "aws"}, {**line(3, "Two"), "origin": "aws"})
    expect(page.locator(".log-row")).to_have_count(2)
    expect(page.locator("[data-log-hits]")).to_have_text("1 match")
    expect(page.locator("[data-log-origin]")).to_have_value("aws")
    expect(page.locator("[data-log-time]")).to_have_text("UTC")
    expect(page.locator("[data-log-wrap]")).to_have_attribute("aria-pressed", "true")


def test_a_unit_is_folded_and_opened_again(page: Page, opened: Wire) -> None:
    opened.send_lines(*(line(number, unit="Fetch" if number <= 5 else "Deploy") for number in range(1, 11)))
    page.get_by_role("button", name="Fold Fetch").click()
    expect(page.locator("[data-n='2']")).to_have_count(0)
    expect(page.locator("[data-n='1'] .x")).to_have_text("line 1 … 4 more")
    assert page.evaluate(ROW_NUMBERS) == [1, 6, 7, 8, 9, 10]

    opened.send_lines(line(11), line(12))
    expect(page.locator("[data-n='12']")).to_be_attached()
    page.get_by_role("button", name="Unfold Fetch").click()
    expect(page.locator(".log-row")).to_have_count(12)


def test_a_link_into_a_folded_unit_opens_it(page: Page, opened: Wire) -> None:
    opened.send_lines(*(line(number, unit="Fetch" if number <= 5 else "Deploy") for number in range(1, 11)))
    page.get_by_role("button", name="Fold Fetch").click()
    expect(page.locator(".log-row")).to_have_count(6)
    page.evaluate("location.hash = '#L3'")
    expect(page.locator("[data-n='3']")).to_have_class("log-row info picked")
