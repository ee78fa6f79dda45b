"""The log pane: every line once and in order, few nodes, and nothing in a line is ever run."""

import pytest
from playwright.sync_api import Page, expect

from deployments.models import Execution
from tests.browser.conftest import Visit
from tests.browser.wire import Wire, line

pytestmark = pytest.mark.browser
MOST_NODES = 1500
TEXTS = "[...document.querySelectorAll('.log-row .x')].map(row => row.textContent)"
NUMBERS = "[...document.querySelectorAll('.log-row')].map(row => Number(row.dataset.n))"
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


def test_a_million_lines_end_where_the_list_ends(page: Page, opened: Wire) -> None:
    page.evaluate("() => { window.slipway.pane.expect(1_000_000); window.slipway.pane.onNeed = () => {}; }")
    page.evaluate("window.slipway.pane.follow(true)")
    expect(page.locator(".log-row").last).to_have_attribute("data-n", "1000000")
    assert page.evaluate("document.querySelector('.log-space').offsetHeight") <= 15_000_000


def test_a_gap_is_asked_for_over_http(page: Page, opened: Wire) -> None:
    opened.log = [line(number) for number in range(1, 11)]
    opened.tell(*opened.log[:5])
    opened.tell(*opened.log[8:])
    expect(page.locator("[data-n='7'] .x")).to_have_text("line 7")
    assert opened.asked == [5]
    assert page.evaluate(NUMBERS) == list(range(1, 11))


def test_lines_that_came_before_are_dropped(page: Page, opened: Wire) -> None:
    opened.log = [line(number) for number in range(1, 4)]
    opened.tell(*opened.log)
    opened.tell(*opened.log[1:], line(4))
    expect(page.locator("[data-n='4']")).to_be_attached()
    assert page.evaluate(TEXTS) == ["line 1", "line 2", "line 3", "line 4"]


def test_a_lost_socket_comes_back_and_misses_nothing(page: Page, opened: Wire) -> None:
    opened.log = [line(number) for number in range(1, 4)]
    opened.tell(*opened.log)
    expect(page.locator("[data-n='3']")).to_be_attached()
    opened.log += [line(4), line(5)]

    page.evaluate("window.slipway.live.drop()")
    expect(page.locator("[data-connection]")).to_have_text("Reconnecting")
    expect(page.locator("[data-connection]")).to_have_text("Live")
    expect(page.locator("[data-n='5']")).to_be_attached()
    assert opened.connected == [0, 3]
    assert page.evaluate(NUMBERS) == [1, 2, 3, 4, 5]


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
    opened.tell(*(line(index + 1, text) for index, text in enumerate(canaries)))
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
    ]
    opened.tell(*(line(index + 1, text) for index, text in enumerate(texts)))
    expect(page.locator("[data-n='6']")).to_be_attached()
    assert page.evaluate(TEXTS) == [
        "red plain green",
        "link",
        "upclear",
        "bell\u2407 nul\u2400",
        "abc\u27e8U+202E\u27e9dcba\u27e8U+202C\u27e9",
        "cube true cript>",
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
    opened.tell(line(501), line(502))
    expect(page.locator("[data-log-more]")).to_have_text("2 new lines")

    page.keyboard.press("End")
    expect(page.locator("[data-log-follow]")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("[data-log-more]")).to_be_hidden()
    expect(page.locator("[data-n='502']")).to_be_in_viewport()


def test_a_link_to_lines_loads_and_picks_them(
    page: Page, visit: Visit, execution: Execution, wire: Wire
) -> None:
    wire.log = [line(number) for number in range(1, 2501)]
    Execution.objects.filter(pk=execution.pk).update(log_next=2501)
    visit(f"/deployments/{execution.pk}/#L120-L122")
    expect(page.locator("[data-n='121'] .x")).to_have_text("line 121")
    expect(page.locator(".log-row.picked")).to_have_count(3)
    expect(page.locator("[data-n='120']")).to_be_in_viewport()
    expect(page.locator("[data-log-follow]")).to_have_attribute("aria-pressed", "false")


def test_picking_lines_puts_them_in_the_address(page: Page, opened: Wire) -> None:
    opened.tell(*(line(number) for number in range(1, 11)))
    page.locator("[data-n='3'] a").click()
    page.locator("[data-n='6'] a").click(modifiers=["Shift"])
    expect(page.locator(".log-row.picked")).to_have_count(4)
    assert page.url.endswith("#L3-L6")


def test_search_finds_marks_and_walks(page: Page, opened: Wire) -> None:
    opened.tell(*(line(number, f"needle {number}" if number % 100 == 0 else "") for number in range(1, 501)))
    page.keyboard.press("/")
    page.keyboard.type("NEEDLE")
    expect(page.locator("[data-log-hits]")).to_have_text("5 hits")
    page.keyboard.press("Enter")
    page.keyboard.press("Shift+Enter")
    expect(page.locator("[data-log-hits]")).to_contain_text("/5")
    expect(page.locator(".log-row.hit mark")).to_have_text("needle")

    page.locator("[data-log-case]").click()
    expect(page.locator("[data-log-hits]")).to_have_text("0 hits")


def test_wrapped_lines_are_counted_at_their_height(page: Page, opened: Wire) -> None:
    opened.tell(*(line(number, "long " * 100 if number % 2 else "short") for number in range(1, 1001)))
    page.locator("[data-log-wrap]").click()
    expect(page.locator("[data-n='1000']")).to_be_in_viewport()
    page.evaluate("window.slipway.pane.toLine(500)")
    expect(page.locator("[data-n='500']")).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_only_problems_can_be_shown(page: Page, opened: Wire) -> None:
    levels = {7: "warning", 9: "error"}
    opened.tell(*(line(number, level=levels.get(number, "info")) for number in range(1, 21)))
    page.locator("[data-log-show]").select_option("problems")
    expect(page.locator(".log-row")).to_have_count(2)
    opened.tell(line(21, level="error"), line(22))
    expect(page.locator(".log-row")).to_have_count(3)
    assert page.evaluate(NUMBERS) == [7, 9, 21]


def test_a_failure_stops_following_at_its_first_error(page: Page, opened: Wire) -> None:
    opened.tell(*(line(number, level="error" if number == 40 else "info") for number in range(1, 301)))
    failure = {"code": "X", "message": "It broke", "step": "s", "container": None, "exit_code": None}
    opened.change(status="FAILED", failure=failure)
    expect(page.locator("[data-n='40']")).to_be_in_viewport()
    expect(page.locator("[data-n='40']")).to_have_class("log-row error picked")
    expect(page.locator("[data-log-follow]")).to_have_attribute("aria-pressed", "false")


def test_the_end_is_said(page: Page, opened: Wire) -> None:
    opened.log = [line(1)]
    opened.state = {**opened.state, "status": "SUCCESS", "outcome": "COMPLETED", "last_line": 1}
    opened.tell(*opened.log)
    opened.end()
    expect(page.locator("[data-connection]")).to_have_text("Ended")
    expect(page.locator("[data-x-status]")).to_have_text("Success")
