"""A command line in an empty folder, and the demo behind a web server of this process."""

from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer

from tests.deployments.conftest import _full_buckets, drive  # noqa: F401 - fixtures
from tests.fixtures.command_line import CommandLine, sign_in
from tests.fixtures.engine_driver import Drive


@pytest.fixture
def command_line(tmp_path: Path) -> CommandLine:
    """A command line that was never used."""
    return CommandLine(tmp_path)


@pytest.fixture
def deployer_line(tmp_path: Path, drive: Drive, live_server: LiveServer) -> CommandLine:  # noqa: F811
    """The command line of the demo's deployer."""
    return sign_in(tmp_path, live_server.url, drive.deployer)
