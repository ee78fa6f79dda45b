"""The page of one delegate: what runs, what it did, what it said, what happened to it."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from delegates.charts import charts_of
from delegates.models import Delegate, DelegateInstance
from delegates.queries import delegate_history as history
from delegates.queries import delegates as queries
from delegates.queries.delegate_logs import log_of
from delegates.queries.delegate_uses import as_uses, served_by
from rbac.policy import Principal, permissions_at
from web.clock import database_now
from web.pages import PageRequest, get_visible, page
from web.paging import keyset

MOST_SHOWN: Final = 20


class Tab(NamedTuple):
    """A part of the page with an address of its own."""

    name: str
    title: str
    content: Callable[[PageRequest, Delegate, datetime], dict[str, Any]]


def with_all(delegates: QuerySet[Delegate]) -> QuerySet[Delegate]:
    """Delegates with what their page shows of them everywhere."""
    return queries.with_instances(delegates).select_related("configuration", "created_by", "token")


@page
@require_safe
def delegate(request: PageRequest, pk: int) -> HttpResponse:
    """This will show one delegate; its script keeps the open part up to date."""
    found = get_visible(request, queries.VIEW, with_all(Delegate.objects.defer("token__value")), pk=pk)
    now = database_now()
    running = queries.running_on(one.pk for one in found.instances.all())
    tab = next((one for one in TABS if one.name == request.GET.get("tab")), TABS[0])
    content = {
        "delegate": found,
        "facts": queries.facts(found, running, now, queries.last_ends([found]).get(found.pk)),
        "instances": queries.instance_facts(found, running, now),
        "unisolated": _runs_unisolated_scripts(found),
        "rights": permissions_at(request.user, found),
        "tabs": TABS,
        "tab": tab.name,
        "part": f"delegates/parts/_{tab.name}.html",
    }
    return render(request, "delegates/delegate.html", content | tab.content(request, found, now))


def _runs_unisolated_scripts(found: Delegate) -> bool:
    if found.is_built_in and not settings.EMBEDDED:
        return False
    return any(not one.is_isolated for one in found.instances.all() if one.status in queries.EXPECTED)


def _instances(request: PageRequest, found: Delegate, now: datetime) -> dict[str, Any]:
    day = history.day_of(found, now)
    return {
        "day": day,
        "charts": charts_of(day, now),
        "refusals": history.refusals(found),
        "uses": uses(request.user, found, now),
    }


def uses(reader: Principal, found: Delegate, now: datetime) -> Any:
    """The connectors that a delegate can serve, by name as far as `reader` may see them."""
    tags = frozenset(queries.tags_of(found, found.instances.all(), now))
    return as_uses(served_by(found, tags), reader)


def _tasks(request: PageRequest, found: Delegate, now: datetime) -> dict[str, Any]:
    return {"tasks": history.tasks_of(found)}


def _lists(request: PageRequest, found: Delegate, now: datetime) -> dict[str, Any]:
    return {"allowed": history.allowed(found, now), "blocked": history.blocked(found, now), "now": now}


def _log(request: PageRequest, found: Delegate, now: datetime) -> dict[str, Any]:
    instances: list[DelegateInstance] = list(found.instances.all())
    asked = request.GET.get("instance", "")
    chosen = next((one for one in instances if str(one.pk) == asked), instances[0] if instances else None)
    return {"log": log_of(chosen), "logging": chosen, "choices": instances[:MOST_SHOWN]}


def _events(request: PageRequest, found: Delegate, now: datetime) -> dict[str, Any]:
    return {"page": keyset(found.events.select_related("instance"), request, order="at")}


def _spec(request: PageRequest, found: Delegate, now: datetime) -> dict[str, Any]:
    told = found.spec if isinstance(found.spec, dict) else {}
    return {"told": [(key.replace("_", " ").capitalize(), value) for key, value in sorted(told.items())]}


TABS: Final = (
    Tab("instances", "Instances", _instances),
    Tab("tasks", "Tasks", _tasks),
    Tab("lists", "Allowed and blocked", _lists),
    Tab("log", "Log", _log),
    Tab("events", "Events", _events),
    Tab("spec", "Spec", _spec),
)
