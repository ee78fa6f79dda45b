"""What asking for tasks says of how an instance is connected."""

from datetime import timedelta

import pytest

from delegates.models import DelegateInstance
from delegates.protocol import connections, heartbeats
from delegates.protocol.heartbeats import Heartbeat, record_heartbeats
from delegates.protocol.limits import ROTATE_BEFORE
from tests.delegates.protocol.fake_agents import Agent
from tests.fixtures.interleaving import act_after
from web.clock import get_database_time

pytestmark = pytest.mark.django_db
Connection = DelegateInstance.Connection


@pytest.mark.parametrize(("polls", "connection"), [(False, Connection.WEBSOCKET), (True, Connection.POLLING)])
def test_only_who_waits_for_tasks_has_no_socket_any_more(agent: Agent, polls: bool, connection: str) -> None:
    instance = DelegateInstance.objects.filter(pk=agent.instance.pk)
    instance.update(connection=Connection.WEBSOCKET, suspect_since=get_database_time())
    connections.acquire_documents(agent.session, 1, polls)
    assert instance.values_list("connection", "suspect_since").get() == (connection, None)


def test_a_socket_that_ends_late_does_not_hold_back_who_has_connected_elsewhere(agent: Agent) -> None:
    instance = DelegateInstance.objects.filter(pk=agent.instance.pk)
    instance.update(
        connection=Connection.WEBSOCKET, suspect_since=None, last_heartbeat_at=get_database_time()
    )
    connections.record_disconnect(agent.instance.pk, silent_seconds=30)
    assert instance.values_list("suspect_since", flat=True).get() is None
    connections.record_disconnect(agent.instance.pk, silent_seconds=0)
    assert instance.values_list("suspect_since", flat=True).get() is not None


def test_a_heartbeat_under_way_does_not_bring_back_who_has_signed_off(agent: Agent) -> None:
    instance = DelegateInstance.objects.filter(pk=agent.instance.pk)
    instance.update(status=DelegateInstance.Status.GONE)
    heartbeats.write_heartbeats([Heartbeat(agent.instance.pk)], get_database_time())
    assert instance.values_list("status", flat=True).get() == DelegateInstance.Status.GONE


def test_a_session_that_another_process_has_renewed_is_not_renewed_again(agent: Agent) -> None:
    rows = DelegateInstance.objects.filter(pk=agent.instance.pk)
    rows.update(session_expires_at=get_database_time() + ROTATE_BEFORE - timedelta(seconds=1))

    def renew_elsewhere() -> None:
        rows.update(session_hash="renewed")

    with act_after('"delegates_delegateinstance"."session_hash"', renew_elsewhere):
        answers = record_heartbeats({agent.instance.pk: Heartbeat(agent.instance.pk)})
    assert answers[agent.instance.pk]["session"] is None
    assert rows.get().session_hash == "renewed"
