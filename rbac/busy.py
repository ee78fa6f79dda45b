"""What keeps a scope busy: the apps above enter it as they start, for the operation that archives."""

from collections.abc import Callable
from dataclasses import dataclass

from rbac.models import Scope
from rbac.policy import NotVisible, live


@dataclass(frozen=True)
class Work:
    """Things under way at or below a scope, as the subject of a sentence, and how they come to an end."""

    what: str
    next_step: str


class ScopeBusy(Exception):
    """The scope cannot be archived while something is under way there."""

    def __init__(self, scope: Scope, work: list[Work]) -> None:
        under_way = " and ".join(one.what for one in work)
        steps = " ".join(one.next_step for one in work)
        super().__init__(f"{under_way} under way in {scope.path}. {steps}")
        self.detail = str(self)


Question = Callable[[Scope], Work | None]
_questions: list[Question] = []


def register_question(question: Question) -> None:
    """Have `question` asked before a scope is archived; it answers None where nothing is under way."""
    if question not in _questions:
        _questions.append(question)


def work_in(scope: Scope) -> list[Work]:
    """Return what is under way at or below `scope`."""
    return [work for question in _questions if (work := question(scope)) is not None]


def keep_from_archiving(scope_id: int) -> None:
    """Keep a scope as it is until the transaction ends: for what is begun there and would keep it busy.

    Raises `NotVisible` where it has just been archived.
    """
    # Two statements: the second one sees what the first one waited for.
    list(Scope.objects.select_for_update(no_key=True).filter(pk=scope_id).values_list("pk"))
    if not Scope.objects.filter(live(), pk=scope_id).exists():
        raise NotVisible("This scope is archived.")
