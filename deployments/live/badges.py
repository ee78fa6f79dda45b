"""Counts of the navigation badges, and their live topic."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, cast

from deployments.approvals.live import BADGES_NAME, publish_badges_changed
from deployments.approvals.queries import count_waiting_approvals
from rbac.models import User
from web.live import Audience, TopicSnapshot, TopicSource
from web.live.sources import parse_primary_keys

__all__ = ["BADGE_SOURCE", "count_badges", "publish_badges_changed", "register_badge"]

# Counts for all of these people at once, in as many queries as for one; none has come with an API key.
BadgeCounter = Callable[[Sequence[User]], Counter[int]]
_Counts = tuple[tuple[str, int], ...]
WAITING_BADGE: Final = "waiting"
_counts: Final[dict[str, BadgeCounter]] = {WAITING_BADGE: count_waiting_approvals}


def register_badge(name: str, count: BadgeCounter) -> None:
    """Register a badge that is counted and published with the others."""
    _counts[name] = count


def count_badges(people: Sequence[User]) -> dict[int, Mapping[str, int]]:
    """Return the numbers of all badges of these users, by user id."""
    counted = {name: count(people) for name, count in _counts.items()}
    return {person.pk: {name: numbers[person.pk] for name, numbers in counted.items()} for person in people}


def read_badge_snapshots(keys: Collection[str] | None) -> dict[str, tuple[TopicSnapshot, ...]]:
    """Return the numbers of these people's badges, counted for all together."""
    by_key = parse_primary_keys(User, keys or ())
    counts = count_badges(list(User.objects.filter(pk__in=list(by_key), is_active=True)))
    return {
        by_key[pk]: (
            TopicSnapshot(
                Audience(person_id=pk), tuple(sorted(numbers.items())), frozenset({f"badges:{pk}"})
            ),
        )
        for pk, numbers in counts.items()
    }


def get_badge_counts(snapshots: Collection[TopicSnapshot]) -> Mapping[str, int]:
    """Return the numbers of one person's badges by name."""
    return {name: count for snapshot in snapshots for name, count in cast("_Counts", snapshot.state)}


def _read_audiences(keys: Collection[str]) -> dict[str, Audience]:
    return {key: Audience(person_id=pk) for pk, key in parse_primary_keys(User, keys).items()}


BADGE_SOURCE: Final = TopicSource(
    BADGES_NAME,
    topics={BADGES_NAME: _read_audiences},
    read_snapshots=read_badge_snapshots,
    reads_watched_keys=True,
    poll_seconds=10,
)
