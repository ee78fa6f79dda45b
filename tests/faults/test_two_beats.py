"""Two beat processes with one broker: one sends the ticks, and after its death the other one does."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import redis

from config.beat import LEASE_KEY
from tests.fixtures.agents import CALM
from tests.fixtures.processes import running, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

QUEUE = "slipway"
TAKEOVER_SECONDS = 10.0


@pytest.fixture
def two_beats(child_environment: Mapping[str, str], live_broker: str, tmp_path: Path) -> Iterator[None]:
    """Two beat processes; no worker takes their messages."""
    command = [sys.executable, *CALM, "-m", "celery", "--quiet", "-A", "config", "beat", "--pidfile", ""]
    with contextlib.ExitStack() as stack:
        for number in range(2):
            stack.enter_context(
                running([*command, "--schedule", tmp_path / f"beat{number}"], child_environment)
            )
        yield


def read_sender(broker: "redis.Redis[bytes]") -> int:
    """Return the process that has the lease; 0 if none has."""
    owner = broker.get(LEASE_KEY)
    return int(owner.split(b":")[1]) if owner else 0


def test_a_killed_beat_is_replaced_within_ten_seconds(two_beats: None, live_broker: str) -> None:
    with redis.Redis.from_url(live_broker) as broker:
        wait_until(lambda: broker.llen(QUEUE), "the first tick")
        first = read_sender(broker)
        os.kill(first, signal.SIGKILL)
        broker.delete(QUEUE)
        wait_until(lambda: broker.llen(QUEUE), "the tick of the other beat", seconds=TAKEOVER_SECONDS)
        assert read_sender(broker) not in (0, first)
