"""Repair of the rows of tags that processes of an older release did not write."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from delegates.models import Delegate, DelegateInstance, DelegateTag
from delegates.models.tags import fold_tags, write_tags

# Twice the time that a process of the release before may work beside this one in an upgrade without pause.
RECENT = timedelta(minutes=10)
# Key of a delegate, and of its instance or None.
Owner = tuple[int, int | None]


def repair_tags(now: datetime) -> int:
    """Write the rows of delegates and instances that changed recently and differ, and return their number.

    Four queries without differences.
    """
    expected = _read_tags(now)
    if not expected:
        return 0
    stored = defaultdict[Owner, set[str]](set)
    delegates = {delegate for delegate, _ in expected}
    rows = DelegateTag.objects.filter(delegate__in=delegates).values_list("delegate_id", "instance_id", "tag")
    for delegate, instance, tag in rows:
        stored[delegate, instance].add(tag)
    different = [owner for owner, tags in expected.items() if fold_tags(tags) != stored[owner]]
    for owner in different:
        _rewrite(*owner)
    return len(different)


def _read_tags(now: datetime) -> dict[Owner, Iterable[Any]]:
    """Return the tags of the owners that changed recently."""
    delegates = Delegate.objects.filter(updated_at__gt=now - RECENT)
    instances = DelegateInstance.objects.filter(registered_at__gt=now - RECENT)
    tags: dict[Owner, Iterable[Any]] = {
        (pk, None): [*tags, name] for pk, name, tags in delegates.values_list("pk", "name", "tags")
    }
    tags |= {
        (delegate, pk): tags for pk, delegate, tags in instances.values_list("pk", "delegate_id", "tags")
    }
    return tags


@transaction.atomic
def _rewrite(delegate: int, instance: int | None) -> None:
    """Write the rows of one owner under its lock, unless it was deleted meanwhile."""
    if instance is None:
        if row := Delegate.objects.select_for_update().filter(pk=delegate).first():
            write_tags(row)
        return
    instances = DelegateInstance.objects.select_for_update(of=("self",)).select_related("delegate")
    if found := instances.filter(pk=instance).first():
        write_tags(found.delegate, found)
