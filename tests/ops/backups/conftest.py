"""The demo in front of the sandbox, whose database is backed up and restored."""

import gc
from collections.abc import Callable, Iterator
from threading import Barrier

import pytest
from django.db import connections

from delegates.protocol import requests
from deployments.journal.runtime import set_hook
from tests.deployments.conftest import _full_buckets, drive

__all__ = ["_full_buckets", "drive"]


@pytest.fixture(autouse=True)
def _only_user_of_the_database() -> None:
    """Close what earlier tests left open: errors of refused requests, and the threads for agents."""
    gc.collect()
    all_at_once = Barrier(requests.THREADS)

    def close() -> None:
        all_at_once.wait(10)
        connections.close_all()

    for closing in [requests._thread_pool.submit(close) for _ in range(requests.THREADS)]:
        closing.result()


class Killed(BaseException):
    """The process ended at a failpoint."""


@pytest.fixture
def kill_at() -> Iterator[Callable[[str], None]]:
    """Let the process die at a failpoint."""

    def kill(name: str) -> None:
        def end(passed: str) -> None:
            if passed == name:
                raise Killed(name)

        set_hook(end)

    yield kill
    set_hook(None)
