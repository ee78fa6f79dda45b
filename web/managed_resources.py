"""Resources that are managed outside of Slipway, such as in Git; an app registers what knows them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from django.db.models import Model

from web.http.problems import Conflict


@dataclass(frozen=True)
class Management:
    """Where a resource is managed: the name of what manages it, its page, and the place of the definition."""

    manager: str
    url: str
    place: str

    def __str__(self) -> str:
        return f"Managed by {self.manager}: {self.place}. Change it there."


class ManagedElsewhere(Conflict):
    """Error raised for a change of a resource that is managed outside of Slipway."""

    code = "managed_elsewhere"


ManagementFinder = Callable[[Model], Management | None]
_finders: list[ManagementFinder] = []
_is_manager: ContextVar[bool] = ContextVar("is_manager", default=False)


def register_management_finder(finder: ManagementFinder) -> None:
    """Register a function that returns where a resource is managed; one query at most."""
    if finder not in _finders:
        _finders.append(finder)


def find_management(resource: object) -> Management | None:
    """Return where a resource is managed; None for one that is edited in Slipway."""
    if not isinstance(resource, Model):
        return None
    return next((found for finder in _finders if (found := finder(resource)) is not None), None)


def require_unmanaged(resource: Model) -> None:
    """Raise `ManagedElsewhere` if a resource is managed outside, except within `act_as_manager`."""
    if not _is_manager.get() and (management := find_management(resource)):
        raise ManagedElsewhere(str(management))


@contextmanager
def act_as_manager() -> Iterator[None]:
    """Allow changes of managed resources in the block, for what manages them."""
    mark = _is_manager.set(True)
    try:
        yield
    finally:
        _is_manager.reset(mark)
