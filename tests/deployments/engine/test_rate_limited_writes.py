"""Writes that wait for the quota: in line, and never on what was read before the wait."""

from datetime import datetime, timedelta

import pytest

from deployments.journal import rate_limits
from deployments.journal.rate_limits import get_rate_limit
from deployments.models import Execution
from tests.fixtures.engine_driver import Drive
from tests.fixtures.many_services import make_fleet

pytestmark = pytest.mark.django_db(transaction=True)

HERE = "123456789012/us-east-1"


def use_tokens(drive: Drive, operation: str) -> None:
    """Leave no token for this operation."""
    assert rate_limits.take_tokens(HERE, get_rate_limit("ecs", operation), 1000, drive.clock.now()) > 0


def test_a_write_that_waited_is_not_sent_over_somebody_elses_deployment(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.start("1.28")
    use_tokens(drive, "UpdateService")
    drive.reconcile()
    assert drive.calls(execution)[-1].operation == "DescribeServices", "the update waits for a token"
    mark = drive.mark()
    drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", "forceNewDeployment": True})
    drive.until_over(execution)
    assert execution.outcome == "SUPERSEDED"
    assert drive.effects(after=mark).count("UpdateService") == 1, "theirs"


def test_a_write_that_waited_is_sent_once_it_has_a_token(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.start("1.28")
    use_tokens(drive, "UpdateService")
    mark = drive.mark()
    drive.reconcile()
    drive.until_over(execution)
    assert execution.outcome == "COMPLETED"
    assert drive.effects(after=mark).count("UpdateService") == 1


def test_eight_that_start_at_once_register_as_fast_as_a_quarter_of_the_quota_allows(drive: Drive) -> None:
    executions = make_fleet(8).start(["1.27"] * 8)
    mark = drive.mark()
    for execution in executions:
        drive.until_over(execution)
    assert set(Execution.objects.values_list("outcome", flat=True)) == {"COMPLETED"}
    journal = drive.sandbox.journal(mark)
    register_times = [
        datetime.fromisoformat(entry["at"])
        for entry in journal
        if entry["operation"] == "RegisterTaskDefinition"
    ]
    assert len(register_times) == 8
    assert register_times[-1] - register_times[0] >= timedelta(seconds=4 * 3 - 1)
