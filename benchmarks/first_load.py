"""Size and paint times of pages with an empty and with a full browser cache."""

import contextlib
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.error import URLError
from urllib.request import urlopen

from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, Page, sync_playwright

from ops.supervision.valkey import find_server
from tests.fixtures.chromium import SWITCHES, find_chromium
from tests.fixtures.processes import running, wait_until
from tests.ports import free_port

LOADS = 5
KIB = 1024
# The largest thing that the browser has painted by the time the page is quiet (W3C Largest Contentful Paint).
LARGEST_PAINT = """() => new Promise(done => new PerformanceObserver(list =>
    done(list.getEntries().at(-1).startTime)).observe({type: "largest-contentful-paint", buffered: true}))"""
SHIFT = """() => new Promise(done => {
    let sum = 0;
    new PerformanceObserver(list => { for (const entry of list.getEntries()) sum += entry.value })
        .observe({type: "layout-shift", buffered: true});
    setTimeout(() => done(sum), 100)})"""


@dataclass(frozen=True)
class Load:
    """One load of a page: bytes on the wire by kind of file, moments in milliseconds."""

    sent: Mapping[str, int]
    requests: int
    painted: float
    shifted: float


@contextlib.contextmanager
def start_site() -> Iterator[str]:
    """Run the web server as in production, with compressed static files, on this database."""
    port, valkey = free_port(), free_port()
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "SLIPWAY_HOME": str(settings.HOME),
        "PORT": str(port),
        "REDIS_URL": f"redis://127.0.0.1:{valkey}",
    }
    collect = [sys.executable, "manage.py", "collectstatic", "--noinput", "--verbosity", "0"]
    subprocess.run(collect, env=environment, check=True)
    server = [sys.executable, "-m", "uvicorn", "config.asgi:application", "--port", str(port)]
    options = ["--ws", "websockets-sansio", "--lifespan", "off", "--log-level", "error"]
    broker = [str(find_server()), "--save", "", "--dir", str(settings.HOME), "--bind", "127.0.0.1"]
    with (
        running([*broker, "--port", str(valkey), "--loglevel", "nothing"], environment),
        running([*server, *options], environment),
    ):
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: _is_up(url), "the web server's answer")
        yield url


def _is_up(url: str) -> bool:
    with contextlib.suppress(URLError, OSError), urlopen(f"{url}/healthz", timeout=2):
        return True
    return False


def report(reader: Client, pages: Mapping[str, str]) -> Iterator[str]:
    """Load each page in Chromium as `reader`, who is signed in; skip without Chromium."""
    program = find_chromium()
    if program is None:
        yield "No Chromium on this machine: nothing was loaded."
        return
    cookies = [{"name": name, "value": cookie.value} for name, cookie in reader.cookies.items()]
    columns = f"{'KiB':>8}{'HTML':>7}{'CSS':>7}{'JS':>7}{'LCP ms':>9}{'again':>7}{'shift':>8}"
    yield f"{'':<34}{'requests':>9}{columns}"
    with start_site() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(SWITCHES))
        for name, path in pages.items():
            loads = [_load_page(browser, url, path, cookies) for _ in range(LOADS)]
            yield _format_row(name, [first for first, _ in loads], [again for _, again in loads])
        browser.close()


def _load_page(browser: Browser, url: str, path: str, cookies: list[dict[str, str]]) -> tuple[Load, Load]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.add_cookies(
        [{"name": cookie["name"], "value": cookie["value"], "url": url} for cookie in cookies]
    )
    page = context.new_page()
    first, again = _measure_load(page, url + path), _measure_load(page, url + path)
    context.close()
    return first, again


def _measure_load(page: Page, address: str) -> Load:
    wire, kinds, sizes = page.context.new_cdp_session(page), {}, {}
    wire.send("Network.enable")
    wire.on("Network.responseReceived", lambda event: kinds.update({event["requestId"]: event["type"]}))
    wire.on(
        "Network.loadingFinished",
        lambda event: sizes.update({event["requestId"]: int(event["encodedDataLength"])}),
    )
    page.goto(address, wait_until="networkidle")
    painted, shifted = page.evaluate(LARGEST_PAINT), page.evaluate(SHIFT)
    wire.detach()
    by_kind: dict[str, int] = {}
    for request, size in sizes.items():
        kind = kinds.get(request, "Other")
        by_kind[kind] = by_kind.get(kind, 0) + size
    return Load(by_kind, len(sizes), painted, shifted)


def _format_row(name: str, first: list[Load], again: list[Load]) -> str:
    sample = first[0]
    kib = [sample.sent.get(kind, 0) / KIB for kind in ("Document", "Stylesheet", "Script")]
    painted = statistics.median(load.painted for load in first)
    later = statistics.median(load.painted for load in again)
    return (
        f"{name:<34}{sample.requests:>9}{sum(sample.sent.values()) / KIB:>8.1f}"
        f"{kib[0]:>7.1f}{kib[1]:>7.1f}{kib[2]:>7.1f}{painted:>9.0f}{later:>7.0f}"
        f"{max(load.shifted for load in first):>8.3f}"
    )
