"""Hostile text in every column and log line, on every page, in a browser: never markup, never script."""

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.apps import apps
from django.db import IntegrityError, models, transaction
from django.test import Client
from playwright.sync_api import Page, WebSocketRoute
from pytest_django.live_server_helper import LiveServer

from deployments.models import Execution, StepExecution
from rbac.audit import record_audit_entry
from rbac.encrypted_fields import EncryptedTextField
from rbac.models import AuditEntry, Scope, User
from tests.api.sample_project import World, make_world
from tests.browser.fake_execution_socket import blocks_of, line

pytestmark = pytest.mark.browser

HOSTILE = "\"'><img src=x onerror=pwn()><script>pwn()</script>{{7*7}}"
LOG_LINES = (
    HOSTILE,
    "\x1b[31m<b onclick=pwn()>red</b>\x1b[0m",
    "\x1b]8;;javascript:pwn()\x07a link\x1b]8;;\x07",
    'https://example.com/"onmouseover="pwn()',
    "javascript:pwn() data:text/html,<script>pwn()</script>",
    "evil\u202etxt.exe \u2066a\u2069",
    "</pre></div><div hx-get=/sign-out/ hx-trigger=load>",
    "x" * 10_000,
)
OURS = ("rbac", "connectors", "notifications", "policies", "catalog", "pipelines", "deployments", "inventory")
# These mean something to the program, or are keys; who writes them cannot choose them freely.
KEPT = re.compile(
    r"identifier|path|kind|type|status|state|hash|key|prefix|yaml|password|username|email|region|store"
    r"|owner|group|outcome|batch|section|phase|service|operation|action|permission|source|address|value"
    r"|token|waits_for_service|unit|event|request|content|time_zone|begins|ends"
)
NOT_PAGES = re.compile(r"^/(api|docs|sign-out|static)/|download|/export/|\.(json|yaml)$")
# What would run script, or shows that text became markup.
TRACES = """() => [
    ...document.querySelectorAll('img[src=x], [onerror], [onclick], [onmouseover], [href^="javascript:"]'),
    ...[...document.scripts].filter(one => !one.src && one.type !== 'application/json'
        && one.textContent.includes('pwn()')),
    ...[...document.querySelectorAll('[hx-get="/sign-out/"], [style*="pwn"]')],
].map(one => one.outerHTML.slice(0, 200)).concat(window.pwned ? ['it ran'] : [])"""


LINKS = """[...document.querySelectorAll('a[href^="/"]')].map(link => link.getAttribute('href'))"""


def columns_of(model: type[models.Model]) -> list[models.CharField | models.TextField]:
    """Return the columns with text chosen by people or AWS."""
    return [
        field
        for field in model._meta.concrete_fields
        if isinstance(field, models.CharField | models.TextField)
        and not (field.choices or field.unique or KEPT.search(field.name))
        and not isinstance(field, EncryptedTextField)
    ]


def spoil(world: World, actor: User) -> int:
    """Put hostile text in every such column of every row, and return how many columns that is."""
    spoilt = 0
    for model in (model for label in OURS for model in apps.get_app_config(label).get_models()):
        columns = columns_of(model) if model is not AuditEntry else []
        for number, row in enumerate(model._default_manager.all() if columns else ()):
            for field in columns:
                # Names may have to differ from one row to the next; some columns go with another one only.
                text = f"{number}{HOSTILE}"[: field.max_length or None]
                with contextlib.suppress(IntegrityError), transaction.atomic():
                    models.QuerySet(model).filter(pk=row.pk).update(**{field.name: text})
        spoilt += len(columns)
    failure = {"code": HOSTILE, "message": HOSTILE, "step": HOSTILE, "container": HOSTILE, "exit_code": 1}
    Execution.objects.update(failure=failure, status="FAILED", due_at=None)
    StepExecution.objects.update(failure=failure, outputs={HOSTILE: HOSTILE})
    world.connector.refresh_from_db()
    record_audit_entry(
        actor=actor, action="connector.update", thing=world.connector, after={HOSTILE: HOSTILE}
    )
    return spoilt


@pytest.fixture(scope="module", autouse=True)
def loop_of_playwright() -> Iterator[None]:
    """The database is emptied after the page is closed, while the loop of Playwright still runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield


@pytest.fixture
def spoilt_world(transactional_db: None, project: Scope, admin: User) -> World:
    world = make_world(project, admin, admin)
    assert spoil(world, admin) > 20
    return world


@pytest.fixture
def complaints(page: Page) -> list[str]:
    texts: list[str] = []
    page.route_web_socket("**/ws/approvals/", lambda socket: None)
    page.route_web_socket(re.compile("/ws/live/"), lambda socket: None)
    page.on("console", lambda message: texts.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: texts.append(f"dialog {dialog.message}"))
    page.add_init_script("window.pwn = () => { window.pwned = true; };")
    return texts


def normalize_address(address: str) -> str:
    """Pages of one kind, under one name."""
    parts = urlsplit(address)
    query = re.sub(r"=[^&]*", "", parts.query)
    return re.sub(r"[0-9a-f-]{36}|\d+", "#", parts.path) + "?" + query


def send_hostile_log(socket: WebSocketRoute) -> None:
    """The socket of the execution page, from a log in which everything is hostile."""
    lines: list[dict[str, Any]] = [
        line(number, text, unit=HOSTILE) for number, text in enumerate(LOG_LINES, 1)
    ]
    socket.send(json.dumps({"type": "lines", "blocks": blocks_of(lines)}))


@pytest.fixture
def visitor(page: Page, complaints: list[str], live_server: LiveServer, admin: User) -> Page:
    """The browser of an administrator, who sees everything."""
    client = Client()
    client.force_login(admin)
    page.context.add_cookies(
        [
            {"name": name, "value": cookie.value, "url": live_server.url}
            for name, cookie in client.cookies.items()
        ]
    )
    page.route_web_socket(re.compile("/ws/(?!approvals/)"), send_hostile_log)
    return page


@pytest.mark.timeout(300)
def test_no_text_becomes_markup_on_any_page(
    visitor: Page, complaints: list[str], spoilt_world: World, live_server: LiveServer
) -> None:
    waiting, visited = ["/deployments/", f"/deployments/{spoilt_world.execution.pk}/", "/admin/"], set[str]()
    occurrences = 0
    while waiting:
        address = waiting.pop(0)
        if normalize_address(address) in visited or NOT_PAGES.search(address):
            continue
        visited.add(normalize_address(address))
        response = visitor.goto(f"{live_server.url}{address}")
        assert response is not None
        assert response.status < 500, address
        occurrences += visitor.locator("body").inner_text().count("onerror=pwn()")
        assert visitor.evaluate(TRACES) == [], address
        assert complaints == [], address
        assert visitor.evaluate("document.documentElement.scrollWidth / innerWidth") <= 2, address
        waiting += visitor.evaluate(LINKS)
    assert len(visited) > 30, visited
    assert occurrences > 50


def test_no_line_of_a_log_becomes_markup(
    visitor: Page, complaints: list[str], spoilt_world: World, live_server: LiveServer
) -> None:
    visitor.goto(f"{live_server.url}/deployments/{spoilt_world.execution.pk}/")
    row = visitor.locator(".log-row").first
    row.wait_for()
    assert "onerror=pwn()" in row.inner_text()
    assert visitor.evaluate(TRACES) == []
    assert "\u202e" not in visitor.locator("[data-log]").inner_text()
    assert complaints == []
