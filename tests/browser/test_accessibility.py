"""Every page that the site has, asked by axe-core for what keeps people out (WCAG 2.2 A and AA, and more)."""

from functools import cache
from importlib.resources import files
from typing import Literal

import pytest
from django.test import Client
from playwright.sync_api import Page
from pytest_django.live_server_helper import LiveServer

from rbac.models import Scope, User
from tests.api.sample_project import World, make_world
from tests.fixtures.row_copies import complete
from tests.routes import addresses

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

# No pages, or not ours: what programs read, the administration, and parts that are swapped into a page.
ELSEWHERE = ("/api/v1/", "/api/schema/", "/admin/", "/healthz", "/readyz", "/livez", "/metrics")
FRAGMENT = "<!doctype html>"
PARTS = 16


@cache
def axe() -> str:
    """The script of axe-core, as the package for Playwright carries it."""
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def pages(reader: Client, world: World) -> list[str]:
    """The addresses that answer with a whole page of our own."""
    paths = []
    for address in addresses(world):
        if address.status != 200 or address.path.startswith(ELSEWHERE):
            continue
        response = reader.get(address.path)
        text = b"".join(response) if response.streaming else response.content
        if text[: len(FRAGMENT)].decode("utf-8", "replace").lower() == FRAGMENT:
            paths.append(address.path)
    return paths


def violations(page: Page) -> list[str]:
    """Return the problems that axe-core finds on the open page, each with its first element."""
    page.evaluate(axe())
    # Without the selectors that it would work out for each element in half of its time.
    rules = "{'label-content-name-mismatch': {enabled: true}}"
    options = f"{{resultTypes: ['violations'], selectors: false, rules: {rules}}}"
    results = page.evaluate(f"axe.run(document, {options})")["violations"]
    return [
        f"{violation['id']}: {violation['help']}: {violation['nodes'][0]['html'][:200]}"
        for violation in results
    ]


# Every sixteenth page in each part: `make test` sees one part in each theme.
@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_axe_finds_nothing_on_any_page(
    page: Page, live_server: LiveServer, project: Scope, admin: User, theme: str, width: int, part: int
) -> None:
    world = make_world(project, admin, admin)
    complete(world)
    reader = Client()
    reader.force_login(admin)
    cookies = {name: cookie.value for name, cookie in reader.cookies.items()} | {"slipway_theme": theme}
    page.context.add_cookies(
        [{"name": name, "value": value, "url": live_server.url} for name, value in cookies.items()]
    )
    page.set_viewport_size({"width": width, "height": 800})
    page.route_web_socket("**/ws/**", lambda socket: None)
    page_paths = pages(reader, world)[part::PARTS]
    assert len(page_paths) > 4
    violations_by_path = {}
    for path in page_paths:
        page.goto(f"{live_server.url}{path}")
        if wrong := violations(page):
            violations_by_path[path] = wrong
    assert violations_by_path == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_the_administration_offers_to_choose_from_can_be_read(
    page: Page, live_server: LiveServer, admin: User, theme: Literal["light", "dark"]
) -> None:
    reader = Client()
    reader.force_login(admin)
    page.context.add_cookies(
        [
            {"name": name, "value": cookie.value, "url": live_server.url}
            for name, cookie in reader.cookies.items()
        ]
    )
    page.emulate_media(color_scheme=theme)
    page.goto(f"{live_server.url}/admin/rbac/usergroup/add/")
    heading = page.locator(".selector-chosen-title label")
    # To axe-core words in the colour of their ground are hidden on purpose.
    ink = heading.evaluate("label => getComputedStyle(label).color")
    assert ink != heading.evaluate("label => getComputedStyle(label.parentElement).backgroundColor")
    page.evaluate(axe())
    rules = "{resultTypes: ['violations'], runOnly: ['color-contrast']}"
    results = page.evaluate(f"axe.run(document, {rules})")["violations"]
    assert [node["html"] for violation in results for node in violation["nodes"]] == []
