"""What the badges of the navigation count: approvals, and what the apps above this one add."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from django.db import transaction

from deployments.approval_news import GROUP
from deployments.approval_queries import waiting_counts
from rbac.models import User
from web.telling import tell_group

# Counts for all of these people at once, in as many queries as for one; none has come with an API key.
Count = Callable[[Sequence[User]], Counter[int]]
WAITING: Final = "waiting"
_counts: Final[dict[str, Count]] = {WAITING: waiting_counts}


def also_counted(name: str, count: Count) -> None:
    """Have a badge of this name counted and told with the others."""
    _counts[name] = count


def badges_changed() -> None:
    """After the commit under way, have all badges counted again."""
    transaction.on_commit(lambda: tell_group(GROUP, {"type": "badges.changed"}))


def badges_of(people: Sequence[User]) -> dict[int, Mapping[str, int]]:
    """The numbers of all badges of each of these, by the key of the person."""
    counted = {name: count(people) for name, count in _counts.items()}
    return {one.pk: {name: found[one.pk] for name, found in counted.items()} for one in people}
