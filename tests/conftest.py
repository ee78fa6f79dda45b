"""Fixtures for every test, and the promise that CI skips nothing."""

import os
from pathlib import Path

import pytest
from django.db import connection

from tests.lanes import ALL, DATABASE, LANE_VARIABLE, LANES, POSTGRES, deselect_tests, list_postgres_files

pytest_plugins = [
    "tests.fixtures.speedups",
    "tests.fixtures.column_lengths",
    "tests.fixtures.secret_watch",
    "pytester",
    "tests.fixtures.people",
    "tests.fixtures.processes",
    "tests.fixtures.browser",
    "tests.fixtures.agents",
    "tests.fixtures.identity_provider",
    "tests.fixtures.script_gates",
    "tests.fixtures.git",
    "tests.fixtures.ssh",
    "tests.fixtures.terraform_cloud",
    "tests.fixtures.vault",
]

NO_TERRAFORM = "there is no terraform program on this machine"
NO_TERRAFORM_PROVIDER = "the AWS provider of Terraform cannot be installed here"
INSTALL_THEM = "Install both to run them too (Debian: apt-get install chromium awscli)."


COLLECTED = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    help_text = "the tests to run where no path is given: see tests/lanes.py"
    parser.addoption("--lane", choices=LANES, default=ALL, help=help_text)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        config.option.lane = ALL
    os.environ[LANE_VARIABLE] = config.option.lane


@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.option.lane != POSTGRES or collection_path.suffix != ".py":
        return None
    return str(collection_path.relative_to(config.rootpath)) not in list_postgres_files() or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not os.environ.get("SLIPWAY_SOAK"):
        _deselect(config, items, {item.nodeid for item in items if item.get_closest_marker("soak")})
    config.stash[COLLECTED] = [item.nodeid for item in items]
    # A list of the tests has those of every database.
    if not config.option.collectonly:
        _deselect(config, items, {item.nodeid for item in items if not _is_of_this_database(item)})
    _deselect(config, items, deselect_tests(config.option.lane, config.stash[COLLECTED]))
    if config.option.lane == DATABASE:
        _deselect(config, items, {item.nodeid for item in items if not _uses_database(item)})


def _is_of_this_database(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("only_on")
    return marker is None or marker.args[0] == connection.vendor


def _uses_database(item: pytest.Item) -> bool:
    fixtures = {"db", "transactional_db", "django_db_setup", "live_server"}
    return item.get_closest_marker("django_db") is not None or not fixtures.isdisjoint(
        getattr(item, "fixturenames", ())
    )


def _deselect(config: pytest.Config, items: list[pytest.Item], test_ids: set[str]) -> None:
    if test_ids:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in test_ids])
        items[:] = [item for item in items if item.nodeid not in test_ids]


def _skipped(config: pytest.Config) -> list[pytest.TestReport]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return list(reporter.stats.get("skipped", [])) if reporter else []


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    # No registry that CI reaches has Terraform: it is tried where the machine brings it.
    unwanted = [
        report
        for report in _skipped(session.config)
        if not any(reason in str(report.longrepr) for reason in (NO_TERRAFORM, NO_TERRAFORM_PROVIDER))
    ]
    if os.environ.get("CI") == "true" and unwanted:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        print(f"\nCI fails, because {len(unwanted)} tests were skipped: in CI everything is tried.")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    if skipped := _skipped(config):
        print(
            f"{len(skipped)} tests were skipped, for want of a browser or the AWS CLI mostly. {INSTALL_THEM}"
        )
