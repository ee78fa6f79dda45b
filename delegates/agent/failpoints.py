"""Named places in the agent where tests make it die; without a test they do nothing."""

from collections.abc import Callable

FAILPOINTS = ("task.acquired", "task.performed", "task.completing", "task.completed")

_hooks: list[Callable[[str, str], None]] = []


def failpoint(name: str, what: str) -> None:
    """Pass a named place with a task for `what`; a hook may end the process here."""
    for hook in _hooks:
        hook(name, what)


def set_hook(hook: Callable[[str, str], None] | None) -> None:
    """Have `hook` called at every failpoint, or with None none any more."""
    _hooks[:] = [] if hook is None else [hook]
