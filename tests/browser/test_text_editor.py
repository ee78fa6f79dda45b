"""The editor by itself: what a keyboard does with it, what the server's answers become, how fast it is."""

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import pytest
from django.template.loader import render_to_string
from playwright.sync_api import Page, Route, expect
from pytest_django.live_server_helper import LiveServer

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'"
GUIDE = {
    "schema": {
        "properties": {
            "pipeline": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "kind": {"enum": ["Deployment", "Approval"]},
                    "stages": {"type": "array", "items": {"$ref": "#/$defs/stage"}},
                },
            }
        },
        "$defs": {
            "stage": {
                "oneOf": [
                    {"properties": {"type": {"const": "Wait"}, "duration": {"type": "string"}}},
                    {"properties": {"type": {"const": "Shell"}, "script": {"type": "string"}}},
                ]
            }
        },
    },
    "values": {"pipeline.name": ["web", "worker"]},
    "expressions": ["service.name", "infra.cluster"],
}
Open = Callable[..., Any]


@pytest.fixture
def open_editor(page: Page, live_server: LiveServer) -> Open:
    """Show a page with nothing but a form that holds the editor."""

    def show(
        value: str = "", answer: dict[str, Any] | None = None, without_script: bool = False, **context: Any
    ) -> Any:
        context = {"name": "content", "label": "Content", "language": "yaml", "value": value, **context}
        if answer is not None:
            context["check"] = "/check"
            page.route("**/check", lambda route: route.fulfill(json=answer))
        part = render_to_string("parts/_editor.html", context)
        guide = f'<script type="application/json" id="guide">{json.dumps(GUIDE)}</script>'
        html = (
            '<!doctype html><html lang="en"><title>Editor</title>'
            + "".join(
                f'<link rel="stylesheet" href="/static/css/{name}.css">'
                for name in ("tokens", "base", "components", "editor")
            )
            + f'<script type="module" src="/static/js/editor.js"></script>{guide}'
            + f'<form method="post" action="/saved">{part}<button>Save</button></form>'
        )

        def serve(route: Route) -> None:
            route.fulfill(body=html, content_type="text/html", headers={"Content-Security-Policy": POLICY})

        page.route("**/an-editor", serve)
        page.route("**/saved", lambda route: route.fulfill(body="saved", content_type="text/html"))
        page.goto(f"{live_server.url}/an-editor")
        area = page.get_by_label("Content")
        if not without_script:
            expect(page.locator(".editor.on")).to_be_visible()
        area.focus()
        return area

    return show


def put_caret(area: Any, at: int) -> None:
    area.evaluate("(area, at) => area.setSelectionRange(at, at)", at)


def test_what_is_written_is_coloured_and_posted_as_it_is(
    page: Page, open_editor: Open, complaints: list[str]
) -> None:
    area = open_editor("\nname: <+service.name> # why\n")
    expect(area).to_have_value("\nname: <+service.name> # why\n")
    tokens = page.locator(".editor-line").nth(1).locator("span")
    expect(tokens.last).to_have_attribute("data-t", "# why")
    spans = tokens.evaluate_all("spans => spans.map((span) => [span.className, span.dataset.t])")
    assert [pair for pair in spans if pair[1].strip()] == [
        ["tok-key", "name"],
        ["tok-mark", ":"],
        ["tok-expression", "<+service.name>"],
        ["tok-comment", "# why"],
    ]
    with page.expect_request("**/saved") as request_info:
        area.press("Control+s")
    posted = parse_qs(request_info.value.post_data or "", keep_blank_values=True)
    assert posted["content"] == ["\r\nname: <+service.name> # why\r\n"]


def test_tab_leaves_until_it_is_asked_to_indent_and_escape_leaves_again(
    page: Page, open_editor: Open
) -> None:
    area = open_editor("a: 1")
    area.press("Tab")
    expect(page.get_by_role("button", name="Save")).to_be_focused()
    area.focus()
    put_caret(area, 0)
    area.press("Control+m")
    area.press("Tab")
    expect(area).to_have_value("  a: 1")
    area.press("Escape")
    area.press("Tab")
    expect(page.get_by_role("button", name="Save")).to_be_focused()


def test_a_new_line_is_indented_and_undo_takes_it_back(page: Page, open_editor: Open) -> None:
    area = open_editor("")
    page.keyboard.type("stages:\nname: x")
    expect(area).to_have_value("stages:\n  name: x")
    page.keyboard.press("Home")
    page.keyboard.press("Control+]")
    expect(area).to_have_value("stages:\n    name: x")
    page.keyboard.press("Control+z")
    expect(area).to_have_value("stages:\n  name: x")


def test_the_servers_errors_are_marked_listed_and_led_to(page: Page, open_editor: Open) -> None:
    problem = {"line": 2, "column": 4, "path": "a.b", "message": '"<img src=x>" is no number'}
    warning = {"line": 1, "message": "is ignored"}
    area = open_editor(
        "a:\n  b: x\n", answer={"errors": [problem], "warnings": [warning], "note": "Checked."}
    )
    state = page.locator("[data-editor-state]")
    expect(state).to_have_text("1 error, 1 warning Checked.")
    expect(page.locator(".editor-number.error")).to_have_attribute("data-t", "2")
    expect(page.locator(".editor-number.warning")).to_have_attribute("data-t", "1")
    message = page.locator(".editor-line.error .editor-problem-text")
    expect(message).to_have_attribute("data-t", str(problem["message"]))
    page.get_by_role("button", name="Line 2, column 4").press("Enter")
    expect(area).to_be_focused()
    assert area.evaluate("(area) => area.selectionStart") == 6
    page.route("**/check", lambda route: route.fulfill(json={"errors": []}))
    page.keyboard.type("1")
    expect(state).to_have_text("No problems found.")
    expect(page.locator(".editor-problems")).to_be_hidden()


