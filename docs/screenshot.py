"""Makes docs/screenshot.png: starts Slipway in a folder of its own, runs the demo, takes the picture."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.fixtures.chromium import SWITCHES, find_chromium  # noqa: E402
from tests.ports import free_port  # noqa: E402

PICTURE = ROOT / "docs" / "screenshot.png"
PASSWORD, KEY = "only for the picture", "slp_pat_only_for_the_picture"
SECONDS = 120.0


def _until(question: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + SECONDS
    while not (answer := question()):
        if time.monotonic() > deadline:
            sys.exit(f"{what} did not happen within {SECONDS:g} s")
        time.sleep(0.2)
    return answer


def _api(url: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"x-api-key": KEY, "content-type": "application/json"}
    with urlopen(Request(f"{url}/api/v1/{path}", data=data, headers=headers), timeout=30) as answer:  # noqa: S310
        found: dict[str, Any] = json.load(answer)
        return found


def _is_ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/readyz", timeout=5):  # noqa: S310
            return True
    except (URLError, OSError):
        return False


def _run(url: str, pipeline: str, tag: str) -> str:
    started = _api(url, f"pipelines/{pipeline}/executions", {"artifact": {"tag": tag}})
    return str(started["id"])


def _take(page: Page, url: str, execution: str) -> None:
    page.goto(f"{url}/sign-in/")
    page.fill("input[name=username]", "deployer")
    page.fill("input[name=password]", PASSWORD)
    with page.expect_navigation():
        page.press("input[name=password]", "Enter")
    page.goto(f"{url}/deployments/{execution}/")
    # The second rollout in full swing: both tasks run, and the log tells of it.
    page.get_by_text("Waiting for", exact=False).last.wait_for(timeout=SECONDS * 1000)
    page.get_by_text("# AWS Event", exact=False).last.wait_for(timeout=SECONDS * 1000)
    page.screenshot(path=PICTURE)


def _picture(url: str) -> None:
    _until(lambda: _is_ready(url), "being ready")
    pipeline = _api(url, "pipelines?identifier=rolling_demo")["results"][0]["id"]
    first = _run(url, pipeline, "1.27")
    _until(lambda: _api(url, f"executions/{first}")["ended_at"], "the end of the first execution")
    second = _run(url, pipeline, "1.28")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(SWITCHES))
        _take(browser.new_page(viewport={"width": 1440, "height": 900}), url, second)
        browser.close()


def main() -> None:
    """Start, take the picture, end."""
    with tempfile.TemporaryDirectory(prefix="slipway-picture-") as home:
        port = free_port()
        environment = {
            **os.environ,
            "SLIPWAY_HOME": home,
            "PORT": str(port),
            "SLIPWAY_SANDBOX_PORT": str(free_port()),
            "SLIPWAY_DEMO_PASSWORD": PASSWORD,
            "SLIPWAY_DEMO_API_KEY": KEY,
        }
        supervisor = subprocess.Popen([sys.executable, "-m", "ops"], cwd=ROOT, env=environment)
        try:
            _picture(f"http://127.0.0.1:{port}")
        finally:
            supervisor.terminate()
            supervisor.wait(30)


if __name__ == "__main__":
    main()
