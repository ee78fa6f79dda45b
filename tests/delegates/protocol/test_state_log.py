"""Each change of a delegate task and each event of an instance is one line of the process log."""

import pytest

from delegates.models import DelegateToken
from delegates.operations.tasks import submit_task, withdraw_task
from guards.log_lines import bind_log_fields
from tests.delegates.protocol.fake_agents import Agent, offer_task, register_agent
from tests.fixtures.log_lines import collect_lines

pytestmark = pytest.mark.django_db(transaction=True)
CONTEXT = {"request_id": "request-1", "execution": "execution-1", "step": "deploy"}


def test_a_task_logs_its_statuses_with_the_execution_that_it_belongs_to(agent: Agent) -> None:
    task = offer_task(agent, trace_context=CONTEXT)
    with collect_lines("delegates.state_log") as collector:
        (assignment,) = agent.acquire()
        agent.complete(assignment)

    lines = collector.list_events("Delegate task changed")
    assert [(line["previous"], line["status"]) for line in lines] == [
        ("QUEUED", "STARTED"),
        ("STARTED", "SUCCEEDED"),
    ]
    assert {line["delegate_task"] for line in lines} == {str(task.pk)}
    assert {line["instance"] for line in lines} == {"eu on host-1"}
    assert {name: lines[0][name] for name in CONTEXT} == CONTEXT
    assert assignment["trace_context"] == CONTEXT


def test_a_task_belongs_to_the_bound_execution(agent: Agent) -> None:
    scope = agent.instance.delegate.scope
    with collect_lines("delegates.state_log") as collector:
        with bind_log_fields(**CONTEXT):
            task = submit_task(scope=scope, kind="check", title="Check", payload={})
        withdraw_task(task, "Not needed")

    assert task.trace_context == CONTEXT
    lines = collector.list_events("Delegate task changed")
    assert [line["status"] for line in lines][:1] == ["QUEUED"]
    assert lines[-1]["status"] in ("ABORTED", "FAILED")


def test_an_instance_logs_its_events_and_no_text_of_it_adds_a_line(token: DelegateToken) -> None:
    with collect_lines("delegates.state_log") as collector:
        register_agent(token, "eu", hostname="host\n{forged}")

    kinds = [line["kind"] for line in collector.lines]
    assert "REGISTERED" in kinds
    assert {line["delegate"] for line in collector.lines} == {"eu"}
