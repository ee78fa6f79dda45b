"""What the agent holds, and the moment from which a write is too late."""

import time

from delegates.agent.executors import ExecutorContext, TaskResult, execute_task
from delegates.agent.task_runner import get_assignment_time
from delegates.agent.tasks import AgentTask, HeldTask, HeldTasks
from tests.delegates.agent.held_tasks import Said


def task(task_id: str = "t", *, kind: str = "aws", age: float = 0, **more: object) -> AgentTask:
    params = {"service": "ecs", "operation": "UpdateService", "region": "us-east-1", "params": {}}
    given = {"id": task_id, "kind": kind, "fence": 1, "params": params, **more}
    return AgentTask(**given, acquired_at=time.monotonic() - age)


def test_capacity_is_kept_and_given_back() -> None:
    work = HeldTasks(2)
    first, second = work.add(task("a")), work.add(task("b"))
    assert (work.free, work.idle.is_set()) == (0, False)
    work.remove(first, failed=False)
    work.remove(second, failed=True)
    assert (work.free, work.idle.is_set()) == (2, True)
    assert (work.ended_count, work.failed_count) == (2, 1)


def test_the_most_at_once_is_told_to_each_asker_since_it_asked_last() -> None:
    work = HeldTasks(5)
    assert work.read_peak_counts("heartbeat") == (0, 0)
    held = [work.add(task(name)) for name in "abc"]
    held.append(work.add(task("d", kind="check")))
    for one in held:
        work.remove(one, failed=False)
    assert work.read_peak_counts("heartbeat") == (3, 1)
    assert work.read_peak_counts("heartbeat") == (0, 0)


def test_abort_and_loss_stop_a_task_and_are_told_apart() -> None:
    work = HeldTasks(5)
    aborted, lost, other = (work.add(task(name)) for name in "abc")
    work.stop(["a"], ["b", "unknown"])
    assert (aborted.is_aborted, aborted.is_lost) == (True, False)
    assert (lost.is_aborted, lost.is_lost) == (False, True)
    assert not other.stopped.is_set()


def test_a_task_acquired_again_replaces_its_older_attempt() -> None:
    work = HeldTasks(5)
    older, newer = work.add(task("a")), work.add(task("a"))
    assert older.is_lost
    work.remove(older, failed=True)
    assert work.list_running() == [newer]


def test_an_answer_that_lay_in_the_socket_counts_from_when_it_was_given() -> None:
    asked_at = time.monotonic() - 90
    assert get_assignment_time({"held_seconds": 12.0}, asked_at) == asked_at + 12
    assert get_assignment_time({"held_seconds": 500.0}, asked_at) <= time.monotonic()


def test_a_write_is_not_sent_more_than_five_seconds_after_it_was_acquired() -> None:
    answer = execute_task(HeldTask(task(is_write=True, age=5.1)), ExecutorContext(Said()))
    assert answer.status == TaskResult.NOT_SENT
    assert answer.error is not None
    assert answer.error["code"] == "TooLate"


def test_a_task_that_was_aborted_before_it_began_is_not_run() -> None:
    held = HeldTask(task())
    held.stopped.set()
    assert execute_task(held, ExecutorContext(Said())).status == TaskResult.ABORTED


def test_an_operation_outside_the_list_says_how_to_allow_it() -> None:
    params = {"service": "s3", "operation": "PutObject", "region": "us-east-1", "params": {}}
    answer = execute_task(HeldTask(task(params=params)), ExecutorContext(Said()))
    assert answer.error is not None
    assert answer.error["code"] == "OperationNotAllowed"
    assert answer.error["capability"] is False
    assert "SLIPWAY_DELEGATE_ALLOW_OPERATIONS=s3:PutObject" in answer.error["message"]


def test_a_task_of_an_unknown_kind_says_to_upgrade() -> None:
    answer = execute_task(HeldTask(task(kind="teleport")), ExecutorContext(Said()))
    assert answer.error is not None
    assert "upgrade" in answer.error["message"]


def test_parameters_that_lack_something_fail_only_their_task() -> None:
    answer = execute_task(
        HeldTask(task(params={"service": "ecs", "operation": "UpdateService"})), ExecutorContext(Said())
    )
    assert answer.error is not None
    assert answer.error["code"] == "BadParameters"
