"""The demo in front of the sandbox, whose database is backed up and restored."""

import gc
from collections.abc import Callable, Iterator

import pytest

from deployments.journal.runtime import set_hook
from tests.deployments.conftest import _full_buckets, drive

__all__ = ["_full_buckets", "drive"]


@pytest.fixture(autouse=True)
def _only_user_of_the_database() -> None:
    """Close what earlier tests left open: errors of refused requests hold cursors, and so the database."""
    gc.collect()


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
