"""Writing expressions in a browser: `<+` lists what can be named here, in the text and in the forms."""

import re

import pytest
from playwright.sync_api import Page, expect

from pipelines.models import Pipeline
from rbac.models import Role, RoleAssignment, User
from tests.browser.conftest import Visit
from tests.browser.test_accessibility import violations

pytestmark = pytest.mark.browser
WAITS = """\
          execution:
            steps:
              - step: {identifier: rest, name: Rest, type: Wait, spec: {duration: 1m}}
              - step: {identifier: again, name: Again, type: Wait, spec: {duration: 1m}}
"""


@pytest.fixture
def writer(deployer: User, demo: Pipeline) -> User:
    """A visitor who may write pipelines; the demo has two steps that wait."""
    role = Role.objects.get(identifier="project_admin", scope=None)
    RoleAssignment.objects.create(user=deployer, role=role, scope=demo.scope)
    demo.yaml = re.sub(r" +execution:\n[\s\S]*", WAITS, demo.yaml)
    demo.save(update_fields=["yaml"])
    return deployer


def test_an_expression_is_completed_in_the_text_and_in_a_form(
    page: Page, visit: Visit, demo: Pipeline, writer: User
) -> None:
    visit(f"/pipelines/{demo.pk}/edit/")
    area = page.get_by_label("YAML", exact=True)
    text = demo.yaml.replace("name: Again,", "name: <+rest.out>,")
    area.fill(text)
    area.evaluate("(area, at) => area.setSelectionRange(at, at)", text.index("<+rest.out>") + 10)
    options = page.get_by_role("listbox", name="Suggestions").get_by_role("option")
    page.keyboard.press("Control+Space")
    expect(options).to_have_count(1)
    page.keyboard.press("Enter")
    # What was left of the old name went with it.
    completed = text.replace("<+rest.out>", "<+execution.steps.rest.output.waitsUntil>")
    expect(area).to_have_value(completed)

    page.get_by_role("tab", name="Visual").click()
    page.get_by_role("button", name="Rest Wait", exact=True).click()
    field = page.get_by_role("form", name="Rest").get_by_label("Duration")
    field.fill("")
    field.press_sequentially("<+pipe")
    expect(options.first).to_contain_text("pipeline.")
    expect(field).to_have_attribute("aria-expanded", "true")
    field.press("Escape")
    expect(options).to_have_count(0)
    field.press_sequentially("line.num")
    expect(options).to_have_count(1)
    expect(field).to_have_attribute("aria-activedescendant", "naming-suggestions-0")
    field.press("Enter")
    expect(field).to_have_value("<+pipeline.number>")
    expect(options).to_have_count(0)


def test_the_lists_of_suggestions_are_reached_and_left_by_the_keyboard(
    page: Page, visit: Visit, demo: Pipeline, writer: User
) -> None:
    visit(f"/pipelines/{demo.pk}/edit/")
    area = page.get_by_label("YAML", exact=True)
    text = demo.yaml.replace("name: Again,", "name: <+>,")
    area.fill(text)
    area.evaluate("(area, at) => area.setSelectionRange(at, at)", text.index("<+>") + 2)
    suggestions = page.get_by_role("listbox", name="Suggestions")
    page.keyboard.press("Control+Space")
    expect(suggestions).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Tab")
    expect(suggestions).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(suggestions.get_by_role("option").nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Escape")
    expect(area).to_be_focused()
    expect(suggestions).to_be_hidden()

    page.get_by_role("tab", name="Visual").click()
    page.get_by_role("button", name="Rest Wait", exact=True).click()
    field = page.get_by_role("form", name="Rest").get_by_label("Duration")
    field.fill("")
    field.press_sequentially("<+pipe")
    expect(suggestions).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Tab")
    expect(suggestions).to_be_focused()
    suggestion = suggestions.get_by_role("option").first.locator(".mono").inner_text()
    page.keyboard.press("Enter")
    expect(field).to_be_focused()
    expect(field).to_have_value(re.compile(re.escape(f"<+{suggestion.removeprefix('<+').removesuffix('>')}")))
    expect(suggestions).to_have_count(0)
