"""Guards in front of whatever changes the database; apps above register them."""

from collections.abc import Callable
from typing import Final

Guard = Callable[[], None]
"""Raises `DatabaseNotUsable` while nothing may be changed."""
_write_guards: Final[list[Guard]] = []
_work_guards: Final[list[Guard]] = []


def register_write_guard(guard: Guard) -> None:
    """Register what every request that writes, and every request of an agent, passes first."""
    if guard not in _write_guards:
        _write_guards.append(guard)


def require_writable_database() -> None:
    """Pass the guards of writes. Raises `DatabaseNotUsable`, and the errors of an outage."""
    for guard in _write_guards:
        guard()


def register_work_guard(guard: Guard) -> None:
    """Register what every Celery task, and the hand-out of tasks to an agent, passes first."""
    if guard not in _work_guards:
        _work_guards.append(guard)


def require_current_database() -> None:
    """Pass the guards of work. Raises `DatabaseNotUsable`, and the errors of an outage."""
    for guard in _work_guards:
        guard()
