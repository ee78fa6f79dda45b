"""Programs that others wrote, on a sandbox whose time runs fast enough that each test takes seconds."""

import json
from collections.abc import Iterator
from pathlib import Path

import botocore.loaders
import pytest

from sandbox.process import SandboxProcess, start_sandbox
from tests.clients.client_programs import ECS_DEPLOY, INSTALL_THE_CLI, Program, environment_of, find_cli
from tests.contract.endpoint import Aws

# A rollout of a minute takes two seconds, while a program of a second's start still sees it happen.
SPEED = 30.0
WAITERS = ("ServicesStable", "ServicesInactive", "TasksRunning", "TasksStopped")


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


@pytest.fixture
def cli(aws: Aws, patience: Path, tmp_path: Path) -> Program:
    """`aws`, version 2. Where it is missing the test is skipped, which CI takes for a failure."""
    path = find_cli()
    if path is None:
        pytest.skip(INSTALL_THE_CLI)
    environment = {**environment_of(tmp_path, aws.endpoint.url), "AWS_DATA_PATH": str(patience)}
    return Program((path, "--endpoint-url", aws.endpoint.url, "--output", "json"), environment)


@pytest.fixture
def ecs_deploy(aws: Aws, tmp_path: Path) -> Program:
    """`ecs`, the command of the package ecs-deploy."""
    return Program(ECS_DEPLOY, environment_of(tmp_path, aws.endpoint.url))
