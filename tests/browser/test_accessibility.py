"""Every page that the site has, asked by axe-core for what keeps people out (WCAG 2.2 A and AA, and more)."""

import os
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

import pytest
from django.contrib.admin.sites import site as admin_site
from django.test import Client
from django.urls import reverse
from playwright.sync_api import Page
from pytest_django.live_server_helper import LiveServer

from rbac.models import Scope, User
from tests.api.sample_project import World, make_world
from tests.fixtures.passkeys import create_passkey_row
from tests.fixtures.people import PASSWORD
from tests.fixtures.row_copies import complete
from tests.routes import addresses, newest

FindViolations = Callable[[list[str], str, int], dict[str, list[str]]]
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

# No pages: what programs read, and parts that are swapped into a page.
ELSEWHERE = ("/api/v1/", "/api/schema/", "/healthz", "/readyz", "/livez", "/metrics")
ADMIN = "/admin/"
FRAGMENT = "<!doctype html>"
PARTS, ADMIN_PARTS = 16, 8
LOOKS = [("light", 1280), ("light", 390), ("dark", 1280), ("dark", 390)]
# Another version of axe-core than the package has: the path of its script.
SCRIPT_VARIABLE = "SLIPWAY_AXE_SCRIPT"


@cache
def axe() -> str:
    """Return the script of axe-core."""
    packaged = files("axe_playwright_python").joinpath("axe.min.js")
    return Path(os.environ.get(SCRIPT_VARIABLE) or str(packaged)).read_text(encoding="utf-8")


def list_paths(world: World) -> list[str]:
    """Return the addresses of whole pages and of fragments."""
    return [
        address.path
        for address in addresses(world)
        if address.status == 200 and not address.path.startswith((*ELSEWHERE, ADMIN))
    ]


def list_admin_paths(world: World) -> list[str]:
    """Return every page of the admin site: lists, forms, confirmations and histories of each table."""
    paths = [address.path for address in addresses(world) if address.path.startswith(ADMIN)]
    for model, row in ((model, newest(model)) for model in admin_site._registry):
        assert row is not None
        stem = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        paths.append(reverse(f"{stem}_add"))
        paths += [reverse(f"{stem}_{page}", args=[row.pk]) for page in ("delete", "history")]
    apps = {model._meta.app_label for model in admin_site._registry}
    return paths + [reverse("admin:app_list", args=[app]) for app in sorted(apps)]


def is_page(reader: Client, path: str) -> bool:
    """Return whether an address answers with a whole page."""
    response = reader.get(path)
    text = b"".join(response) if response.streaming else response.content
    start = text[: len(FRAGMENT)].decode("utf-8", "replace").lower()
    return response.status_code == 200 and start == FRAGMENT


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


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    world = make_world(project, admin, admin)
    complete(world)
    return world


@pytest.fixture
def reader(admin: User) -> Client:
    reader = Client()
    reader.force_login(admin)
    return reader


@pytest.fixture
def find_violations(page: Page, live_server: LiveServer, reader: Client) -> FindViolations:
    """Return a function that opens the pages among addresses, and returns the problems of each."""
    page.route_web_socket("**/ws/**", lambda socket: None)

    def find(paths: list[str], theme: str, width: int) -> dict[str, list[str]]:
        cookies = {name: cookie.value for name, cookie in reader.cookies.items()} | {"slipway_theme": theme}
        page.context.add_cookies(
            [{"name": name, "value": value, "url": live_server.url} for name, value in cookies.items()]
        )
        page.set_viewport_size({"width": width, "height": 800})
        page_paths = [path for path in paths if is_page(reader, path)]
        assert len(page_paths) > 4
        violations_by_path = {}
        for path in page_paths:
            page.goto(f"{live_server.url}{path}")
            if wrong := violations(page):
                violations_by_path[path] = wrong
        print(f"axe opened {len(page_paths)} pages")
        return violations_by_path

    return find


# Every sixteenth page in each part: `make test` sees one part.
@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_axe_finds_nothing_on_any_page(
    find_violations: FindViolations, world: World, theme: str, width: int, part: int
) -> None:
    assert find_violations(list_paths(world)[part::PARTS], theme, width) == {}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(ADMIN_PARTS))
@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_axe_finds_nothing_in_the_administration(
    find_violations: FindViolations, world: World, theme: str, width: int, part: int
) -> None:
    assert find_violations(list_admin_paths(world)[part::ADMIN_PARTS], theme, width) == {}


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_axe_finds_nothing_on_pages_of_passkeys(
    find_violations: FindViolations, admin: User, theme: str, width: int
) -> None:
    pk = create_passkey_row(admin).pk
    own = [f"/account/passkeys/{pk}/{page}/" for page in ("rename", "remove")]
    paths = ["/account/", "/account/passkeys/", "/account/passkeys/new/", "/account/recovery-codes/", *own]
    assert find_violations(paths, theme, width) == {}


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_axe_finds_nothing_before_the_sign_in(
    page: Page, live_server: LiveServer, admin: User, theme: str, width: int
) -> None:
    create_passkey_row(admin)
    page.context.add_cookies([{"name": "slipway_theme", "value": theme, "url": live_server.url}])
    page.set_viewport_size({"width": width, "height": 800})
    violations_by_path = {}
    for path in ("/forgotten-password/", "/nowhere/", "/api/docs/", "/api/docs/services/", "/sign-in/"):
        page.goto(f"{live_server.url}{path}")
        violations_by_path[path] = violations(page)
    page.get_by_label("User name").fill(admin.username)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("button", name="Use a passkey").wait_for()
    violations_by_path["second step"] = violations(page)
    assert {path: wrong for path, wrong in violations_by_path.items() if wrong} == {}


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
