"""Calls that wait for the quota: writes never rely on reads from before the wait, checklists keep theirs."""

from collections import Counter
from datetime import datetime

import pytest
from pytest_django import Settings

from deployments.engine.service_waits import get_rate_limit_key
from deployments.execution.operations import roll_back_execution
from deployments.journal import rate_limits
from deployments.journal.engine_signals import RateLimited
from deployments.journal.rate_limits import get_rate_limit
from deployments.models import Execution, StageExecution
from tests.fixtures.engine_driver import Clock, Drive
from tests.fixtures.many_services import make_fleet

pytestmark = pytest.mark.django_db(transaction=True)


def use_tokens(drive: Drive, operation: str) -> None:
    """Leave no token for this operation, also none for newcomers."""
    now, stage = drive.clock.now(), StageExecution.objects.exclude(account="").latest("pk")
    key = get_rate_limit_key(stage)
    assert rate_limits.take_tokens(key, get_rate_limit("ecs", operation), 1000, now) > 0
    for name in map(str, range(1000)):
        try:
            rate_limits.take_token(key, "ecs", operation, holder=name, owner=name, now=now)
        except RateLimited:
            return


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


class _RunningClock(Clock):
    """A clock that also moves within a pass: a read at the time of the last write does not count."""

    def now(self) -> datetime:
        self.move(0.001)
        return self.moment


@pytest.mark.parametrize("denied", ["", "DescribeTaskDefinition"])
def test_a_checklist_makes_each_read_once_although_the_quota_grants_one_at_a_time(
    drive: Drive, settings: Settings, denied: str
) -> None:
    drive.run("1.27")
    execution = drive.run("1.28")
    mark, drive.clock = drive.mark(), _RunningClock(drive.clock.moment)
    roll_back_execution(actor=drive.deployer, execution=execution)
    while "UpdateService" not in drive.effects(after=mark):
        drive.pass_time(1)
    settings.AWS_QUOTA_SHARE = 0.04
    if denied:
        drive.sandbox.fault("denied", service="ecs", operation=denied)
    drive.until_over(execution)
    assert (execution.outcome == "ROLLED_BACK") is not bool(denied)
    operations = [entry["operation"] for entry in drive.sandbox.journal(mark)]
    last_write = max(number for number, name in enumerate(operations) if name == "DeregisterTaskDefinition")
    reads = execution.calls.filter(phase__startswith="verify", service="ecs")
    assert reads.filter(operation="DescribeServices").count() > 1
    assert Counter(operations[last_write + 1 :]) == Counter(reads.values_list("operation", flat=True))
    assert set(reads.values_list("result", flat=True)) == {""}


def run_fleet(drive: Drive, count: int) -> Counter[str]:
    """Deploy so many services at once where AWS's quotas are enforced; return the throttled operations."""
    executions = make_fleet(count).start(["1.27"] * count)
    drive.sandbox.enforce_quotas()
    mark = drive.mark()
    for execution in executions:
        drive.until_over(execution)
    assert set(Execution.objects.values_list("outcome", flat=True)) == {"COMPLETED"}
    journal = drive.sandbox.journal(mark)
    assert sum(entry["operation"] == "CreateService" and not entry["error"] for entry in journal) == count
    return Counter(entry["operation"] for entry in journal if entry["fault"])


def test_twelve_that_start_at_once_exceed_no_quota_of_aws(drive: Drive) -> None:
    assert run_fleet(drive, 12) == {}


def test_all_are_deployed_although_another_tool_uses_the_quota_up(drive: Drive) -> None:
    drive.sandbox.fault("throttle", operation="RegisterTaskDefinition", count=2)
    assert run_fleet(drive, 6) == {"RegisterTaskDefinition": 2}, "one throttled call slows all others down"
