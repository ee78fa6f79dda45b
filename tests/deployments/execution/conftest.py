"""Executions whose pipeline says what to do about failures, in front of the sandbox."""

from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from deployments.models import Execution
from rbac.operations.api_keys import create_api_key
from tests.deployments.conftest import _full_buckets, drive
from tests.fixtures.engine_driver import Drive

__all__ = ["_full_buckets", "drive"]

Strategies = Callable[[str], None]
UntilAsked = Callable[[Execution], Execution]


@pytest.fixture
def strategies(drive: Drive) -> Strategies:
    """Write `failureStrategies` into the stage of the demo pipeline, as a person would."""

    def write(yaml: str) -> None:
        lines = [f"        {line}" for line in yaml.strip("\n").split("\n")]
        type_line = "        type: Deployment\n"
        text = drive.pipeline.yaml
        assert type_line in text
        block = "\n".join(["        failureStrategies:", *lines])
        drive.pipeline.yaml = text.replace(type_line, f"{type_line}{block}\n", 1)
        drive.pipeline.save(update_fields=["yaml"])

    return write


@pytest.fixture
def until_asked(drive: Drive) -> UntilAsked:
    """Let time go by until the execution waits for a person."""

    def wait_for_intervention(execution: Execution) -> Execution:
        for _ in range(900):
            drive.pass_time(1)
            execution.refresh_from_db()
            if execution.status == "INTERVENTION_WAITING":
                return execution
            assert not execution.is_over, drive.log(execution)[-8:]
        raise AssertionError(drive.log(execution)[-8:])

    return wait_for_intervention


@pytest.fixture
def client(drive: Drive) -> APIClient:
    """A program of the deployer."""
    _, token = create_api_key(actor=drive.deployer, user=drive.deployer, name="a program")
    client = APIClient(raise_request_exception=False)
    client.credentials(HTTP_X_API_KEY=token)
    return client
