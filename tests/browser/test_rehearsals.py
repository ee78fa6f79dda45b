"""A rehearsal's result is found, read and reached by everybody, in both themes and on a phone."""

from typing import Literal

import pytest
from playwright.sync_api import Page, expect
from pytest_django import Settings

from catalog.models import Infrastructure
from ops.demo.pipelines import SandboxFacts
from pipelines.models import Pipeline
from sandbox.process import SandboxProcess
from tests.browser.conftest import Visit
from tests.browser.test_accessibility import LOOKS, violations
from tests.fixtures.demo import fill_in_demo

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def demo(transactional_db: None, account: object, sandbox: SandboxProcess, settings: Settings) -> Pipeline:
    """The demo's pipeline, whose connector reaches a cluster."""
    settings.SANDBOX_URL = sandbox.url
    fill_in_demo(SandboxFacts.from_wire(sandbox.seed()))
    return Pipeline.objects.get(identifier="rolling_demo")


def _rehearse(page: Page, tag: str, behavior: str) -> None:
    page.get_by_label("Image tag").fill(tag)
    page.get_by_label("New tasks in a rehearsal").select_option(behavior)
    page.get_by_role("button", name="Rehearse", exact=True).click(timeout=90_000)
    expect(page.get_by_role("heading", name="Rehearsal in a sandbox")).to_be_visible()


def _check_all_looks(page: Page) -> None:
    """Find no problem in any theme and width, nor a page that scrolls sideways."""
    for theme, width in LOOKS:
        scheme: Literal["light", "dark"] = "dark" if theme == "dark" else "light"
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        assert violations(page) == [], (theme, width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, (theme, width)


def test_axe_finds_nothing_in_the_results_of_rehearsals(demo: Pipeline, visit: Visit, page: Page) -> None:
    visit(f"/pipelines/{demo.pk}/preview/")
    _rehearse(page, "1.28", "crashes")
    expect(page.get_by_role("alert")).to_contain_text("The rehearsal failed after")
    _check_all_looks(page)
    _rehearse(page, "1.28", "healthy")
    expect(page.get_by_role("status").first).to_contain_text("The rehearsal succeeded")
    _check_all_looks(page)
    Infrastructure.objects.update(cluster="of-somebody-else")
    _rehearse(page, "1.28", "healthy")
    expect(page.get_by_text("The result of the rehearsal is unknown")).to_be_visible()
    _check_all_looks(page)
