"""What asking for tasks says of how an instance is connected."""

import pytest

from delegates.models import DelegateInstance
from delegates.protocol import connections
from tests.delegates.protocol.fake_agents import Agent
from web.clock import get_database_time

pytestmark = pytest.mark.django_db
Connection = DelegateInstance.Connection


@pytest.mark.parametrize(("polls", "connection"), [(False, Connection.WEBSOCKET), (True, Connection.POLLING)])
def test_only_who_waits_for_tasks_has_no_socket_any_more(agent: Agent, polls: bool, connection: str) -> None:
    instance = DelegateInstance.objects.filter(pk=agent.instance.pk)
    instance.update(connection=Connection.WEBSOCKET, suspect_since=get_database_time())
    connections.acquire_documents(agent.session, 1, polls)
    assert instance.values_list("connection", "suspect_since").get() == (connection, None)
