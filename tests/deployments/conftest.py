"""The demo project on a sandbox whose clock the test moves."""

import pytest
from django.core.cache import cache
from pytest_django import Settings

from deployments.journal import rate_limits
from ops.demo.pipelines import SandboxFacts
from pipelines.models import Pipeline
from rbac.models import User
from sandbox.process import SandboxProcess
from tests.fixtures.demo import fill_in_demo
from tests.fixtures.engine_driver import Drive


@pytest.fixture(autouse=True)
def _full_buckets() -> None:
    """Each test moves its own clock: what the last one took from AWS's quota is in the future of this one."""
    rate_limits.reset_buckets()
    cache.clear()


@pytest.fixture
def drive(transactional_db: None, sandbox: SandboxProcess, settings: Settings, account: object) -> Drive:
    """The demo, ready to run."""
    settings.SANDBOX_URL = sandbox.url
    fill_in_demo(SandboxFacts.from_wire(sandbox.seed()))
    return Drive(
        sandbox=sandbox,
        deployer=User.objects.get(username="deployer"),
        pipeline=Pipeline.objects.get(identifier="rolling_demo"),
    )
