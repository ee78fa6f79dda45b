"""Fixtures for every test, and the promise that CI skips nothing."""

import os

import pytest

pytest_plugins = [
    "tests.fixtures.watching",
    "tests.fixtures.people",
    "tests.fixtures.processes",
    "tests.fixtures.browser",
    "tests.fixtures.agents",
    "tests.fixtures.provider",
    "tests.fixtures.git",
]

INSTALL_THEM = "Install both to run them too (Debian: apt-get install chromium awscli)."


# Policy, encrypted columns, claims and fences: what these packages promise, the database has to keep.
DATABASE_SENSITIVE = ("connectors", "deployments", "log", "protocol", "rbac", "routing")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name in DATABASE_SENSITIVE and "django_db" in item.keywords:
            item.add_marker("postgres")
    if os.environ.get("SLIPWAY_SOAK"):
        return
    long = [item for item in items if item.get_closest_marker("soak")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


def _skipped(config: pytest.Config) -> int:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return len(reporter.stats.get("skipped", [])) if reporter else 0


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get("CI") == "true" and _skipped(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    if count := _skipped(config):
        print(f"{count} tests were skipped, for want of a browser or the AWS CLI mostly. {INSTALL_THEM}")
