"""Statements that a delegate task costs from its submission to its end, as performance.md has them."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from connectors.models import Connector
from delegates.models import AllowlistEntry, DelegateTask, LastServed
from delegates.operations.tasks import submit_task
from delegates.protocol.completions import complete_task_request
from delegates.protocol.connections import acquire_documents
from delegates.protocol.requests import AgentRequest
from delegates.protocol.sessions import generate_session, hash_secret
from rbac.models import Scope
from tests.fixtures.delegates import make_delegate, make_instance, make_token

Answer = TypeVar("Answer")
ADDRESS = "https://ecs.eu-west-1.amazonaws.com"


def count_statements(work: Callable[[], Answer]) -> tuple[Answer, int]:
    """Return the answer and the statements, with those that begin and end transactions."""
    with CaptureQueriesContext(connection) as context:
        answer = work()
    return answer, len(context)


def run_task(project: Scope, connector: Connector, session: str) -> tuple[int, int, int]:
    """Submit a task, take it and complete it, and return the statements of each."""
    task, submitted = count_statements(
        lambda: submit_task(scope=project, kind="check", title="Check", payload={"url": ADDRESS})
    )
    DelegateTask.objects.filter(pk=task.pk).update(criterion=ADDRESS, connector=connector)
    (document,), acquired = count_statements(lambda: acquire_documents(session, 5))
    body = {"status": "SUCCEEDED", "fence": document["fence"], "result": {"address": "10.0.0.1"}}
    request = AgentRequest(
        path="",
        headers={"authorization": f"Bearer {session}"},
        body=json.dumps(body).encode(),
        task_id=document["id"],
    )
    _, completed = count_statements(lambda: complete_task_request(request))
    return submitted, acquired, completed


@pytest.mark.django_db(transaction=True)
def test_a_task_costs_a_fixed_number_of_statements(project: Scope) -> None:
    delegate = make_delegate(project, "eu")
    instance = make_instance(delegate, isolation="users", token=make_token(project, "t"))
    session = generate_session(instance.pk)
    instance.session_hash = hash_secret(session)
    instance.session_expires_at = timezone.now() + timedelta(hours=1)
    instance.save()
    connector = Connector.objects.create(scope=project, identifier="aws", name="AWS")
    # The first task of a delegate and address stores the rows that the second one updates.
    for _ in range(2):
        submitted, acquired, completed = run_task(project, connector, session)
        assert submitted <= 14
        assert acquired <= 12
        assert completed <= 11
        assert LastServed.objects.get(connector=connector).delegate == delegate
        assert AllowlistEntry.objects.get(delegate=delegate).criterion == ADDRESS
