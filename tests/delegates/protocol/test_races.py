"""Many at once: a task is one agent's, an answer counts once, lines stand once."""

from functools import partial
from uuid import UUID

import pytest

from delegates.models import Delegate, DelegateInstance, DelegateTask, DelegateToken, TaskAttempt
from delegates.protocol.instance_keys import create_challenge
from delegates.protocol.leases import sweep_expired_leases
from delegates.protocol.problems import InstanceTaken, SignatureWrong, StaleFence
from rbac.models import Scope
from tests.delegates.protocol.fake_agents import (
    Agent,
    build_registration,
    create_key,
    offer_task,
    register_agent,
    send_request,
    sign_registration,
)
from tests.fixtures.delegates import make_token
from tests.fixtures.threads import run_concurrently, split
from web.clock import get_database_time

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = 5


@pytest.fixture
def token(project: Scope) -> DelegateToken:
    return make_token(project)


def register_agents(token: DelegateToken, count: int) -> list[Agent]:
    """Register several instances of one delegate."""
    return [register_agent(token, instance_key=f"host-{number}") for number in range(count)]


def test_two_who_acquire_at_once_get_each_task_once(token: DelegateToken):
    instances = register_agents(token, 4)
    for _ in range(ROUNDS):
        tasks = {offer_task(instances[0]).pk for _ in range(6)}
        assignments, errors = split(
            run_concurrently(*(partial(agent.acquire, free=10) for agent in instances))
        )
        # Who finds that another was faster asks again.
        remaining_tasks = instances[0].acquire(free=10)
        ids = [UUID(task["id"]) for batch in [*assignments, remaining_tasks] for task in batch]
        assert (errors, sorted(ids)) == ([], sorted(tasks))
        assert TaskAttempt.objects.filter(task__in=tasks).count() == len(tasks)
        DelegateTask.objects.all().delete()


def test_an_answer_that_is_sent_twice_at_once_counts_once(token: DelegateToken):
    (agent,) = register_agents(token, 1)
    for _ in range(ROUNDS):
        task = offer_task(agent)
        (assignment,) = agent.acquire()
        statuses = ("SUCCEEDED", "FAILED")
        _, errors = split(
            run_concurrently(*(partial(agent.complete, assignment, status) for status in statuses))
        )
        assert errors == []
        task.refresh_from_db()
        assert task.status in statuses
        assert task.late_answers.count() == 0


def test_an_answer_and_the_end_of_its_lease_never_both_count(token: DelegateToken):
    (agent,) = register_agents(token, 1)
    for _ in range(ROUNDS):
        task = offer_task(agent, repeatable=False)
        (assignment,) = agent.acquire()
        DelegateTask.objects.filter(pk=task.pk).update(lease_until=task.queued_at)
        reply, swept_count = run_concurrently(partial(agent.complete, assignment), sweep_expired_leases)
        task.refresh_from_db()
        if isinstance(reply, StaleFence):
            assert (swept_count, task.status, task.late_answers.count()) == (1, "FAILED", 1)
        else:
            assert (reply, swept_count, task.status) == ({}, 0, "SUCCEEDED")


def test_lines_that_are_sent_twice_at_once_stand_once(token: DelegateToken):
    (agent,) = register_agents(token, 1)
    for _ in range(ROUNDS):
        task = offer_task(agent)
        (assignment,) = agent.acquire()
        replies = run_concurrently(*(partial(agent.log, assignment, 0, "a", "b") for _ in range(3)))
        assert replies == [{"next": 2}] * 3
        assert task.log_chunks.count() == 1


def test_two_instances_that_come_at_once_join_one_delegate(token: DelegateToken):
    bodies = [build_registration(instance_key=f"host-{number}") for number in range(4)]
    replies, errors = split(
        run_concurrently(*(partial(send_request, "register", body, token.value) for body in bodies))
    )
    assert errors == []
    assert len({reply.content["session"] for reply in replies}) == 4
    assert Delegate.objects.filter(is_built_in=False).count() == 1
    assert DelegateInstance.objects.count() == 4


def test_of_two_claimants_of_one_instance_that_come_at_once_one_gets_it(token: DelegateToken):
    for number in range(ROUNDS):
        now = get_database_time()
        bodies = [
            sign_registration(
                create_key(), create_challenge(now), name=f"eu-{number}", instance_key=f"host-{number}"
            )
            for _ in range(3)
        ]
        replies, errors = split(
            run_concurrently(*(partial(send_request, "register", body, token.value) for body in bodies))
        )
        assert len(replies) == 1
        assert all(isinstance(problem, InstanceTaken | SignatureWrong) for problem in errors)
