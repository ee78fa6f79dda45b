"""Run-task steps that are tried again, and workers that die over them: nothing runs twice at once."""

from collections import Counter
from collections.abc import Callable

import pytest

from deployments.engine.lease import LEASE_DURATION
from deployments.journal.runtime import set_hook
from deployments.log import iterate_lines
from deployments.models import Execution, StepExecution
from tests.deployments.engine.simulator.schedule import Death
from tests.fixtures.engine_driver import Drive
from tests.stories.run_task.test_run_task import tasks_of

pytestmark = pytest.mark.django_db(transaction=True)

Job = Callable[..., Drive]
RETRY = (
    "{onFailure: {errors: [AllErrors], "
    "action: {type: Retry, spec: {retryCount: 1, retryIntervals: [10s], "
    "onRetryFailure: {action: {type: Abort}}}}}}"
)


def _failing(job: Job, **choices: str) -> Drive:
    return job(failing=RETRY, **choices)


def test_a_retry_after_a_time_out_first_stops_what_still_runs(job: Job) -> None:
    drive = _failing(job, timeout="2m")
    execution = drive.run("1.27")
    assert execution.failure["code"] == "TIMED_OUT"
    first, second = sorted(tasks_of(drive, execution), key=lambda task: task["createdAt"])
    assert first["stoppedReason"] == "The step that ran this task is retried"
    assert second["createdAt"] > first["stoppedAt"]
    assert second["lastStatus"] == "STOPPED"


def test_a_retry_first_stops_the_tasks_of_a_lost_answer_whose_repetition_was_refused(job: Job) -> None:
    drive = _failing(job)
    execution = drive.start("1.27")
    drive.sandbox.fault("lost_answer", service="ecs", operation="RunTask", count=1)
    drive.reconcile()
    drive.sandbox.fault("denied", service="ecs", operation="RunTask")
    steps = StepExecution.objects.filter(stage__execution=execution, retry_at__isnull=False)
    for _ in range(120):
        if not steps.exists():
            drive.pass_time(1)
    drive.sandbox.clear_faults()
    drive.pass_time(120)
    first, second = sorted(tasks_of(drive, execution), key=lambda task: task["createdAt"])
    assert first["stoppedReason"] == "The step that ran this task is retried"
    assert second["createdAt"] > first["stoppedAt"]
    assert second["lastStatus"] == "RUNNING"


def test_tasks_that_found_no_room_are_asked_for_again(job: Job) -> None:
    definition = """
family: large
networkMode: bridge
containerDefinitions:
  - {name: migrate, image: "example.com/migrate:done", memory: 7000}
"""
    drive = _failing(job, definition=definition, request="launchType: EC2\ncount: 9")
    execution = drive.run()
    assert execution.failure["code"] == "TASK_NOT_STARTED"
    assert Counter(drive.effects())["RunTask"] == 2
    assert {task["lastStatus"] for task in tasks_of(drive, execution)} == {"STOPPED"}


def _dying(drive: Drive, tag: str, every: int) -> tuple[Execution, list[str]]:
    """Run with a worker that dies at every so many-th failpoint."""
    execution, passes, deaths = drive.start(tag), [0], list[str]()

    def die(name: str) -> None:
        passes[0] += 1
        if passes[0] % every == 0 and len(deaths) < 20:
            deaths.append(name)
            raise Death

    set_hook(die)
    try:
        for _ in range(400):
            try:
                drive.reconcile()
            except Death:
                drive.clock.move(LEASE_DURATION.total_seconds() + 1)
                drive.sandbox.advance(LEASE_DURATION.total_seconds() + 1)
            execution.refresh_from_db()
            if execution.is_over:
                break
            drive.clock.move(2)
            drive.sandbox.advance(2)
    finally:
        set_hook(None)
    return execution, deaths


@pytest.mark.parametrize("every", [3, 5, 7])
@pytest.mark.parametrize(("tag", "status"), [("done", "SUCCESS"), ("crash", "FAILED")])
def test_a_worker_that_dies_again_and_again_runs_nothing_twice(
    job: Job, tag: str, status: str, every: int
) -> None:
    drive = job(more="count: 2", timeout="3h")
    execution, deaths = _dying(drive, tag, every)
    assert deaths
    assert execution.status == status
    effects = Counter(drive.effects())
    assert (effects["RunTask"], effects["RegisterTaskDefinition"]) == (1, 1)
    assert len(tasks_of(drive, execution)) == 2
    lines = [line["text"] for line in iterate_lines(execution.pk)]
    assert sum(line.endswith("migrate | starting") for line in lines) == 2
