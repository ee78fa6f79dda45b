"""Reasons why tasks of a delegate wait."""

from datetime import datetime

from django.db.models import Count, Min
from django.urls import reverse

from delegates.models import Delegate, DelegateTask
from rbac.policy import Principal, filter_visible
from web.work_delays import DelayCode, WorkDelay, describe_seconds, list_installation_delays

VIEW = "core_delegate_view"


def list_delegate_delays(reader: Principal, delegate: Delegate, now: datetime) -> list[WorkDelay]:
    """Return why tasks in the scope of this delegate wait; one query beside those for the installation."""
    queued = DelegateTask.objects.filter(status=DelegateTask.Status.QUEUED, offered_to=None)
    # Routing writes the reason; a task without one is about to be offered.
    unfit = filter_visible(reader, VIEW, queued.exclude(reason=""), delegate.scope)
    waiting = unfit.aggregate(count=Count("pk"), since=Min("queued_at"))
    delays = list_installation_delays(now)
    if count := waiting["count"]:
        seconds = describe_seconds((now - waiting["since"]).total_seconds())
        subject = "1 task waits" if count == 1 else f"{count} tasks wait"
        text = f"{subject} for a delegate that fits, the oldest for {seconds}."
        path = f"{reverse('delegate-tasks')}?status=queued"
        delays.append(WorkDelay(DelayCode.NO_MATCHING_DELEGATE, text, path, "Show queued tasks"))
    return delays
