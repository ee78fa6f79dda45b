"""Guards that refuse to archive a scope with work in progress. Apps register them at startup."""

from collections.abc import Callable
from dataclasses import dataclass

from rbac.models import Scope
from rbac.policy import NotVisible, build_not_archived_filter


@dataclass(frozen=True)
class WorkInProgress:
    """Work in progress at or below a scope, as the subject of a sentence, with the way to end it."""

    description: str
    next_step: str


class ScopeBusy(Exception):
    """The scope cannot be archived while something is under way there."""

    def __init__(self, scope: Scope, work: list[WorkInProgress]) -> None:
        summary = " and ".join(item.description for item in work)
        steps = " ".join(item.next_step for item in work)
        super().__init__(f"{summary} in progress in {scope.path}. {steps}")
        self.detail = str(self)


ArchiveGuard = Callable[[Scope], WorkInProgress | None]
_guards: list[ArchiveGuard] = []


def register_archive_guard(guard: ArchiveGuard) -> None:
    """Register a guard that runs before a scope is archived; it returns None without work in progress."""
    if guard not in _guards:
        _guards.append(guard)


def list_work_in_progress(scope: Scope) -> list[WorkInProgress]:
    """Return the work in progress at or below `scope`."""
    return [work for guard in _guards if (work := guard(scope)) is not None]


def lock_scope(scope_id: int) -> None:
    """Lock a scope until the transaction ends, before starting work there.

    Raises `NotVisible` if it was just archived.
    """
    # Two statements: the second one sees the changes that the first one waited for.
    Scope.objects.filter(pk=scope_id).lock()
    if not Scope.objects.filter(build_not_archived_filter(), pk=scope_id).exists():
        raise NotVisible("This scope is archived.")
