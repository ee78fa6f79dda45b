"""Retention of rows: one rule per kind of row, and the batches that delete expired rows.

Apps declare their rules; `config/wiring.py` registers them by group, and Celery beat prunes each group.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

# A long transaction keeps others from writing.
BATCH_SIZE = 1000


@dataclass(frozen=True)
class RetentionRule:
    """Rows of one kind that go once `column` is older than `age`; without a column, they go at once."""

    rows: QuerySet[Any]
    column: str = ""
    age: timedelta = timedelta(0)
    batch_size: int = BATCH_SIZE
    clear: Mapping[str, Any] | None = None
    """Values set in place of a deletion, for rows that outlive their content."""

    def prune(self, now: datetime) -> int:
        """Delete or clear the expired rows and return their number."""
        expired = self.rows.filter(**{f"{self.column}__lt": now - self.age} if self.column else {})
        if self.clear is not None:
            return expired.update(**self.clear)
        return self._delete_in_batches(expired)

    def _delete_in_batches(self, expired: QuerySet[Any]) -> int:
        total = 0
        while ids := list(expired.values_list("pk", flat=True)[: self.batch_size]):
            # By the condition too: a row may have come into use since it was listed.
            expired.filter(pk__in=ids).delete()
            total += len(ids)
        return total


_groups: dict[str, Sequence[RetentionRule]] = {}


def register_retention(group: str, rules: Sequence[RetentionRule]) -> None:
    """Prune these rules together, in this order."""
    _groups[group] = rules


def prune_rows(rules: Sequence[RetentionRule], now: datetime) -> int:
    """Prune each rule in order, and return the number of rows."""
    return sum(rule.prune(now) for rule in rules)


def prune_group(group: str, now: datetime) -> int:
    """Prune the rules registered for one group and return the number of rows."""
    return prune_rows(_groups[group], now)
