"""Fixtures for every test, and the promise that CI skips nothing."""

import os

import pytest

from tests.selecting import mark_for_postgres

pytest_plugins = [
    "tests.fixtures.speed",
    "tests.fixtures.watching",
    "pytester",
    "tests.fixtures.people",
    "tests.fixtures.processes",
    "tests.fixtures.browser",
    "tests.fixtures.agents",
    "tests.fixtures.provider",
    "tests.fixtures.git",
    "tests.fixtures.ssh",
    "tests.fixtures.terraform_cloud",
]

NO_TERRAFORM = "there is no terraform program on this machine"
INSTALL_THEM = "Install both to run them too (Debian: apt-get install chromium awscli)."


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark_for_postgres(items)
    if os.environ.get("SLIPWAY_SOAK"):
        return
    long = [item for item in items if item.get_closest_marker("soak")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


def _skipped(config: pytest.Config) -> list[pytest.TestReport]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return list(reporter.stats.get("skipped", [])) if reporter else []


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    # No registry that CI reaches has Terraform: it is tried where the machine brings it.
    unwanted = [one for one in _skipped(session.config) if NO_TERRAFORM not in str(one.longrepr)]
    if os.environ.get("CI") == "true" and unwanted:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    if skipped := _skipped(config):
        print(
            f"{len(skipped)} tests were skipped, for want of a browser or the AWS CLI mostly. {INSTALL_THEM}"
        )
