"""Leases that ended while all of Slipway was away are given back; those of the lost are not."""

import threading
from datetime import timedelta
from types import SimpleNamespace
from uuid import uuid4

import pytest
from django.db import OperationalError
from django.utils import timezone

from delegates import built_in_delegate
from delegates.models import DelegateTask
from delegates.protocol import leases, sessions
from delegates.tasks import tick
from rbac.models import Scope
from tests.delegates.protocol.fake_agents import Agent, offer_task

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


@pytest.fixture
def taken_task(account: Scope, agent: Agent) -> DelegateTask:
    """A task of an agent whose lease ended a while ago, and nobody has looked yet."""
    task = offer_task(agent, repeatable=False)
    agent.acquire()
    DelegateTask.objects.update(lease_until=timezone.now() - MINUTE / 2)
    return task


def test_after_an_outage_an_agent_keeps_what_it_runs(agent: Agent, taken_task: DelegateTask) -> None:
    built_in_delegate.record_built_in_heartbeat(timezone.now() - MINUTE)
    tick()
    taken_task.refresh_from_db()
    assert taken_task.status == DelegateTask.Status.STARTED
    lease = {"tasks": [{"id": str(taken_task.pk), "fence": 1}]}
    assert agent.post("tasks/renew", lease) == {"lost": [], "aborted": []}


def test_the_first_word_of_an_agent_may_come_before_the_first_look(
    agent: Agent, taken_task: DelegateTask
) -> None:
    built_in_delegate.record_built_in_heartbeat(timezone.now() - MINUTE)
    sessions._outage_checked.clear()
    lease = {"tasks": [{"id": str(taken_task.pk), "fence": 1}]}
    assert agent.post("tasks/renew", lease) == {"lost": [], "aborted": []}


def test_while_slipway_was_there_a_lease_that_ended_is_lost(taken_task: DelegateTask) -> None:
    built_in_delegate.record_built_in_heartbeat(timezone.now())
    tick()
    taken_task.refresh_from_db()
    assert (taken_task.status, (taken_task.error or {})["code"]) == ("FAILED", leases.LOST_CODE)


def test_an_outage_brings_no_session_back_that_was_ended(agent: Agent, taken_task: DelegateTask) -> None:
    type(agent.instance).objects.filter(pk=agent.instance.pk).update(session_hash="")
    built_in_delegate.record_built_in_heartbeat(timezone.now() - MINUTE)
    tick()
    taken_task.refresh_from_db()
    assert taken_task.status == DelegateTask.Status.FAILED


def test_a_lease_is_renewed_again_after_the_database_was_away_once(monkeypatch: pytest.MonkeyPatch) -> None:
    task = SimpleNamespace(id=str(uuid4()), fence=1)
    held_task = SimpleNamespace(task=task, is_lost=False, is_aborted=False, stopped=threading.Event())
    attempts: list[int] = []

    def renew(*_: object, **__: object) -> SimpleNamespace:
        attempts.append(len(attempts))
        if len(attempts) == 1:
            raise OperationalError("the server closed the connection unexpectedly")
        return SimpleNamespace(lost=[task.id], aborted=[])

    monkeypatch.setattr(built_in_delegate, "RENEW_SECONDS", 0.01)
    monkeypatch.setattr(built_in_delegate, "renew_leases", renew)
    monkeypatch.setattr(built_in_delegate, "get_database_time", timezone.now)
    renewal = built_in_delegate._LeaseRenewal(SimpleNamespace(pk=1), held_task)  # type: ignore[arg-type]
    renewal.start()
    try:
        assert held_task.stopped.wait(5), "the loss of the lease is heard of"
    finally:
        renewal.stop()
    assert len(attempts) >= 2
