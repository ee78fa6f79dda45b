"""Log fields go with a Celery message, and no others."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Task, signals

from config.celery import app
from config.task_headers import HEADER
from guards.log_lines import bind_log_fields, get_propagated_fields, replace_log_fields


@pytest.fixture(autouse=True)
def _no_fields() -> Iterator[None]:
    yield
    replace_log_fields({})


def publish_and_receive(**fields: str) -> dict[str, Any]:
    """Publish a message with these fields bound, and return the headers of the message."""
    with app.connection_for_write(transport="memory") as connection, bind_log_fields(**fields):
        app.send_task("ops.tasks.tick", connection=connection, queue="log-fields", retry=False)
        queue = connection.SimpleQueue("log-fields")
        message = queue.get(timeout=2)
        message.ack()
        queue.close()
    headers: dict[str, Any] = message.headers
    return headers


def run_prerun(headers: dict[str, Any]) -> None:
    task = SimpleNamespace(request=SimpleNamespace(**headers))
    signals.task_prerun.send(sender=Task, task_id="celery-1", task=task)


def test_a_task_logs_under_the_request_that_sent_it() -> None:
    headers = publish_and_receive(request_id="request-1", execution="execution-1", delegate_task="task-1")
    assert headers[HEADER] == {"request_id": "request-1", "execution": "execution-1"}

    run_prerun(headers)
    assert get_propagated_fields() == {"request_id": "request-1", "execution": "execution-1"}


def test_a_message_without_fields_ends_those_of_the_task_before() -> None:
    run_prerun({HEADER: {"request_id": "request-1"}})
    headers = publish_and_receive()
    assert headers.get(HEADER) == {"request_id": "request-1"}

    run_prerun({})
    assert get_propagated_fields() == {}


@pytest.mark.parametrize("sent", ["text", {"request_id": 7}, {"logger": "x"}, None])
def test_a_message_with_other_fields_binds_none(sent: Any) -> None:
    run_prerun({HEADER: sent})
    assert get_propagated_fields() == {}
