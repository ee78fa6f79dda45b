"""Retention of rows: one rule per kind of row, and the batches that delete expired rows.

Apps declare their rules; `config/wiring.py` registers them by group, and Celery beat prunes each group.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from guards.limits import IDEMPOTENCY_HOURS
from web.models import IdempotentRequest

# A long transaction keeps others from writing.
BATCH_SIZE = 1000


@dataclass(frozen=True)
class RetentionRule:
    """Rows of one kind that go once `column` is older than `age`; without a column, they go at once.

    `title` names the kind on the page. `setting` names the environment variable that sets the days in place
    of `age`. Without a period, which is 0 days in a setting, rows stay forever.
    """

    title: str
    rows: QuerySet[Any]
    column: str = ""
    age: timedelta | None = timedelta(0)
    setting: str = ""
    batch_size: int = BATCH_SIZE
    most_batches: int | None = None
    """Batches of one prune; the rest waits for the next one."""
    clear: Mapping[str, Any] | None = None
    """Values set in place of a deletion, for rows that outlive their content."""
    remove: Callable[[Sequence[Any], datetime], None] | None = None
    """Function called with the keys of a batch in place of a deletion, such as for rows of other tables."""

    @property
    def period(self) -> timedelta | None:
        """Return how long rows are kept; None is forever."""
        if not self.setting:
            return self.age
        days = settings.RETENTION_DAYS[self.setting]
        return timedelta(days=days) if days else None

    def filter_expired(self, now: datetime) -> QuerySet[Any]:
        """Return the rows that are older than the period at this time."""
        if self.period is None:
            return self.rows.none()
        return self.rows.filter(**{f"{self.column}__lt": now - self.period} if self.column else {})

    def prune(self, now: datetime) -> int:
        """Delete or clear the expired rows and return their number."""
        expired = self.filter_expired(now)
        if self.clear is not None:
            return expired.update(**self.clear)
        return self._delete_in_batches(expired, now)

    def _delete_in_batches(self, expired: QuerySet[Any], now: datetime) -> int:
        total = 0
        batches = count() if self.most_batches is None else range(self.most_batches)
        for _ in batches:
            ids = list(expired.values_list("pk", flat=True)[: self.batch_size])
            if not ids:
                break
            if self.remove is not None:
                self.remove(ids, now)
            else:
                # By the condition too: a row may have come into use since it was listed.
                expired.filter(pk__in=ids).delete()
            total += len(ids)
        return total


# Here and not beside the code of the API, which workers do not load.
IDEMPOTENCY_RETENTION = (
    RetentionRule(
        "Answers by idempotency key",
        IdempotentRequest.objects.all(),
        "created_at",
        timedelta(hours=IDEMPOTENCY_HOURS),
    ),
)
_groups: dict[str, Sequence[RetentionRule]] = {}


def register_retention(group: str, rules: Sequence[RetentionRule]) -> None:
    """Prune these rules together, in this order."""
    _groups[group] = rules


def list_retention_groups() -> Mapping[str, Sequence[RetentionRule]]:
    """Return the registered rules by group."""
    return _groups


def prune_rows(rules: Sequence[RetentionRule], now: datetime) -> int:
    """Prune each rule in order, and return the number of rows."""
    return sum(rule.prune(now) for rule in rules)


def prune_group(group: str, now: datetime) -> int:
    """Prune the rules registered for one group and return the number of rows."""
    return prune_rows(_groups[group], now)
