"""What the broker's end does to a worker."""

import os
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from kombu import Connection

from config import broker as transport
from ops.supervision.valkey import find_server
from tests.faults.killable_process import Part
from tests.faults.sleeping_app import app, nap
from tests.fixtures.processes import wait_until
from tests.ports import free_port

WORKER = [
    "-A",
    "tests.faults.sleeping_app",
    "worker",
    "--without-gossip",
    "--without-mingle",
    "--concurrency",
    "2",
]


class Workshop:
    """A broker and a worker of it."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.url = f"redis://127.0.0.1:{port}"
        server = [find_server(), "--save", "", "--bind", "127.0.0.1", "--port", str(port), "--dir", folder]
        environment = {**os.environ, "REDIS_URL": self.url}
        celery = [sys.executable, "-m", "celery", *WORKER]
        self.broker = Part("broker", server, environment=environment, folder=folder)
        self.worker = Part("worker", celery, environment=environment, folder=folder)

    def ask_for(self, name: str, seconds: float) -> None:
        """Ask for a nap, of a broker that may still be starting."""
        with Connection(f"{self.url}/0") as connection:
            connection.ensure_connection(max_retries=20, interval_start=0.1, interval_step=0)
            nap.apply_async((name, seconds), connection=connection)

    def has_said(self, text: str) -> bool:
        return text in self.worker.log.read_text()


@pytest.fixture
def workshop() -> Iterator[Workshop]:
    """A broker and a worker that has done something."""
    with tempfile.TemporaryDirectory(prefix="slipway-broker-") as folder:
        workshop = Workshop(Path(folder))
        try:
            workshop.broker.start()
            workshop.worker.start()
            workshop.ask_for("the first", 0)
            wait_until(lambda: workshop.has_said("the first is over"), "the first nap")
            yield workshop
        finally:
            workshop.worker.kill()
            workshop.broker.kill()


def test_a_broker_that_goes_while_something_is_done_ends_no_worker(workshop: Workshop) -> None:
    for number in range(3):
        workshop.ask_for(f"long {number}", 2)
        wait_until(lambda name=f"long {number} began": workshop.has_said(name), "the begin of a nap")
        workshop.broker.die_and_come_back()
        workshop.ask_for(f"next {number}", 0)
        for name in (f"long {number} is over", f"next {number} is over"):
            wait_until(lambda name=name: workshop.has_said(name), f"“{name}”")
    assert workshop.worker.is_alive, workshop.worker.log.read_text()
    assert not workshop.has_said("Unrecoverable")


def test_a_message_that_could_not_be_acknowledged_counts_no_longer(workshop: Workshop) -> None:
    transport.register_transport()
    with Connection(f"{workshop.url}/0") as connection:
        channel = connection.channel()
        channel.basic_qos(0, 1, False)
        queue = connection.SimpleQueue("once", channel=channel)
        queue.put("work")
        message = queue.get(timeout=5)
        assert not channel.qos.can_consume()
        workshop.broker.kill()
        for settle in (
            message.ack,
            partial(message.channel.basic_reject, message.delivery_tag, requeue=True),
        ):
            channel.qos._dirty.clear()
            with pytest.raises(channel.connection_errors):
                settle()
            assert channel.qos.can_consume()
        workshop.broker.start()


def test_all_addresses_of_a_broker_mean_the_transport_that_closes_at_once() -> None:
    urls = (
        "redis://127.0.0.1:6379/0",
        "rediss://127.0.0.1:6379/0",
        "redis+socket:///run/valkey.sock?virtual_host=0",
    )
    for url in urls:
        with app.connection(url) as connection:
            assert isinstance(connection.transport, transport.Transport)
