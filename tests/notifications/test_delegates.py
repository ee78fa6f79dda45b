"""Whoever asked is told that a delegate is gone with all its instances, and that it is back."""

from datetime import datetime, timedelta

import pytest

from delegates.connectivity import AWAY_AFTER
from delegates.models import Delegate, DelegateInstance, DelegateToken
from delegates.protocol import heartbeats, liveness
from delegates.protocol.heartbeats import Heartbeat
from notifications.events import EventType
from notifications.models import Notification
from rbac.models import Scope
from tests.delegates.protocol.conftest import _clear_refusals
from tests.delegates.protocol.fake_agents import Agent, register_agent
from tests.fixtures.delegates import make_instance, make_token
from tests.notifications.conftest import Ruled
from web.clock import get_database_time

__all__ = ["_clear_refusals"]
pytestmark = pytest.mark.django_db
A_MOMENT = timedelta(seconds=1)


@pytest.fixture
def token(project: Scope, ruled: Ruled) -> DelegateToken:
    ruled(project, EventType.DELEGATE_CONNECTED, EventType.DELEGATE_DISCONNECTED)
    return make_token(project)


@pytest.fixture
def agent(token: DelegateToken) -> Agent:
    return register_agent(token)


def events() -> list[str]:
    return list(Notification.objects.order_by("created_at").values_list("event", flat=True))


def set_heartbeats(moment: datetime) -> None:
    DelegateInstance.objects.filter(delegate__is_built_in=False).update(last_heartbeat_at=moment)


def test_a_delegate_is_told_of_as_it_comes_goes_and_comes_back(agent: Agent) -> None:
    assert events() == ["delegate.connected"]
    set_heartbeats(get_database_time() - AWAY_AFTER - A_MOMENT)
    for _ in range(2):
        liveness.record_silent_instances(get_database_time())
    assert events() == ["delegate.connected", "delegate.disconnected"]
    for _ in range(2):
        heartbeats.record_heartbeats({agent.instance.pk: Heartbeat(agent.instance.pk)})
    assert events() == ["delegate.connected", "delegate.disconnected", "delegate.connected"]


def test_one_of_several_instances_is_not_missed(agent: Agent) -> None:
    other = make_instance(Delegate.objects.get(is_built_in=False), "host-2/10.0.0.2")
    set_heartbeats(get_database_time() - AWAY_AFTER - A_MOMENT)
    DelegateInstance.objects.filter(pk=other.pk).update(last_heartbeat_at=get_database_time())
    liveness.record_silent_instances(get_database_time())
    assert events() == ["delegate.connected"]
    set_heartbeats(get_database_time() - AWAY_AFTER - A_MOMENT)
    liveness.record_silent_instances(get_database_time())
    assert events() == ["delegate.connected", "delegate.disconnected"]


def test_all_at_once_are_told_of_once(agent: Agent) -> None:
    make_instance(Delegate.objects.get(is_built_in=False), "host-2/10.0.0.2")
    set_heartbeats(get_database_time() - AWAY_AFTER - A_MOMENT)
    liveness.record_silent_instances(get_database_time())
    assert events() == ["delegate.connected", "delegate.disconnected"]


def test_who_says_goodbye_is_told_of_at_once(agent: Agent) -> None:
    agent.post("deregister", {})
    assert events() == ["delegate.connected", "delegate.disconnected"]


def test_a_delegate_that_somebody_switched_off_is_not_told_of(agent: Agent) -> None:
    Delegate.objects.filter(is_built_in=False).update(admission=Delegate.Admission.DISABLED)
    set_heartbeats(get_database_time() - AWAY_AFTER - A_MOMENT)
    liveness.record_silent_instances(get_database_time())
    assert events() == ["delegate.connected"]


def test_one_that_came_back_while_it_was_switched_off_is_told_of_when_it_goes_again(agent: Agent) -> None:
    remote = Delegate.objects.filter(is_built_in=False)
    set_heartbeats(get_database_time() - AWAY_AFTER - A_MOMENT)
    liveness.record_silent_instances(get_database_time())
    remote.update(admission=Delegate.Admission.DISABLED)
    heartbeats.record_heartbeats({agent.instance.pk: Heartbeat(agent.instance.pk)})
    assert events() == ["delegate.connected", "delegate.disconnected"]
    remote.update(admission=Delegate.Admission.ENABLED)
    liveness.record_silent_instances(get_database_time() + AWAY_AFTER + A_MOMENT)
    assert events() == ["delegate.connected", "delegate.disconnected", "delegate.disconnected"]
