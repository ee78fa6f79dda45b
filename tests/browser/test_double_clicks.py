"""A double click on a button that starts something."""

import re

import pytest
from playwright.sync_api import Page, Route, expect

from deployments.models import Execution
from pipelines.models import Pipeline
from tests.browser.conftest import Visit

pytestmark = pytest.mark.browser
# The first click is on its way to the server when the second one comes.
DOUBLE_CLICK = "button => { button.click(); setTimeout(() => button.click(), 30); }"
DOWNLOAD_FORM = """
const form = Object.assign(document.createElement("form"), { action: "/some.zip" });
form.setAttribute("method", "post");
form.innerHTML = "<button>Download as zip</button>";
document.querySelector("main").prepend(form);
"""


def test_a_double_click_on_run_starts_one_execution(page: Page, visit: Visit, demo: Pipeline) -> None:
    visit(f"/pipelines/{demo.pk}/run/")
    page.get_by_label("Image tag").fill("1.27")
    page.get_by_role("button", name="Run", exact=True).evaluate(DOUBLE_CLICK)
    expect(page).to_have_url(re.compile(r"/deployments/[0-9a-f-]+/"))
    assert Execution.objects.filter(pipeline=demo).count() == 1


def test_a_form_that_downloads_can_be_sent_again_a_moment_later(page: Page, visit: Visit) -> None:
    page.clock.install()
    visit("/pipelines/")
    page.evaluate(DOWNLOAD_FORM)
    posts: list[str] = []

    def answer(route: Route) -> None:
        posts.append(route.request.method)
        route.fulfill(headers={"Content-Disposition": "attachment; filename=some.zip"}, body="PK")

    page.route("**/some.zip", answer)
    button = page.get_by_role("button", name="Download as zip")
    with page.expect_download():
        button.click()
    button.click()
    page.wait_for_timeout(300)
    assert posts == ["POST"]
    page.clock.run_for(3000)
    with page.expect_download():
        button.click()
    assert posts == ["POST", "POST"]
