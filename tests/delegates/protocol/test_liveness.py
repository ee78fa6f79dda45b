"""Once a second: who is late, who is gone, what is overdue, and what the workers do themselves."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from connectors.models import Connector
from delegates import built_in_delegate
from delegates.connectivity import AWAY_AFTER, LATE_AFTER
from delegates.models import (
    AllowlistEntry,
    Delegate,
    DelegateEvent,
    DelegateInstance,
    DelegateLogChunk,
    DelegateTask,
    DelegateToken,
    InstanceSample,
    LookupRequest,
)
from delegates.operations.tokens import revoke_token
from delegates.protocol import leases, liveness
from delegates.protocol.limits import GONE_AFTER
from delegates.protocol.problems import StaleFence, TokenRevoked
from delegates.retention import DELEGATE_RETENTION
from delegates.tasks import tick
from rbac.models import Scope, User
from tests.delegates.protocol.fake_agents import Agent, offer_task
from tests.fixtures.delegates import make_task
from web.retention import prune_rows

pytestmark = pytest.mark.django_db
SECOND = timedelta(seconds=1)


def skip_heartbeats(agent: Agent, duration: timedelta) -> list[str]:
    """Let an agent be silent for a duration, and return its events, newest last."""
    DelegateInstance.objects.filter(pk=agent.instance.pk).update(last_heartbeat_at=timezone.now() - duration)
    DelegateEvent.objects.update(at=timezone.now() - timedelta(days=1))
    for _ in range(2):
        liveness.record_silent_instances(timezone.now())
    return list(
        DelegateEvent.objects.exclude(kind="REGISTERED").order_by("pk").values_list("kind", flat=True)
    )


@pytest.mark.parametrize(
    ("duration", "events"),
    [
        (LATE_AFTER - SECOND, []),
        (LATE_AFTER + SECOND, ["LATE"]),
        (AWAY_AFTER + SECOND, ["DISCONNECTED"]),
        (GONE_AFTER + SECOND, ["DISCONNECTED", "GONE"]),
    ],
)
def test_silence_is_told_once(agent: Agent, duration: timedelta, events: list[str]):
    assert skip_heartbeats(agent, duration) == events


def test_who_is_late_and_then_away_is_told_twice(agent: Agent):
    assert skip_heartbeats(agent, LATE_AFTER + SECOND) == ["LATE"]
    liveness.record_silent_instances(timezone.now() + LATE_AFTER)
    kinds = DelegateEvent.objects.order_by("pk").values_list("kind", flat=True)
    assert list(kinds) == ["REGISTERED", "LATE", "DISCONNECTED"]


def test_who_is_gone_has_no_session(agent: Agent):
    skip_heartbeats(agent, GONE_AFTER + SECOND)
    instance = DelegateInstance.objects.get()
    assert (instance.status, instance.session_hash) == ("GONE", "")


@pytest.mark.parametrize(
    ("silence", "status"), [(GONE_AFTER - SECOND, "REGISTERED"), (GONE_AFTER + SECOND, "GONE")]
)
def test_who_no_longer_waits_for_approval_is_gone_and_removed_later(
    agent: Agent, silence: timedelta, status: str
):
    now = timezone.now()
    waiting = DelegateInstance.objects.filter(pk=agent.instance.pk)
    waiting.update(last_heartbeat_at=None, registered_at=now - silence)
    assert liveness.record_silent_instances(now) == (status == "GONE")
    assert liveness.record_silent_instances(now) == 0
    assert waiting.get().status == status
    prune_rows(DELEGATE_RETENTION, now + timedelta(days=7))
    assert waiting.exists() == (status == "REGISTERED")


def test_who_holds_an_overdue_task_is_asked_to_stop_and_then_loses_it(agent: Agent):
    task = offer_task(agent)
    (assignment,) = agent.acquire()
    DelegateTask.objects.update(deadline=timezone.now())
    assert leases.abort_overdue_tasks(timezone.now()) == 1
    assert leases.abort_overdue_tasks(timezone.now()) == 0
    lease = {"tasks": [{"id": assignment["id"], "fence": 1}]}
    assert agent.post("tasks/renew", lease) == {"lost": [], "aborted": [assignment["id"]]}
    DelegateTask.objects.update(deadline=timezone.now() - timedelta(minutes=2))
    assert agent.post("tasks/renew", lease)["lost"] == [assignment["id"]]
    leases.sweep_expired_leases(now=timezone.now() + timedelta(minutes=1))
    task.refresh_from_db()
    assert task.status == "ABORTED"


def test_revoking_a_token_refuses_its_sessions_and_takes_their_tasks(
    agent: Agent, token: DelegateToken, admin: User
):
    task = offer_task(agent, repeatable=False)
    (assignment,) = agent.acquire()
    revoke_token(actor=admin, token=token)
    with pytest.raises(TokenRevoked):
        agent.acquire()
    with pytest.raises(TokenRevoked):
        agent.complete(assignment)
    tick()
    task.refresh_from_db()
    assert (task.status, (task.error or {})["code"]) == ("FAILED", "DELEGATE_LOST")


def test_a_token_that_was_deleted_refuses_its_sessions_too(agent: Agent, token: DelegateToken):
    DelegateToken.objects.filter(pk=token.pk).delete()
    with pytest.raises(TokenRevoked):
        agent.acquire()


@pytest.fixture
def worker(account: Scope) -> DelegateInstance:
    instance = built_in_delegate.record_built_in_heartbeat(timezone.now())
    assert instance is not None
    return instance


def test_the_workers_are_heard_like_agents_and_never_told_late(worker: DelegateInstance):
    outage_start = timezone.now() - timedelta(hours=7)
    DelegateInstance.objects.update(last_heartbeat_at=outage_start)
    assert liveness.record_silent_instances(timezone.now()) == 0
    tick()
    worker.refresh_from_db()
    assert worker.last_heartbeat_at is not None
    assert worker.last_heartbeat_at > timezone.now() - timedelta(minutes=1)


def test_the_workers_do_what_is_offered_to_them(worker: DelegateInstance, project: Scope):
    payload = {"script": "echo hello; export NAME=eu", "environment": {}, "outputs": ["NAME"]}
    task = make_task(
        project,
        kind="shell",
        payload=json.dumps(payload),
        offered_to=worker.delegate,
        offered_until=timezone.now() + timedelta(seconds=5),
    )
    assert built_in_delegate.list_offered_tasks(timezone.now()) == [task.pk]
    assert built_in_delegate.run_offered_task(task.pk)
    assert not built_in_delegate.run_offered_task(task.pk)
    task.refresh_from_db()
    assert (task.status, json.loads(task.result)["outputs"]) == ("SUCCEEDED", {"NAME": "eu"})
    assert "hello" in task.log_chunks.get().lines


def test_the_workers_of_a_real_installation_run_no_scripts(
    worker: DelegateInstance, project: Scope, settings: Any
):
    settings.EMBEDDED = False
    task = make_task(project, kind="shell", payload='{"script": "env"}', offered_to=worker.delegate)
    built_in_delegate.run_offered_task(task.pk)
    task.refresh_from_db()
    assert task.status == "FAILED"


def test_what_is_old_goes_and_what_is_not_stays(agent: Agent, admin: User):
    now = timezone.now()
    connector = Connector.objects.create(
        scope=agent.instance.delegate.scope, identifier="aws", name="AWS", kind=Connector.Kind.AWS
    )
    for age in (timedelta(0), timedelta(days=40)):
        InstanceSample.objects.create(
            instance=agent.instance, at=now - age, cpu_process=0, cpu_system=0, memory_mib=0, running=0
        )
        offer_task(agent, status="SUCCEEDED", finished_at=now - age)
        offer_task(agent, queued_at=now - age)
        DelegateLogChunk.objects.create(instance=agent.instance, sequence=1 + age.days, count=1, text="A")
        AllowlistEntry.objects.create(
            delegate=agent.instance.delegate,
            criterion=str(age),
            validated_at=now,
            expires_at=now + SECOND - age,
        )
        LookupRequest.objects.create(
            connector=connector, kind=LookupRequest.Kind.TEST, requested_by=admin, requested_at=now - age
        )
    DelegateLogChunk.objects.filter(sequence__gt=1).update(at=now - timedelta(days=40))
    assert prune_rows(DELEGATE_RETENTION, now) == 5
    assert prune_rows(DELEGATE_RETENTION, now) == 0
    assert DelegateTask.objects.count() == 3
    assert Delegate.objects.filter(is_built_in=False).count() == 1


def test_a_late_answer_after_the_lease_ended_by_revoking_is_evidence(agent: Agent):
    offer_task(agent, repeatable=False)
    (assignment,) = agent.acquire()
    leases.end_leases([agent.instance], now=timezone.now())
    leases.sweep_expired_leases(now=timezone.now())
    with pytest.raises(StaleFence):
        agent.complete(assignment)
