"""Resources that are managed outside of Slipway, such as in Git; an app registers what knows them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from django.db.models import Model

from rbac.models import User
from web.http.problems import Conflict

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Management:
    """Where a resource is managed: the name of what manages it, its page, and the place of the definition."""

    manager: str
    url: str
    place: str
    branch: str = ""
    """Branch that edits in Slipway are committed to; empty if they are refused."""

    def __str__(self) -> str:
        return f"Managed by {self.manager}: {self.place}. Change it there."


class ManagedElsewhere(Conflict):
    """Error raised for a change of a resource that is managed outside of Slipway."""

    code = "managed_elsewhere"


class ChangeProposed(Exception):
    """Error raised in place of a change that goes to what manages the resource.

    `store` writes the proposal and returns its document. Call it outside of the transaction of the change,
    which this error rolls back.
    """

    def __init__(self, management: Management, store: Callable[[], Mapping[str, Any]]) -> None:
        super().__init__(f"The change is proposed to {management.manager}.")
        self.management = management
        self.store = store


Perform = Callable[[], object]
ChangeProposer = Callable[[Model, User, Perform], Callable[[], Mapping[str, Any]]]
ManagementFinder = Callable[[Model], Management | None]
_finders: list[ManagementFinder] = []
_proposers: list[ChangeProposer] = []
_is_manager: ContextVar[bool] = ContextVar("is_manager", default=False)


def register_management_finder(finder: ManagementFinder) -> None:
    """Register a function that returns where a resource is managed; one query at most."""
    if finder not in _finders:
        _finders.append(finder)


def register_change_proposer(proposer: ChangeProposer) -> None:
    """Register the function that makes a change on trial, and returns what stores it as a proposal."""
    _proposers[:] = [proposer]


def proposes_change(argument: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Have an operation propose its change where what manages the resource of an argument takes proposals.

    The operation is called with keywords, and raises `ChangeProposed` after all of its checks.
    """

    def decorate(operation: Callable[P, T]) -> Callable[P, T]:
        @wraps(operation)
        def perform(*args: P.args, **kwargs: P.kwargs) -> T:
            resource, actor = kwargs.get(argument), kwargs["actor"]
            management = None if _is_manager.get() else find_management(resource)
            if management and management.branch and isinstance(resource, Model) and isinstance(actor, User):
                store = _proposers[0](resource, actor, lambda: operation(*args, **kwargs))
                raise ChangeProposed(management, store)
            return operation(*args, **kwargs)

        return perform

    return decorate


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
