"""Tasks are taken once, answered once, and only by who holds them."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from delegates.models import (
    AllowlistEntry,
    BlocklistEntry,
    Delegate,
    DelegateInstance,
    DelegateTask,
    DelegateToken,
    LateAnswer,
    TaskLogChunk,
)
from delegates.protocol.leases import sweep_expired_leases
from delegates.protocol.limits import LEASE
from delegates.protocol.logs import LATE_LOG_WINDOW, MAX_ALLOWANCE_BYTES, THROTTLED_MESSAGE, compute_allowance
from delegates.protocol.problems import LogGap, LogThrottled, NoSuchTask, StaleFence, TaskAnswered
from delegates.queries.tasks import read_task_log
from guards.limits import TASK_LOG_RATE
from tests.delegates.protocol.fake_agents import Agent, offer_task, register_agent, send_request
from tests.fixtures.delegates import make_task
from web.clock import get_database_time
from web.http.problems import BadInput

pytestmark = pytest.mark.django_db


def test_a_task_is_handed_out_with_a_lease_and_a_fence(agent: Agent):
    task = offer_task(agent, timeout_seconds=7)
    (assignment,) = agent.acquire()
    assert (assignment["id"], assignment["kind"], assignment["fence"], assignment["attempt"]) == (
        str(task.pk),
        "check",
        1,
        1,
    )
    assert assignment["params"] == {"url": "https://ecs.us-east-1.amazonaws.com"}
    assert (assignment["timeout_seconds"], assignment["mask"]) == (7, [])
    task.refresh_from_db()
    assert (task.status, task.instance, task.instance_name) == ("STARTED", agent.instance, "eu on host-1")
    assert task.lease_until is not None
    assert task.started_at is not None
    assert task.lease_until - task.started_at == LEASE
    assert agent.acquire() == []


def test_a_task_for_another_delegate_is_not_handed_out(agent: Agent, token: DelegateToken):
    offer_task(register_agent(token, "us"))
    make_task(agent.instance.delegate.scope)
    assert agent.acquire() == []


def test_a_line_with_an_absurd_time_has_that_of_its_receipt(agent: Agent):
    task = offer_task(agent)
    (assignment,) = agent.acquire()
    before = get_database_time()
    line = {"t": 2**63 - 1, "level": "INFO", "text": "a"}
    agent.post(f"tasks/{task.pk}/logs", {"fence": assignment["fence"], "sequence": 0, "lines": [line]})
    (stored,) = json.loads(TaskLogChunk.objects.get().lines)
    assert before - timedelta(seconds=1) < datetime.fromtimestamp(stored["t"] / 1000, UTC)
    assert read_task_log(task).lines[0].at <= get_database_time()


def test_a_log_with_an_absurd_time_can_be_read(agent: Agent):
    task = offer_task(agent)
    lines = [{"t": 2**63 - 1, "level": "INFO", "text": "a"}]
    TaskLogChunk.objects.create(task=task, sequence=0, count=1, lines=json.dumps(lines))
    assert [line.text for line in read_task_log(task).lines] == ["a"]


@pytest.mark.parametrize(
    "values",
    [
        {"status": "SUCCEEDED"},
        {"abort_requested": True},
        {"deadline": timezone.now() - timedelta(seconds=1)},
    ],
)
def test_what_is_over_is_not_handed_out(agent: Agent, values: dict[str, Any]):
    offer_task(agent, **values)
    assert agent.acquire() == []


@pytest.mark.parametrize("values", [{"draining": True}, {"admission": "DISABLED"}])
def test_a_delegate_that_may_not_work_gets_nothing(agent: Agent, values: dict[str, Any]):
    offer_task(agent)
    Delegate.objects.update(**values)
    assert agent.acquire() == []


def test_nobody_gets_more_than_it_has_room_for(token: DelegateToken):
    agent = register_agent(token, capacity=3)
    for _ in range(5):
        offer_task(agent)
    assert len(agent.acquire(free=2)) == 2
    assert len(agent.acquire(free=10)) == 1
    assert agent.acquire(free=10) == []


def test_an_answer_is_taken_once_and_a_repeat_is_fine(agent: Agent):
    task = offer_task(agent)
    (assignment,) = agent.acquire()
    agent.complete(assignment, result={"answer": 42, "huge": 10**30, "text": "nul \0 and half \ud800"})
    agent.complete(assignment, "FAILED")
    task.refresh_from_db()
    assert (task.status, task.lease_until) == ("SUCCEEDED", None)
    large_number = "1000000000000000000000000000000"
    assert json.loads(task.result) == {
        "answer": 42,
        "huge": large_number,
        "text": "nul \ufffd and half \ufffd",
    }
    assert AllowlistEntry.objects.get().delegate == agent.instance.delegate
    assert not LateAnswer.objects.exists()


@pytest.mark.parametrize(("capability", "blocks"), [(True, 1), (False, 0)])
def test_only_a_missing_capability_blocks(agent: Agent, capability: bool, blocks: int):
    task = offer_task(agent)
    (assignment,) = agent.acquire()
    agent.complete(
        assignment, "FAILED", result=None, error={"message": "No such host", "capability": capability}
    )
    task.refresh_from_db()
    assert (task.status, task.reason) == ("FAILED", "No such host")
    assert BlocklistEntry.objects.count() == blocks
    assert AllowlistEntry.objects.count() == 1 - blocks


def expire_lease(task: DelegateTask) -> None:
    DelegateTask.objects.filter(pk=task.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
    assert sweep_expired_leases() == 1
    task.refresh_from_db()


def test_a_read_whose_agent_is_lost_is_done_by_another(agent: Agent, token: DelegateToken):
    task = offer_task(agent)
    (first,) = agent.acquire()
    agent.log(first, 0, "half done")
    expire_lease(task)
    assert (task.status, task.instance, task.offered_to, task.fence) == ("QUEUED", None, None, 1)
    other = register_agent(token, "us")
    DelegateTask.objects.update(offered_to=other.instance.delegate)
    (second,) = other.acquire()
    assert (second["fence"], second["attempt"]) == (2, 2)
    with pytest.raises(StaleFence):
        agent.complete(first, result={"from": "the past"})
    late_answer = LateAnswer.objects.get()
    assert (late_answer.fence, late_answer.instance) == (1, agent.instance)
    assert "the past" in late_answer.body
    other.log(second, 0, "all done")
    other.complete(second)
    task.refresh_from_db()
    assert (task.status, task.instance) == ("SUCCEEDED", other.instance)
    assert "half" not in "".join(TaskLogChunk.objects.values_list("lines", flat=True))


def test_what_cannot_be_repeated_fails_when_its_agent_is_lost(agent: Agent):
    task = offer_task(agent, repeatable=False)
    (assignment,) = agent.acquire()
    expire_lease(task)
    assert (task.status, (task.error or {})["code"]) == ("FAILED", "DELEGATE_LOST")
    assert "eu on host-1" in task.reason
    for _ in range(2):
        with pytest.raises(StaleFence):
            agent.complete(assignment)
    assert LateAnswer.objects.count() == 1
    task.refresh_from_db()
    assert task.status == "FAILED"


def test_leases_are_held_by_renewing_them(agent: Agent):
    task = offer_task(agent)
    (assignment,) = agent.acquire()
    DelegateTask.objects.update(lease_until=timezone.now() + timedelta(seconds=1))
    lease = {"tasks": [{"id": assignment["id"], "fence": 1}]}
    assert agent.post("tasks/renew", lease) == {"lost": [], "aborted": []}
    task.refresh_from_db()
    assert task.lease_until is not None
    assert task.lease_until > timezone.now() + LEASE / 2
    DelegateTask.objects.update(abort_requested=True)
    assert agent.post("tasks/renew", lease) == {"lost": [], "aborted": [assignment["id"]]}


@pytest.mark.parametrize(
    "values",
    [
        {"fence": 2},
        {"status": "FAILED"},
        {"lease_until": timezone.now() - timedelta(hours=1)},
        {"deadline": timezone.now() - timedelta(hours=1)},
    ],
    ids=["taken by another", "ended", "too late", "past its deadline"],
)
def test_a_lease_that_is_over_is_not_given_back(agent: Agent, values: dict[str, Any]):
    offer_task(agent)
    (assignment,) = agent.acquire()
    DelegateTask.objects.update(**values)
    before = DelegateTask.objects.get().lease_until
    lease = {"tasks": [{"id": assignment["id"], "fence": 1}]}
    assert agent.post("tasks/renew", lease)["lost"] == [assignment["id"]]
    assert DelegateTask.objects.get().lease_until == before


@pytest.mark.parametrize("route", ["complete", "logs"])
def test_a_task_of_another_delegate_looks_like_none(agent: Agent, token: DelegateToken, route: str):
    other = register_agent(token, "us")
    offer_task(other)
    (foreign_task,) = other.acquire()
    body = {"fence": 1, "status": "SUCCEEDED", "sequence": 0, "lines": []}
    for task_id in (foreign_task["id"], str(uuid4()), "-"):
        with pytest.raises(NoSuchTask) as error:
            agent.post(f"tasks/{task_id}/{route}", body)
        assert error.value.detail == "There is no such task."
    assert agent.post("tasks/renew", {"tasks": [foreign_task]})["lost"] == [foreign_task["id"]]
    assert not LateAnswer.objects.exists()


def test_a_fence_that_was_never_given_is_no_task(agent: Agent):
    offer_task(agent)
    (assignment,) = agent.acquire()
    with pytest.raises(NoSuchTask):
        agent.complete({**assignment, "fence": 2})


def test_log_lines_are_kept_once(agent: Agent):
    task = offer_task(agent)
    (assignment,) = agent.acquire()
    assert agent.log(assignment, 0, "a", "b") == {"next": 2}
    assert agent.log(assignment, 0, "a", "b") == {"next": 2}
    assert agent.log(assignment, 1, "b", "c\0") == {"next": 3}
    with pytest.raises(LogGap) as error:
        agent.log(assignment, 4, "e")
    assert error.value.more == {"next": 3}
    stored_lines = "".join(task.log_chunks.order_by("sequence").values_list("lines", flat=True))
    assert [stored_lines.count(f'"{text}"') for text in ("a", "b", "c\ufffd", "e")] == [1, 1, 1, 0]


def list_texts(task: DelegateTask) -> list[str]:
    chunks = task.log_chunks.order_by("sequence").values_list("lines", flat=True)
    return [line["text"] for lines in chunks for line in json.loads(lines)]


def test_no_line_is_taken_after_the_answer_which_says_how_many_are_missing(agent: Agent):
    task = offer_task(agent)
    (assignment,) = agent.acquire()
    agent.log(assignment, 0, "first")
    agent.complete(assignment, next_sequence=4)
    with pytest.raises(TaskAnswered):
        agent.log(assignment, 1, "late")
    first, missing_notice = list_texts(task)
    assert first == "first"
    assert missing_notice.startswith("3 lines are missing:")
    task.refresh_from_db()
    assert task.next_sequence == 2


def test_what_a_lost_agent_wrote_is_taken_for_ten_minutes_and_of_a_stale_fence_never(agent: Agent):
    task = offer_task(agent, repeatable=False)
    (assignment,) = agent.acquire()
    expire_lease(task)
    assert agent.log(assignment, 0, "spooled before it died") == {"next": 1}
    DelegateTask.objects.update(finished_at=timezone.now() - LATE_LOG_WINDOW)
    with pytest.raises(TaskAnswered):
        agent.log(assignment, 1, "written since")
    DelegateTask.objects.filter(pk=task.pk).update(fence=2)
    with pytest.raises(StaleFence):
        agent.log(assignment, 1, "late")


@pytest.mark.parametrize(
    ("bytes_left", "seconds", "allowance"),
    [
        (None, 0, MAX_ALLOWANCE_BYTES),
        (0, 0, 0),
        (0, 1.5, 3 * 2**20),
        (-(2**20), 2, 3 * 2**20),
        (2**20, 3600, MAX_ALLOWANCE_BYTES),
        # The clock of another process is a little ahead.
        (2**20, -1, 2**20),
    ],
)
def test_a_log_takes_a_burst_and_then_so_much_a_second(
    bytes_left: int | None, seconds: float, allowance: int
):
    now = timezone.now()
    task = DelegateTask(log_bytes_left=bytes_left, log_counted_at=now - timedelta(seconds=seconds))
    assert compute_allowance(task, now) == allowance


def test_a_log_that_comes_too_fast_waits_and_says_so_once(agent: Agent):
    task = offer_task(agent)
    (assignment,) = agent.acquire()
    assert agent.log(assignment, 0, "a" * 1000) == {"next": 1}
    task.refresh_from_db()
    assert MAX_ALLOWANCE_BYTES - 1100 <= (task.log_bytes_left or 0) <= MAX_ALLOWANCE_BYTES - 1000

    def set_bytes_left(bytes_left: int) -> None:
        DelegateTask.objects.update(log_bytes_left=bytes_left, log_counted_at=get_database_time())

    set_bytes_left(1)
    # A message is taken whole, and after it there is nothing left.
    assert agent.log(assignment, 1, "b" * 900_000) == {"next": 3}
    set_bytes_left(-600 * int(TASK_LOG_RATE))
    with pytest.raises(LogThrottled) as refusal:
        agent.log(assignment, 3, "c")
    assert refusal.value.retry_after == 1
    # What was kept before may be said again at any time.
    assert agent.log(assignment, 1, "b" * 900_000) == {"next": 3}
    set_bytes_left(1)
    assert agent.log(assignment, 3, "c" * 900_000) == {"next": 4}
    assert [text[:1] for text in list_texts(task) if text != THROTTLED_MESSAGE] == ["a", "b", "c"]
    assert list_texts(task).count(THROTTLED_MESSAGE) == 1


def test_an_attempt_after_a_lost_one_begins_with_a_full_burst(agent: Agent):
    task = offer_task(agent)
    agent.acquire()
    DelegateTask.objects.update(log_bytes_left=-5, log_counted_at=get_database_time(), log_throttled=True)
    expire_lease(task)
    DelegateTask.objects.update(offered_to=agent.instance.delegate)
    (second,) = agent.acquire()
    assert agent.log(second, 0, "again") == {"next": 1}
    assert list_texts(task) == ["again"]


@pytest.mark.parametrize(
    "change",
    [
        {"fence": "1"},
        {"fence": 0},
        {"status": "DONE"},
        {"status": ["SUCCEEDED"]},
        {"duration_ms": -1},
    ],
)
def test_an_answer_that_makes_no_sense_is_refused(agent: Agent, change: dict[str, Any]):
    task = offer_task(agent)
    (assignment,) = agent.acquire()
    body = {"fence": 1, "status": "SUCCEEDED", "result": None, "error": None, **change}
    with pytest.raises(BadInput):
        agent.post(f"tasks/{assignment['id']}/complete", body)
    task.refresh_from_db()
    assert task.status == "STARTED"


def test_nesting_without_end_is_refused(agent: Agent):
    offer_task(agent)
    (assignment,) = agent.acquire()
    for depth in (100, 100_000):
        body = b'{"fence":1,"status":"SUCCEEDED","result":{"a":%s1%s}}' % (b"[" * depth, b"]" * depth)
        with pytest.raises(BadInput):
            send_request(f"tasks/{assignment['id']}/complete", body, agent.session)


def test_who_leaves_gives_back_what_it_has(agent: Agent):
    task = offer_task(agent)
    agent.acquire()
    agent.post("deregister", {})
    assert sweep_expired_leases() == 1
    task.refresh_from_db()
    assert task.status == "QUEUED"
    assert DelegateInstance.objects.get().status == "GONE"
