"""Programs that others wrote, on a sandbox whose time runs fast enough that each test takes seconds."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import botocore.loaders
import pytest

from sandbox.process import SandboxProcess, start_sandbox
from tests.contract.account import PRETEND_KEY, Aws

# A rollout of a minute takes two seconds, while a program of a second's start still sees it happen.
SPEED = 30.0
INSTALL_THE_CLI = "AWS CLI v2 is not installed (Debian: apt-get install awscli)"
WAITERS = ("ServicesStable", "ServicesInactive", "TasksRunning", "TasksStopped")
# Debian's own before whatever Python environments put on the path.
PLACES = ("/usr/bin/aws", "/usr/local/bin/aws", "aws")


@dataclass(frozen=True)
class Ended:
    """How a program ended, and what it said."""

    status: int
    output: str

    @property
    def json(self) -> Any:
        return json.loads(self.output)


@dataclass(frozen=True)
class Program:
    """A command with the environment in which it finds the sandbox."""

    command: tuple[str, ...]
    environment: Mapping[str, str]

    def __call__(self, *arguments: str, status: int = 0, seconds: float = 60) -> Ended:
        """Run it to its end and check its exit status."""
        done = subprocess.run(
            [*self.command, *arguments],
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == status, done.stdout
        return Ended(done.returncode, done.stdout)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Leave it running; whoever starts it ends it."""
        return subprocess.Popen(
            [*self.command, *arguments],
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@pytest.fixture(scope="session")
def fast_sandbox() -> Iterator[SandboxProcess]:
    process = start_sandbox(paused=False, speed=SPEED)
    yield process
    process.stop()


@pytest.fixture
def aws(fast_sandbox: SandboxProcess) -> Aws:
    account = Aws.pretend(fast_sandbox)
    account.empty()
    return account


def _environment(home: Path, url: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "AWS_ACCESS_KEY_ID": PRETEND_KEY,
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": url,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_PAGER": "",
        # Lines as they come, though nobody sits at a terminal.
        "PYTHONUNBUFFERED": "1",
        "LC_ALL": "C.UTF-8",
    }


@pytest.fixture(scope="session")
def patience(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """AWS's own waiters, asking each second instead of each fifteen: a folder for AWS_DATA_PATH."""
    folder = tmp_path_factory.mktemp("models")
    model = botocore.loaders.create_loader().load_service_model("ecs", "waiters-2")
    # An older program does not know every operation that newer waiters ask.
    waiters = {name: {**model["waiters"][name], "delay": 1} for name in WAITERS}
    place = folder / "ecs" / "2014-11-13" / "waiters-2.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps({**model, "waiters": waiters}))
    return folder


def _find_cli() -> str | None:
    for place in PLACES:
        found = shutil.which(place)
        version = subprocess.run([found, "--version"], capture_output=True, text=True) if found else None
        if found and version and version.stdout.startswith("aws-cli/2"):
            return found
    return None


@pytest.fixture
def cli(aws: Aws, patience: Path, tmp_path: Path) -> Program:
    """`aws`, version 2. Where it is missing the test is skipped, which CI takes for a failure."""
    found = _find_cli()
    if found is None:
        pytest.skip(INSTALL_THE_CLI)
    environment = {**_environment(tmp_path, aws.endpoint.url), "AWS_DATA_PATH": str(patience)}
    return Program((found, "--endpoint-url", aws.endpoint.url, "--output", "json"), environment)


@pytest.fixture
def ecs_deploy(aws: Aws, tmp_path: Path) -> Program:
    """`ecs`, the command of the package ecs-deploy."""
    program = "import sys; from ecs_deploy.cli import ecs; sys.exit(ecs())"
    return Program((sys.executable, "-W", "ignore", "-c", program), _environment(tmp_path, aws.endpoint.url))
