"""The documentation as a site: it builds, the content policy lets it work, and its search finds pages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation, built as `make docs` does: a broken link fails."""
    home = tmp_path_factory.mktemp("documentation")
    command = [sys.executable, "manage.py", "build_docs", "--folder", str(home / "site")]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings", "SLIPWAY_HOME": str(home)}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return home / "site"


def test_pages_hold_no_inline_code_and_nothing_of_other_sites(site: Path) -> None:
    pages = {file: file.read_text() for file in site.rglob("*.html")}

    assert [file for file, text in pages.items() if "<script>" in text or " style=" in text] == []
    assert [file for file, text in pages.items() if 'src="http' in text or "fonts.g" in text] == []


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_reader_finds_a_page_by_search(
    site: Path, settings: Settings, page: Page, complaints: list[str], live_server: LiveServer
) -> None:
    settings.DOCUMENTATION_ROOT = site
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(f"{live_server.url}/docs/")

    page.get_by_role("textbox", name="Search").click()
    page.keyboard.type("adopt", delay=20)
    page.locator(".md-search-result__link", has_text="Adopt ECS services").first.click()

    expect(page.get_by_role("heading", name="Adopt ECS services")).to_be_visible()
    page.get_by_role("link", name="Open Slipway").first.click()
    expect(page).to_have_url(f"{live_server.url}/sign-in/?next=/")
    assert [url for url in requested if not url.startswith((live_server.url, "data:"))] == []