def test_errors_of_a_refused_form_are_there_before_any_check(page: Page, open_editor: Open) -> None:
    open_editor(
        "a: [", problems=[{"line": 1, "column": 4, "path": "", "message": "is not closed"}], dirty=True
    )
    expect(page.get_by_role("button", name="Line 1, column 4")).to_contain_text("is not closed")
    expect(page.get_by_text("Unsaved changes")).to_be_visible()


def test_keys_values_and_expressions_are_suggested_where_they_fit(page: Page, open_editor: Open) -> None:
    area = open_editor("", guide="guide")
    options = page.get_by_role("option")
    page.keyboard.press("Control+Space")
    expect(options).to_have_text(["pipelineobject"])
    page.keyboard.press("Enter")
    expect(area).to_have_value("pipeline:\n  ")
    page.keyboard.type("na")
    expect(options).to_have_text(["namerequired, string"])
    assert area.get_attribute("aria-activedescendant") == options.first.get_attribute("id")
    page.keyboard.press("Enter")
    expect(options).to_have_text(["web", "worker"])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(area).to_have_value("pipeline:\n  name: worker")
    page.keyboard.type("\nk")
    expect(options).to_have_text(["kindone of"])
    page.keyboard.press("Escape")
    expect(options).to_have_count(0)
    page.keyboard.type("ind: A")
    expect(options).to_have_text(["Approval"])
    page.keyboard.press("Enter")
    page.keyboard.type("\ndescription: <+se")
    expect(options).to_have_text(["service.name"])
    page.keyboard.press("Enter")
    expect(area).to_have_value(re.compile(r"\n  kind: Approval\n  description: <\+service\.name>$"))


def test_only_keys_of_the_written_type_are_suggested(page: Page, open_editor: Open) -> None:
    open_editor("pipeline:\n  stages:\n    - type: Shell\n      ", guide="guide")
    page.keyboard.press("Control+End")
    page.keyboard.press("Control+Space")
    expect(page.get_by_role("option")).to_have_text(["scriptstring"])


def test_json_is_suggested_in_its_own_spelling(page: Page, open_editor: Open) -> None:
    area = open_editor('{"pipeline": {"kind": ""}}', guide="guide", language="json")
    put_caret(area, 23)
    page.keyboard.press("Control+Space")
    expect(page.get_by_role("option")).to_have_text(["Deployment", "Approval"])
    page.keyboard.press("Enter")
    expect(area).to_have_value('{"pipeline": {"kind": "Deployment"}}')


def test_leaving_with_unsaved_changes_asks_and_saving_does_not(page: Page, open_editor: Open) -> None:
    area = open_editor("a: 1")
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.type), dialog.accept()))
    page.keyboard.type("b")
    expect(page.get_by_text("Unsaved changes")).to_be_visible()
    page.reload()
    assert dialogs == ["beforeunload"]
    area.focus()
    page.keyboard.type("c")
    with page.expect_navigation():
        area.press("Control+s")
    assert dialogs == ["beforeunload"]


def test_saving_does_not_ask_about_a_text_whose_row_was_removed(page: Page, open_editor: Open) -> None:
    open_editor("a: 1", answer={"errors": [], "warnings": []})
    problems: list[str] = []
    page.on("dialog", lambda dialog: (problems.append(dialog.type), dialog.accept()))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.keyboard.type("b")
    expect(page.get_by_text("Unsaved changes")).to_be_visible()
    page.locator(".editor").evaluate("editor => editor.remove()")
    # The check of the text was about to begin.
    page.wait_for_timeout(600)
    with page.expect_navigation():
        page.get_by_role("button", name="Save").click()
    assert problems == []


def test_without_script_it_is_a_plain_text_field(page: Page, open_editor: Open) -> None:
    page.route("**/js/editor.js", lambda route: route.abort())
    open_editor("a: 1\n", without_script=True, problems=[{"line": 1, "message": "is wrong"}])
    expect(page.locator(".editor.on")).to_have_count(0)
    expect(page.get_by_label("Content")).to_have_value("a: 1\n")
    expect(page.get_by_text("is wrong")).to_be_visible()


def test_five_thousand_lines_stay_fluid(page: Page, open_editor: Open) -> None:
    text = "".join(f"  key{number}: <+service.name> # {number}\n" for number in range(5000))
    area = open_editor(text)
    put_caret(area, len(text) // 2)
    took = area.evaluate(
        """async (area) => {
          const took = [];
          for (let at = 0; at < 20; at += 1) {
            const begin = performance.now();
            document.execCommand("insertText", false, "x");
            area.scrollTop = at * 4000;
            area.offsetHeight;
            took.push(performance.now() - begin);
            await new Promise(requestAnimationFrame);
          }
          return Math.min(...took);
        }"""
    )
    print(f"\none keystroke in 5,000 lines: {took:.1f} ms (the least of 20)")
    assert page.locator(".editor-line").count() < 120
    assert took < 250
