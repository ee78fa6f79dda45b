"""Run-task steps whose calls a delegate makes, also one that is lost over RunTask."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest

from deployments.execution.operations import abort_execution
from deployments.models import StepExecution
from tests.deployments.journal.test_delegate_calls import _run_to_end as until_over
from tests.deployments.journal.test_delegate_calls import _serve_until_taken as until_taken
from tests.deployments.journal.test_delegate_calls import remote
from tests.fixtures.engine_driver import Drive
from tests.fixtures.fake_delegates import hand
from web.clock import get_database_time

pytestmark = pytest.mark.django_db(transaction=True)

Job = Callable[..., Drive]
TAGS = ("prod", "eu")
__all__ = ["remote"]


def test_tasks_are_run_and_their_output_shown_through_a_delegate(remote: Drive, job: Job) -> None:
    drive = job(more="count: 2")
    execution = until_over(drive, drive.start("done"), hand("prod-eu", tags=TAGS))
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED")
    assert sum(line.endswith("migrate | done") for line in drive.log(execution)) == 2


@pytest.mark.parametrize("is_made", [True, False], ids=["the call was made", "it was not made"])
def test_a_delegate_that_is_lost_over_the_start_runs_nothing_twice(
    remote: Drive, job: Job, is_made: bool
) -> None:
    drive = job(more="count: 2")
    first = hand("first", tags=TAGS)
    execution = drive.start("done")
    task = until_taken(drive, first, "RunTask")
    if is_made:
        first.perform(task)
    first.lose(task)
    execution = until_over(drive, execution, first)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED")
    assert Counter(drive.effects())["RunTask"] == 1
    log = drive.log(execution)
    assert sum(line.endswith("migrate | done") for line in log) == 2


def test_a_time_out_stops_tasks_through_a_delegate(remote: Drive, job: Job) -> None:
    drive = job()
    prod = hand("prod-eu", tags=TAGS)
    execution = drive.start("1.27")
    until_taken(drive, prod, "GetLogEvents")
    # Delegate tasks expire by the clock of the database.
    passed = get_database_time() - timedelta(seconds=1)
    steps = StepExecution.objects.filter(stage__execution=execution)
    steps.update(timeout_at=passed)
    drive.clock.move(90)
    until_over(drive, execution, prod)
    assert execution.failure is not None
    assert execution.failure["code"] == "TIMED_OUT"
    assert Counter(drive.effects())["StopTask"] == 1
    assert not any("Do it by hand" in line for line in drive.log(execution))


def test_an_abort_stops_tasks_through_a_delegate(remote: Drive, job: Job) -> None:
    drive = job()
    prod = hand("prod-eu", tags=TAGS)
    execution = drive.start("1.27")
    until_taken(drive, prod, "GetLogEvents")
    abort_execution(actor=drive.deployer, execution=execution)
    until_over(drive, execution, prod)
    assert execution.status == "ABORTED"
    assert Counter(drive.effects())["StopTask"] == 1
