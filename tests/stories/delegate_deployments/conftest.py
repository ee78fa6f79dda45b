"""The demo on an account whose time runs, deployed by agents that are real processes."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from connectors.models import Connector
from delegates.models import DelegateInstance, get_account_id
from delegates.operations.tokens import create_token
from deployments.journal import rate_limits
from ops.demo.pipelines import SandboxFacts
from rbac.models import Scope, User
from sandbox.process import SandboxProcess
from tests.faults.killable_process import Part
from tests.fixtures.agents import Manager
from tests.fixtures.demo import fill_in_demo
from tests.fixtures.processes import ROOT, wait_until
from tests.secret_watch.marker import planted
from tests.stories.delegate_deployments.demo_deployments import Work

StartDying = Callable[..., Part]
DYING_AGENT = (sys.executable, "-m", "tests.stories.delegate_deployments.crashing_agent")


@pytest.fixture
def work(
    live_broker: str,
    manager: Manager,
    pretend_aws: SandboxProcess,
    transactional_db: None,
    settings: Settings,
    account: Scope,
) -> Work:
    """The demo, whose connector goes through delegates and uses their own credentials."""
    rate_limits.reset_buckets()
    pretend_aws.reset()
    settings.SANDBOX_URL = pretend_aws.url
    fill_in_demo(SandboxFacts.from_wire(pretend_aws.seed()))
    connector = Connector.objects.get(identifier="sandbox_aws")
    connector.spec = {
        "credentials": "Delegate",
        "connect_through": "Delegate",
        "delegate_selectors": ["prod"],
        "endpoint_url": pretend_aws.url,
    }
    connector.secret = None
    connector.save()
    return Work(pretend_aws, User.objects.get(username="deployer"))


@pytest.fixture
def start(work: Work, manager: Manager, tmp_path: Path) -> Iterator[StartDying]:
    """Return a function that starts an agent, optionally with a crash point, and waits for it."""
    admin = User.objects.get(username="admin")
    token = create_token(actor=admin, scope=Scope.objects.get(path="account"), name="agents")
    started: list[Part] = []

    def begin(
        name: str,
        *,
        dies_at: str = "",
        program: tuple[str, ...] = DYING_AGENT,
        code: Path = ROOT,
        **more: str,
    ) -> Part:
        home = tmp_path / f"{name} {len(started)}"
        home.mkdir()
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "PYTHONPATH": str(code),
            "PYTHONUNBUFFERED": "1",
            "SLIPWAY_DELEGATE_HOME": str(home),
            "SLIPWAY_DELEGATE_PORT": "0",
            "HARNESS_ACCOUNT_ID": get_account_id(),
            "HARNESS_TOKEN": token.value,
            "HARNESS_URL": manager.url,
            "HARNESS_NAME": name,
            "HARNESS_TAGS": "prod",
            "SLIPWAY_DELEGATE_HEARTBEAT": "5",
            "AWS_ACCESS_KEY_ID": "AKIASANDBOX",
            "AWS_SECRET_ACCESS_KEY": planted("of-the-delegate"),
            "DIES_AT": dies_at,
            **more,
        }
        part = Part("output", program, environment=environment, folder=home)
        part.code = code
        started.append(part)
        part.start()
        instances = DelegateInstance.objects.filter(delegate__name=name, connection="WEBSOCKET")
        wait_until(instances.exists, f"{name}: {part.log}")
        return part

    yield begin
    for part in started:
        part.kill()
