"""Workers that die at a failpoint: within this process, or as a forked one that ends without a word."""

import os
from collections.abc import Callable

from django.db import connections

KILLED = 9


class Countdown:
    """Counts the failpoints that are passed, and dies at one of them."""

    def __init__(self, at: int, die: Callable[[], None]) -> None:
        self.passed: list[str] = []
        self._at = at
        self._die = die

    def __call__(self, name: str) -> None:
        self.passed.append(name)
        if len(self.passed) == self._at:
            self._die()


def in_a_fork(work: Callable[[], None]) -> int:
    """Run something in a forked worker process; gives back its exit status."""
    _let_go_of_databases()
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _let_go_of_databases() -> None:
    """Close what both processes would talk through: also the pool that the web's application has here."""
    connections.close_all()
    for connection in connections.all():
        if connection.vendor == "postgresql":
            connection.close_pool()
