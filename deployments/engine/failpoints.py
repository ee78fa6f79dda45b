"""Named places in the engine where tests make a worker die; without a test they do nothing."""

from collections.abc import Callable

FAILPOINTS = (
    "commit.before",
    "commit.after",
    "call.before_sent",
    "call.sent",
    "call.answered",
    "look.claimed",
    "look.released",
)

_hooks: list[Callable[[str], None]] = []


def failpoint(name: str) -> None:
    """Pass a named place; a hook may end the process, or pause it, here."""
    for hook in _hooks:
        hook(name)


def set_hook(hook: Callable[[str], None] | None) -> None:
    """Have `hook` called at every failpoint, or with None none any more."""
    _hooks[:] = [] if hook is None else [hook]
