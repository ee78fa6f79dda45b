"""A task that one delegate cannot begin goes to the next one that may, and the reason is kept."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from delegates.models import BlocklistEntry, DelegateTask, DelegateToken, RoutingDecision, TaskAttempt
from delegates.protocol import completions, leases
from delegates.protocol.leases import build_requeue_values
from delegates.task_queue import route_waiting_tasks
from tests.delegates.protocol.fake_agents import Agent, offer_task, register_agent

pytestmark = pytest.mark.django_db
REASON = "no connection to ecs.us-east-1.amazonaws.com"


def register_two(token: DelegateToken) -> tuple[Agent, Agent]:
    second = register_agent(token, "us", instance_key="host-2/10.0.0.2", hostname="host-2")
    return register_agent(token), second


def refuse(agent: Agent, *, capability: bool = True, code: str = "NotConnected") -> None:
    """Take the offered task, and say that this delegate cannot do it."""
    (assignment,) = agent.acquire()
    error = {"kind": "TaskError", "code": code, "message": REASON, "capability": capability}
    agent.complete(assignment, "FAILED", result=None, error=error)


def test_another_delegate_gets_it_and_the_reason_stays(token: DelegateToken) -> None:
    first, second = register_two(token)
    task = offer_task(first)
    refuse(first)
    task.refresh_from_db()
    assert task.status == "QUEUED"
    assert task.reason == f"eu on host-1 could not begin it: {REASON}."
    route_waiting_tasks(timezone.now())
    (assignment,) = second.acquire()
    second.complete(assignment)
    task.refresh_from_db()
    assert (task.status, task.instance_name, task.attempts) == ("SUCCEEDED", "us on host-2", 2)
    assert [*TaskAttempt.objects.order_by("fence").values_list("refusal", flat=True)] == [REASON, ""]
    assert BlocklistEntry.objects.get().delegate == first.instance.delegate


@pytest.mark.parametrize("kind", [DelegateTask.Kind.CHECK, DelegateTask.Kind.HTTP])
def test_who_could_not_begin_it_is_not_asked_again_without_an_address_to_block(
    token: DelegateToken, kind: str
) -> None:
    first, second = register_two(token)
    task = offer_task(first, criterion="", kind=kind)
    refuse(first)
    for _ in range(2):
        route_waiting_tasks(timezone.now())
        task.refresh_from_db()
        assert task.offered_to == second.instance.delegate
        DelegateTask.objects.update(offered_until=timezone.now() - timedelta(seconds=1))
    rows = RoutingDecision.objects.latest("number").rows
    (row,) = [row for row in rows if row["rule"] == "not tried" and row["verdict"] == "FAIL"]
    assert row["detail"] == f"It could not begin this task: {REASON}"


def test_a_delegate_that_could_not_isolate_one_script_gets_the_next_one(token: DelegateToken) -> None:
    first, second = register_two(token)
    task = offer_task(first, criterion="program bash", kind=DelegateTask.Kind.SHELL)
    refuse(first, code="NotIsolated")
    route_waiting_tasks(timezone.now())
    task.refresh_from_db()
    assert task.offered_to == second.instance.delegate
    assert not BlocklistEntry.objects.exists()


def test_the_last_one_that_cannot_fails_it_with_its_reason(token: DelegateToken) -> None:
    first, second = register_two(token)
    task = offer_task(first)
    refuse(first)
    route_waiting_tasks(timezone.now())
    refuse(second)
    task.refresh_from_db()
    assert (task.status, task.reason) == ("FAILED", REASON)


@pytest.mark.parametrize(
    "values",
    [
        {"kind": DelegateTask.Kind.AWS, "is_write": True},
        {"abort_requested": True},
        {"selectors": ["only-eu"]},
    ],
    ids=[
        "a write to AWS, whose reads are repeated first",
        "a task that is aborted",
        "nobody else has the tags",
    ],
)
def test_it_ends_where_nobody_else_should_do_it(token: DelegateToken, values: dict[str, Any]) -> None:
    first, _ = register_two(token)
    first.instance.tags = ["only-eu"]
    first.instance.save()
    is_aborted = values.pop("abort_requested", False)
    task = offer_task(first, **values)
    (assignment,) = first.acquire()
    DelegateTask.objects.update(abort_requested=is_aborted)
    error = {"kind": "TaskError", "code": "NotConnected", "message": REASON, "capability": True}
    first.complete(assignment, "FAILED", result=None, error=error)
    task.refresh_from_db()
    assert task.status == "FAILED"


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_task_that_is_aborted_while_it_returns_to_the_queue_ends(
    token: DelegateToken, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    first, _ = register_two(token)
    task = offer_task(first)

    def abort_first(reason: str) -> dict[str, object]:
        DelegateTask.objects.update(abort_requested=True)
        return build_requeue_values(reason)

    for module in (leases, completions):
        monkeypatch.setattr(module, "build_requeue_values", abort_first)
    if is_lost:
        first.acquire()
        DelegateTask.objects.update(lease_until=task.queued_at)
        assert [leases.sweep_expired_leases(), leases.sweep_expired_leases()] == [0, 1]
    else:
        refuse(first)
    task.refresh_from_db()
    assert task.status == ("ABORTED" if is_lost else "FAILED")


def test_a_failure_of_the_task_itself_is_nobody_elses(token: DelegateToken) -> None:
    first, _ = register_two(token)
    task = offer_task(first)
    refuse(first, capability=False)
    task.refresh_from_db()
    assert task.status == "FAILED"
