"""The command line beside a web server, a worker, and an AWS account whose time runs fast."""

from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest
from pytest_django import Settings

from ops.demo.pipelines import SandboxFacts
from ops.demo.seed import seed_demo
from rbac.models import Scope, User
from sandbox.process import SandboxProcess, start_sandbox
from tests.fixtures.command_line import CommandLine, sign_in


@pytest.fixture
def fast_sandbox(settings: Settings) -> Iterator[SandboxProcess]:
    """A pretend account in which time runs forty times as fast."""
    process = start_sandbox(paused=False, speed=40)
    settings.SANDBOX_URL = process.url
    yield process
    process.stop()


@pytest.fixture
def deployer_line(
    transactional_db: None,
    account: Scope,
    fast_sandbox: SandboxProcess,
    site: str,
    worker: Popen[bytes],
    tmp_path: Path,
) -> CommandLine:
    """The command line of the demo's deployer."""
    seed_demo(SandboxFacts.from_wire(fast_sandbox.seed()))
    return sign_in(tmp_path, site, User.objects.get(username="deployer"))
