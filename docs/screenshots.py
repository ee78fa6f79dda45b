"""Screenshots of a demo in a folder of its own: the picture of the README, or the main pages in every form.

`python docs/screenshots.py` makes docs/screenshot.png; with `--pages`, the main pages, light, dark and
narrow, in test-results/screenshots.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.fixtures.chromium import SWITCHES, find_chromium  # noqa: E402
from tests.ports import free_port  # noqa: E402

README_PICTURE = ROOT / "docs" / "screenshot.png"
PAGES_FOLDER = ROOT / "test-results" / "screenshots"
PASSWORD, KEY = "only for the picture", "slp_pat_only_for_the_picture"
TIMEOUT_SECONDS = 120.0
# Theme and width of each form.
FORMS = {
    "light": ("light", 1280),
    "dark": ("dark", 1280),
    "narrow": ("light", 390),
    "narrow-dark": ("dark", 390),
}
# The main pages by name; {execution}, {pipeline}, {service} and {environment} are keys of the demo.
PAGES = {
    "overview": "/",
    "deployments": "/deployments/",
    "execution": "/deployments/{execution}/",
    "timeline": "/deployments/{execution}/timeline/",
    "approvals": "/approvals/",
    "pipelines": "/pipelines/",
    "pipeline": "/pipelines/{pipeline}/",
    "pipeline-editor": "/pipelines/{pipeline}/edit/",
    "run-pipeline": "/pipelines/{pipeline}/run/",
    "services": "/services/",
    "service-dashboard": "/services/{service}/dashboard/",
    "inventory": "/inventory/",
    "drift": "/drift/",
    "environments": "/environments/",
    "environment": "/environments/{environment}/",
    "instances": "/instances/",
    "events": "/events/",
    "delegates": "/delegates/",
    "new-delegate": "/delegates/new/",
    "connectors": "/connectors/",
    "secrets": "/secrets/",
    "files": "/files/",
    "access": "/access/scopes/",
    "people": "/access/people/",
    "roles": "/access/roles/",
    "new-role": "/access/roles/new/",
    "who-can": "/access/who/",
    "audit": "/access/audit/",
    "account": "/account/",
    "passkeys": "/account/passkeys/",
    "new-passkey": "/account/passkeys/new/",
    "api-reference": "/api/docs/",
    "api-resource": "/api/docs/connectors/",
    "administration": "/admin/",
    "system": "/system/",
    "retention": "/system/retention/",
    "acceptance-runs": "/system/acceptance/",
    "new-acceptance-run": "/system/acceptance/new/",
    "triggers": "/pipelines/{pipeline}/triggers/",
    "new-trigger": "/pipelines/{pipeline}/triggers/new/",
    "new-webhook-trigger": "/pipelines/{pipeline}/triggers/new/webhook/",
    "new-image-trigger": "/pipelines/{pipeline}/triggers/new/image/",
    "git-syncs": "/git-syncs/",
    "new-git-sync": "/git-syncs/new/",
    "policy-rules": "/policy-rules/",
    "new-policy-rule": "/policy-rules/new/",
    "test-policy": "/policy-rules/test/",
    "notification-rules": "/notifications/",
    "new-notification-rule": "/notifications/new/",
    "new-secret": "/secrets/new/",
    "new-connector": "/connectors/new/",
}


def _wait_until(condition: Callable[[], Any], description: str) -> Any:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (result := condition()):
        if time.monotonic() > deadline:
            sys.exit(f"{description} did not happen within {TIMEOUT_SECONDS:g} s")
        time.sleep(0.2)
    return result


def _call_api(url: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"x-api-key": KEY, "content-type": "application/json"}
    with urlopen(Request(f"{url}/api/v1/{path}", data=data, headers=headers), timeout=30) as response:  # noqa: S310
        document: dict[str, Any] = json.load(response)
        return document


def _is_ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/readyz", timeout=5):  # noqa: S310
            return True
    except (URLError, OSError):
        return False


def _get_key(url: str, path: str) -> Any:
    return _call_api(url, path)["results"][0]["id"]


def _run_pipeline(url: str, pipeline: int, tag: str) -> str:
    return str(_call_api(url, f"pipelines/{pipeline}/executions", {"artifact": {"tag": tag}})["id"])


def _run_to_end(url: str, pipeline: int, tag: str) -> str:
    execution = _run_pipeline(url, pipeline, tag)
    _wait_until(lambda: _call_api(url, f"executions/{execution}")["ended_at"], f"the end of the run of {tag}")
    return execution


def _sign_in(page: Page, url: str, user: str) -> None:
    page.goto(f"{url}/sign-in/")
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", PASSWORD)
    with page.expect_navigation():
        page.press("input[name=password]", "Enter")


def take_readme_picture(browser: Browser, url: str, pipeline: int) -> None:
    """Take the execution page in the middle of a rollout."""
    execution = _run_pipeline(url, pipeline, "1.28")
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    _sign_in(page, url, "deployer")
    page.goto(f"{url}/deployments/{execution}/")
    # The second rollout in full swing: both tasks run, and the log tells of it.
    page.get_by_text("Waiting for", exact=False).last.wait_for(timeout=TIMEOUT_SECONDS * 1000)
    page.get_by_text("# AWS Event", exact=False).last.wait_for(timeout=TIMEOUT_SECONDS * 1000)
    page.screenshot(path=README_PICTURE)


def take_pages(browser: Browser, url: str, pipeline: int) -> None:
    """Take every main page in every form, after a run that failed."""
    keys = {
        "execution": _run_to_end(url, pipeline, "crash"),
        "pipeline": pipeline,
        "service": _get_key(url, "services?identifier=myapp"),
        "environment": _get_key(url, "environments"),
    }
    PAGES_FOLDER.mkdir(parents=True, exist_ok=True)
    for form, (theme, width) in FORMS.items():
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)  # type: ignore[arg-type]
        _sign_in(page, url, "admin")
        for name, path in PAGES.items():
            page.goto(url + path.format(**keys))
            # Live pages never become idle; scripts have drawn by then.
            page.wait_for_timeout(500)
            page.screenshot(path=PAGES_FOLDER / f"{name}-{form}.png")
        page.close()
    print(f"{len(PAGES) * len(FORMS)} screenshots in {PAGES_FOLDER.relative_to(ROOT)}")


@contextmanager
def start_demo() -> Iterator[str]:
    """Start Slipway with the demo; yields its URL."""
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
            url = f"http://127.0.0.1:{port}"
            _wait_until(lambda: _is_ready(url), "being ready")
            yield url
        finally:
            supervisor.terminate()
            supervisor.wait(30)


def main() -> None:
    """Start the demo, run the pipeline once, and take the pictures."""
    take = take_pages if "--pages" in sys.argv[1:] else take_readme_picture
    with start_demo() as url:
        pipeline = _get_key(url, "pipelines?identifier=rolling_demo")
        _run_to_end(url, pipeline, "1.27")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(SWITCHES))
            take(browser, url, pipeline)
            browser.close()


if __name__ == "__main__":
    main()
