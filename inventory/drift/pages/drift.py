"""Pages of drift: what differs where, and one ECS service field by field."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from inventory.drift import operations, queries
from inventory.drift.freshness import Freshness
from inventory.models.drift import Comparison, Drift
from rbac.policy import can
from web.lists import visible_on_long_list
from web.pages import PageRequest, get_visible, page
from web.paging import keyset
from web.problems import BadInput

STATES: Final = Comparison.State
EVERYTHING: Final = "all"
CHOICES: Final = (
    (STATES.DRIFTED, "Changed outside"),
    (STATES.ACCEPTED, "Accepted"),
    (STATES.IN_STEP, "As deployed"),
    (STATES.NOT_COMPARED, "Not compared"),
    (EVERYTHING, "All"),
)


@dataclass(frozen=True)
class Row:
    """A field that differs, with its values as text."""

    drift: Drift
    desired: str
    found: str


@page
@require_safe
def drift(request: PageRequest) -> HttpResponse:
    """This will list the ECS services of the chosen scope that differ from what was deployed."""
    chosen = request.GET.get("show", "")
    chosen = chosen if chosen in dict(CHOICES) else STATES.DRIFTED
    mine = visible_on_long_list(request, queries.VIEW, Comparison.objects.filter(seen__gone_at=None))
    counts = {**queries.counted(mine)}
    counts[EVERYTHING] = sum(counts.values())
    found = mine if chosen == EVERYTHING else mine.filter(state=chosen)
    context = {
        "page": keyset(queries.with_places(found), request),
        "choices": [(name, title, counts.get(name, 0)) for name, title in CHOICES],
        "chosen": chosen,
    }
    return render(request, "inventory/drift/list.html", context)


@page
@require_safe
def comparison(request: PageRequest, pk: int) -> HttpResponse:
    """This will show one ECS service beside what was deployed to it."""
    return render(request, "inventory/drift/detail.html", _detail(request, _found(request, pk)))


@page
@require_POST
def look(request: PageRequest, pk: int) -> HttpResponse:
    """This will have the cluster looked at now."""
    operations.look_now(actor=request.user, comparison=_found(request, pk))
    messages.success(request, "Slipway looks now. What it finds is here in a few seconds.")
    return redirect("drift-of-service", pk=pk)


@page
@require_POST
def decide(request: PageRequest, pk: int) -> HttpResponse:
    """This will accept the chosen fields, or accept them no longer."""
    found, reason = _found(request, pk), request.POST.get("reason", "")
    keys = [int(one) for one in request.POST.getlist("drift") if one.isdecimal() and len(one) < 19]
    try:
        if request.POST.get("verdict") == "withdraw":
            operations.withdraw(actor=request.user, comparison=found, keys=keys)
        else:
            operations.accept(actor=request.user, comparison=found, keys=keys, reason=reason)
    except BadInput as problem:
        said = {"said": problem.detail, "reason": reason, "marked": keys}
        return render(
            request, "inventory/drift/detail.html", {**_detail(request, found), **said}, status=problem.status
        )
    return redirect("drift-of-service", pk=pk)


def _detail(request: PageRequest, found: Comparison) -> dict[str, Any]:
    fields, fresh = queries.open_fields(found), Freshness.of(found)
    return {
        "comparison": found,
        "rows": rows_of(fields),
        "told": sorted({one.told for one in fields if one.told and one.accepted_at is None}),
        "earlier": rows_of(queries.earlier_drifts(found)),
        "fresh": fresh,
        "may_see_connector": can(request.user, "core_connector_view", fresh.cluster.connector),
        "may_accept": can(request.user, queries.EDIT, found),
        "may_look": can(request.user, queries.LOOK, found),
    }


def rows_of(drifts: Sequence[Drift]) -> list[Row]:
    """The fields with their values as a person reads them."""
    return [Row(one, text_of(one.desired), text_of(one.found)) for one in drifts]


def text_of(value: Any) -> str:
    """A value as indented JSON; a text as it is, nothing as nothing."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


def _found(request: PageRequest, pk: int) -> Comparison:
    return get_visible(request, queries.VIEW, queries.with_places(Comparison.objects.all()), pk=pk)
