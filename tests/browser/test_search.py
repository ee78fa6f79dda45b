"""The search box over everything, and the keys of lists."""

import re

import pytest
from playwright.sync_api import Page, expect

from catalog.models import Service
from deployments.models import Execution
from pipelines.models import Pipeline
from tests.browser.conftest import Visit
from tests.browser.fake_execution_socket import Wire, line
from tests.browser.test_accessibility import violations

pytestmark = pytest.mark.browser


def test_a_service_is_opened_from_anywhere_by_keyboard(page: Page, visit: Visit, demo: Pipeline) -> None:
    service = Service.objects.earliest("pk")
    Service.objects.create(scope=service.scope, identifier="first", name="Laundry")
    last = Service.objects.create(scope=service.scope, identifier="last", name="Laundry south")
    visit("/deployments/")
    page.get_by_label("Search executions by pipeline, number or tag").focus()
    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Search pages")
    expect(box).to_be_focused()
    page.keyboard.type("laundry")
    options = page.get_by_role("option")
    expect(options).to_have_count(2)
    expect(options.first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    expect(options.last).to_have_attribute("aria-selected", "true")
    expect(box).to_have_attribute("aria-activedescendant", "search-hit-2")
    assert violations(page) == []
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/services/{last.pk}/dashboard/$"))


def test_slash_opens_the_box_only_where_the_page_has_no_search_of_its_own(
    page: Page, visit: Visit, demo: Pipeline
) -> None:
    visit("/services/")
    page.keyboard.press("/")
    expect(page.get_by_label("Search services by name or identifier")).to_be_focused()
    visit("/approvals/")
    page.keyboard.press("/")
    box = page.get_by_role("combobox", name="Search pages")
    expect(box).to_be_focused()
    box.fill("no such thing")
    expect(page.get_by_text("No match for “no such thing”.")).to_be_visible()
    page.keyboard.press("Escape")
    expect(box).to_be_hidden()


def test_rows_and_actions_are_reached_by_keys(page: Page, visit: Visit, demo: Pipeline) -> None:
    service = Service.objects.earliest("pk")
    Service.objects.create(scope=service.scope, identifier="second", name="Second")
    visit("/services/?sort=name")
    names = page.locator("main tbody a.name")
    for key, row in (("j", 0), ("j", 1), ("k", 0), ("k", 0)):
        page.keyboard.press(key)
        expect(names.nth(row)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/services/\d+/dashboard/$"))
    # The scripts of the new page answer keys once they have run.
    page.wait_for_load_state("load")
    page.keyboard.press(".")
    expect(page.locator("main .page-head .actions :focus")).to_have_count(1)


def test_the_header_fits_a_narrow_page(page: Page, visit: Visit, demo: Pipeline) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    visit("/search/?q=demo")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("link", name="Search everywhere").click()
    box = page.get_by_role("combobox", name="Search pages")
    box.fill("demo")
    expect(page.get_by_role("option").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_box_searches_the_log_on_the_page_of_an_execution(
    page: Page, visit: Visit, execution: Execution, wire: Wire
) -> None:
    visit(f"/deployments/{execution.pk}/?tab=outputs")
    wire.send_lines(line(1, "first needle"), line(2), line(3, "second needle"))
    page.keyboard.press("Control+k")
    option = page.get_by_role("option", name="Search the log of this execution")
    expect(option).to_be_visible()
    page.keyboard.type("needle")
    expect(option).to_contain_text("“needle”")
    expect(option).to_have_attribute("href", f"/deployments/{execution.pk}/?find=needle")
    assert violations(page) == []
    page.keyboard.press("Enter")
    expect(page.locator("[data-log-search]")).to_be_focused()
    expect(page.locator("[data-log-hits]")).to_have_text("2 matches")
    page.keyboard.press("Enter")
    expect(page.locator(".log-row.hit mark")).to_have_text("needle")
