"""The documentation under /docs/: what was built is served, to everybody, and nothing else is."""

import os
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

pytestmark = pytest.mark.django_db


@pytest.fixture
def site(settings: Settings, tmp_path: Path) -> Path:
    """A site with a page in a folder and a file beside it that is no part of it."""
    root = tmp_path / "site"
    (root / "how-to").mkdir(parents=True)
    (root / "index.html").write_text("<h1>Slipway</h1>")
    (root / "how-to" / "index.html").write_text("<h1>How-to guides</h1>")
    (root / "script.js").write_text("start()")
    (tmp_path / "secret.txt").write_text("not a page")
    settings.DOCUMENTATION_ROOT = root
    return root


@pytest.mark.parametrize(
    ("path", "content", "kind"),
    [
        ("", "<h1>Slipway</h1>", "text/html"),
        ("how-to/", "<h1>How-to guides</h1>", "text/html"),
        ("script.js", "start()", "text/javascript"),
    ],
)
def test_files_of_the_site_are_served_to_everybody(
    client: Client, site: Path, path: str, content: str, kind: str
) -> None:
    response = client.get(f"/docs/{path}")

    assert (response.status_code, response.content.decode()) == (200, content)
    assert response["Content-Type"].startswith(kind)
    assert "script-src 'self'" in response["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path", ["nothing/", "../secret.txt", "%2e%2e/secret.txt", "how-to/../../secret.txt"]
)
def test_nothing_outside_of_the_site_is_served(client: Client, site: Path, path: str) -> None:
    assert client.get(f"/docs/{path}").status_code == 404


def test_address_without_a_slash_leads_to_the_page(client: Client, site: Path) -> None:
    response = client.get("/docs/how-to")

    assert (response.status_code, response["Location"]) == (302, "/docs/how-to/")


def test_browser_keeps_a_page_until_the_next_build(client: Client, site: Path) -> None:
    modified_at = client.get("/docs/")["Last-Modified"]

    assert client.get("/docs/", headers={"If-Modified-Since": modified_at}).status_code == 304


def test_next_build_is_served_without_a_restart(client: Client, site: Path) -> None:
    client.get("/docs/")
    (site / "new").mkdir()
    (site / "new" / "index.html").write_text("<h1>New</h1>")
    os.utime(site / "index.html", ns=(1, 1))

    assert client.get("/docs/new/").status_code == 200


def test_page_says_how_to_build_what_is_not_built(client: Client) -> None:
    response = client.get("/docs/how-to/")

    assert response.status_code == 404
    assert b"make docs" in response.content
