"""Which environments there are to choose from: the app above this one says so by entering a finder here."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rbac.models import Scope
from rbac.policy import Principal


@dataclass(frozen=True)
class KnownEnvironment:
    """An environment as a configuration keeps it: its scope's path and its identifier, with a slash."""

    path: str
    name: str


# Finds the environments at or below a scope that somebody may see.
Finder = Callable[[Scope, Principal], Iterable[KnownEnvironment]]
_finders: list[Finder] = []


def environments(finder: Finder) -> Finder:
    """Enter a function that finds environments."""
    _finders.append(finder)
    return finder


def known_environments(scope: Scope, principal: Principal) -> list[KnownEnvironment]:
    """The environments at or below a scope that somebody may see, by path."""
    found = (one for finder in _finders for one in finder(scope, principal))
    return sorted(found, key=lambda one: one.path)
