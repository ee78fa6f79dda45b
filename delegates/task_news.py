"""What pages hear of delegate tasks: that one waits, runs or has ended, and that it has written lines."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any, Final

from django.db.models import Q

from delegates.models import DelegateTask
from rbac.policy import Place
from web.clock import database_now
from web.news import Audience, Shown, Subject, at_places, changed, in_scopes
from web.news.subjects import keys_of

VIEW: Final = "core_delegate_view"
SUBJECT: Final = "delegate-tasks"
# What was queued and ended between two looks is found by when it was queued.
JUST_QUEUED: Final = timedelta(minutes=5)
_LISTED: Final = ("status", "reason", "offered_to_id", "instance_id", "finished_at")
_ALONE: Final = ("fence", "next_sequence", "abort_requested")


def task_changed(*tasks: Any) -> None:
    """After the commit under way, have pages that show these tasks look; by their keys."""
    changed(SUBJECT, *tasks)


def task_looks(keys: Collection[str] | None) -> dict[str, tuple[Shown, ...]]:
    """How these tasks look, or all that are open or are new; two queries at most."""
    if keys is None:
        since = database_now() - JUST_QUEUED
        wanted = Q(status__in=DelegateTask.OPEN) | Q(queued_at__gte=since)
    else:
        wanted = Q(pk__in=list(keys_of(DelegateTask, keys)))
    rows = DelegateTask.objects.filter(wanted).values_list("pk", "scope_id", *_LISTED, *_ALONE)
    found: dict[str, tuple[Shown, ...]] = {}
    for pk, scope, *facts in rows:
        audience, listed = Audience(Place(scope, {}), VIEW), tuple(facts[: len(_LISTED)])
        alone = Shown(audience, tuple(facts), frozenset({f"delegate-task:{pk}"}))
        # Who is below sees it too.
        at = frozenset({f"{SUBJECT}-at:{scope}"})
        found[str(pk)] = (Shown(audience, listed, at, listed_as=SUBJECT), alone)
    return found


TASKS: Final = Subject(
    SUBJECT,
    topics={SUBJECT: in_scopes, f"{SUBJECT}-at": in_scopes, "delegate-task": at_places(DelegateTask, VIEW)},
    looks=task_looks,
)
