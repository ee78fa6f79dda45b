"""Executions whose pipeline says what to do about failures, in front of the sandbox."""

from collections.abc import Callable

import pytest

from deployments.models import Execution
from tests.deployments.conftest import _full_buckets, drive  # noqa: F401 - fixtures
from tests.deployments.driving import Drive

Strategies = Callable[[str], None]


@pytest.fixture
def strategies(drive: Drive) -> Strategies:  # noqa: F811 - a fixture
    """Write `failureStrategies` into the stage of the demo pipeline, as a person would."""

    def write(yaml: str) -> None:
        lines = [f"        {line}" for line in yaml.strip("\n").split("\n")]
        place = "        type: Deployment\n"
        text = drive.pipeline.yaml
        assert place in text
        block = "\n".join(["        failureStrategies:", *lines])
        drive.pipeline.yaml = text.replace(place, f"{place}{block}\n", 1)
        drive.pipeline.save(update_fields=["yaml"])

    return write


@pytest.fixture
def until_asked(drive: Drive) -> Callable[[Execution], Execution]:  # noqa: F811 - a fixture
    """Let time go by until the execution waits for a person."""

    def wait(execution: Execution) -> Execution:
        for _ in range(900):
            drive.pass_time(1)
            execution.refresh_from_db()
            if execution.status == "INTERVENTION_WAITING":
                return execution
            assert not execution.is_over, drive.log(execution)[-8:]
        raise AssertionError(drive.log(execution)[-8:])

    return wait
