"""Tags of all registered delegates in some scopes, read at once to find those that tasks select."""

import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property
from itertools import groupby
from operator import itemgetter

from django.db.models import Q, TextField
from django.db.models.expressions import ExpressionWrapper
from django.db.models.fields import BooleanField
from django.db.models.functions import Cast, Coalesce

from delegates.connectivity import build_live_filter
from delegates.models import Delegate, DelegateInstance
from delegates.queries.routing_candidates import build_own_tag

# The tag of a single delegate, which needs no search.
_OWN_TAG = re.compile(build_own_tag(0).replace("0", r"([0-9]{1,18})"))


class TagDirectory:
    """Tags of the delegates of some scopes at one moment, equal to `list_effective_tags`."""

    def __init__(self, scopes: Sequence[int], now: datetime) -> None:
        self._scopes = scopes
        self._now = now

    def list_delegates(self, selectors: Iterable[str]) -> frozenset[int]:
        """Return the delegates that have all of these tags, connected or not (R050)."""
        names = list(selectors)
        if len(names) == 1 and (own := _OWN_TAG.fullmatch(names[0])):
            return frozenset({int(own[1])})
        needles = [_quote(selector) for selector in names]
        return frozenset(
            key for key, text in self._texts.items() if all(needle in text for needle in needles)
        )

    @cached_property
    def _texts(self) -> dict[int, str]:
        # Texts are searched as they are: parsing ten thousand lists would take longer than all the rest.
        rows = Delegate.objects.filter(scope__in=self._scopes, archived_at=None)
        reported = self._read_reported_tags()
        return {
            key: "".join([_normalize(tags), _quote(name), _quote(build_own_tag(key)), reported.get(key, "")])
            for key, name, tags in rows.values_list("pk", "name", Cast("tags", TextField()))
        }

    def _read_reported_tags(self) -> dict[int, str]:
        """Return the tags of the connected instances, or of the one that was seen last."""
        is_live = ExpressionWrapper(Q(build_live_filter(self._now)), output_field=BooleanField())
        instances = DelegateInstance.objects.filter(
            delegate__scope__in=self._scopes, delegate__archived_at=None
        ).annotate(is_live=is_live, seen_at=Coalesce("last_heartbeat_at", "registered_at"))
        rows = instances.order_by("delegate_id", "-seen_at").values_list(
            "delegate_id", "is_live", Cast("tags", TextField())
        )
        return {
            delegate: "".join(_choose_texts([(is_live, text) for _, is_live, text in group]))
            for delegate, group in groupby(rows, itemgetter(0))
        }


def _choose_texts(instances: Sequence[tuple[bool, str]]) -> list[str]:
    live = [text for is_live, text in instances if is_live]
    return [_normalize(text) for text in live or [instances[0][1]]]


def _normalize(tags: str) -> str:
    """Return a JSON list in lower case, without the escapes of SQLite's texts."""
    if "\\" in tags:
        tags = json.dumps(json.loads(tags), ensure_ascii=False)
    return tags.casefold()


def _quote(tag: str) -> str:
    return json.dumps(tag, ensure_ascii=False).casefold()
