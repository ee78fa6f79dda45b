"""A connector through delegates to the pretend account, and a worker that sets up events."""

from datetime import datetime, timedelta

import pytest
from pytest_django import Settings

from connectors.models import Connector, EventQueue, EventQueueSetup
from delegates.event_queues.setups import advance_setup, list_due_setups
from rbac.models import Scope, User
from sandbox.process import SandboxProcess
from tests.api.sample_project import make_world
from tests.fixtures.fake_delegates import Hand
from web.clock import get_database_time

REGION, TAG = "us-east-1", "vpc"


@pytest.fixture
def remote_connector(
    project: Scope, admin: User, sandbox: SandboxProcess, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Connector:
    """A connector with the credentials of delegates with a tag, without queues."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "of-the-delegate")
    settings.ALLOW_AWS_ENDPOINTS = True
    connector = make_world(project, admin, admin).connector
    connector.spec = {
        "credentials": "Delegate",
        "connect_through": "Delegate",
        "delegate_selectors": [TAG],
        "endpoint_url": sandbox.url,
        "test_region": REGION,
    }
    connector.secret = None
    connector.save()
    EventQueue.objects.all().delete()
    EventQueueSetup.objects.all().delete()
    return connector


class Worker:
    """A worker whose clock moves with that of the sandbox."""

    def __init__(self, sandbox: SandboxProcess) -> None:
        self.sandbox = sandbox
        self.now: datetime = get_database_time()

    def advance(self, seconds: float = 0) -> None:
        """Run the passes that are due after some seconds."""
        # On a slow machine, a set-up that was just started may be due later than the worker's clock.
        self.now = max(self.now, get_database_time()) + timedelta(seconds=seconds)
        self.sandbox.advance(seconds)
        for pk in list_due_setups(self.now):
            assert advance_setup(pk, self.now)

    def follow(self, setup: EventQueueSetup, agent: Hand | None = None) -> EventQueueSetup:
        """Run passes, and the calls of an agent, until the set-up ends."""
        for _ in range(60):
            self.advance(5)
            if agent is not None:
                agent.serve()
            setup.refresh_from_db()
            if not setup.is_running:
                return setup
        raise AssertionError(setup.message)


@pytest.fixture
def worker(sandbox: SandboxProcess) -> Worker:
    return Worker(sandbox)


def list_effects(sandbox: SandboxProcess, mark: int) -> list[str]:
    """Return the operations since a mark that changed something in the pretend account."""
    return [entry["operation"] for entry in sandbox.journal(mark) if entry["effect"]]
