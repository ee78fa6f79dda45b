"""Selection of delegates by their tags in SQL, equal to the rule for one delegate."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from delegates.connectivity import build_live_filter
from delegates.models import Delegate, DelegateInstance, DelegateTag
from delegates.models.tags import OWN_TAG, fold_tag

# A tag with more rows is common: its delegates are found in the round-robin order instead of by their keys.
COMMON = 200
# In a subquery, because SQLite knows no limit for a part of a union.
_FIRST_ROWS = (
    "SELECT tag, delegate_id FROM (SELECT tag, delegate_id FROM delegates_delegatetag"
    " WHERE scope_id = %s AND tag = %s ORDER BY delegate_id LIMIT %s) AS first_rows"
)


class TagFilter:
    """Filter for the delegates of some scopes by tags at one moment, equal to `list_effective_tags`."""

    def __init__(self, scopes: Sequence[int], now: datetime, *, common: int = COMMON) -> None:
        self._scopes = scopes
        self._now = now
        self._common = common
        self._few: dict[tuple[str, ...], frozenset[int] | None] = {}

    def narrow(self, delegates: QuerySet[Delegate], selectors: Iterable[str]) -> QuerySet[Delegate]:
        """Return those of these delegates that have all of these tags, connected or not (R050)."""
        tags = _fold_selectors(selectors)
        delegates = delegates.filter(self._build_condition(tags))
        few = self._list_few(tags)
        return delegates if few is None else delegates.filter(pk__in=few)

    def build_condition(self, selectors: Iterable[str]) -> Q:
        """Return the condition of the delegates that have all of these tags, for a read of all delegates."""
        return self._build_condition(_fold_selectors(selectors))

    def _build_condition(self, tags: Iterable[str]) -> Q:
        condition = Q()
        for tag in tags:
            own = OWN_TAG.fullmatch(tag)
            condition &= Q(pk=int(own[1])) if own else Q(Exists(self._select_rows(tag)))
        return condition

    def _list_few(self, tags: tuple[str, ...]) -> frozenset[int] | None:
        """Return a few delegates of which some may have all of these tags; None if each tag is common."""
        if tags not in self._few:
            self._few[tags] = self._read_few([tag for tag in tags if not OWN_TAG.fullmatch(tag)])
        return self._few[tags]

    def _read_few(self, tags: Sequence[str]) -> frozenset[int] | None:
        pairs = [(scope, tag) for tag in tags for scope in self._scopes]
        if not pairs:
            return None
        delegates = defaultdict[str, list[int]](list)
        # One statement for all tags, because the first one of a task may be common and the last one rare.
        with connection.cursor() as cursor:
            parameters = [value for pair in pairs for value in (*pair, self._common + 1)]
            cursor.execute(" UNION ALL ".join([_FIRST_ROWS] * len(pairs)), parameters)
            for tag, delegate in cursor.fetchall():
                delegates[tag].append(delegate)
        few = [frozenset(delegates[tag]) for tag in tags if len(delegates[tag]) <= self._common]
        return frozenset.intersection(*few) if few else None

    def _select_rows(self, tag: str) -> QuerySet[DelegateTag]:
        """Return the rows of a tag that count now, of the delegate of an outer query."""
        live = DelegateInstance.objects.filter(build_live_filter(self._now))
        siblings = DelegateInstance.objects.filter(delegate=OuterRef("delegate"))
        seen_at = Coalesce("last_heartbeat_at", "registered_at")
        last = Subquery(siblings.order_by(seen_at.desc(), "pk").values("pk")[:1])
        counts = (
            Q(instance__isnull=True)
            | Exists(live.filter(pk=OuterRef("instance")))
            | Q(~Exists(live.filter(delegate=OuterRef("delegate"))), instance=last)
        )
        return DelegateTag.objects.filter(counts, delegate=OuterRef("pk"), tag=tag)


def _fold_selectors(selectors: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({fold_tag(selector) for selector in selectors}))
