"""The panel of the pipeline editor that lists listeners and rules for a blue/green step (R232-R234)."""

from dataclasses import dataclass, field
from typing import Any, Final

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from catalog.models import Infrastructure
from connectors.models import Connector
from delegates.inquiries import seen_by_connector
from delegates.models import Inquiry
from rbac.policy import visible_to
from steps.expressions import has_expression
from web.pages import PageRequest, page
from web.problems import Problem

ACCESS: Final = "core_connector_access"
SIDES: Final = (("prod", "Production"), ("stage", "Stage"))
# What stands for the rule of a listener that has none of its own.
DEFAULT: Final = "default"


class StillAsked(Exception):
    """A delegate is asked and has not answered."""

    def __init__(self, inquiry: Inquiry) -> None:
        super().__init__(str(inquiry))
        self.inquiry = inquiry


@dataclass
class Side:
    """One of the two listeners that a step needs, and the rule that is chosen there."""

    name: str
    title: str
    listener: str
    rule: str
    rules: list[dict[str, Any]] = field(default_factory=list)

    @property
    def chosen(self) -> dict[str, Any] | None:
        """The rule that is chosen, if the listener has it."""
        return next((one for one in self.rules if one["value"] == self.rule), None)


@page
@require_safe
def choose_listeners(request: PageRequest) -> HttpResponse:
    """This will ask AWS for load balancers, listeners and rules, as far as they are chosen already."""
    places = _places(request)
    asked = request.GET.get("place", "")
    place = next((one for one in places if str(one.pk) == asked), None)
    content: dict[str, Any] = {
        "places": places,
        "place": place,
        "asked_balancer": request.GET.get("balancer", ""),
        "sides": _sides(request),
    }
    if place is not None:
        try:
            _list(request, place, content)
        except StillAsked as still:
            content["waits"] = still.inquiry
        except Problem as problem:
            content |= {
                "refusal": problem.detail,
                "next_step": reverse("connector", args=[place.connector_id]),
            }
    return render(request, "pipelines/_listeners.html", content)


def _places(request: PageRequest) -> list[Infrastructure]:
    """The infrastructures whose connector may list something for this person."""
    usable = visible_to(request.user, ACCESS, Connector.objects.all())
    rows = visible_to(request.user, "core_environment_view", Infrastructure.objects.all())
    found = rows.select_related("environment__scope", "connector__scope", "connector__secret")
    return list(found.filter(connector__in=usable).order_by("environment__identifier", "identifier")[:100])


def _sides(request: PageRequest) -> list[Side]:
    asked = request.GET
    return [
        Side(name, title, asked.get(f"{name}_listener", ""), asked.get(f"{name}_rule", ""))
        for name, title in SIDES
    ]


def _list(request: PageRequest, place: Infrastructure, content: dict[str, Any]) -> None:
    if place.is_dynamic and has_expression(place.region):
        raise Problem(
            f"{place.name} is provisioned by each run, so nobody knows its region yet: choose another one."
        )
    balancers = _seen(request, place, Inquiry.Kind.BALANCERS)
    content["balancers"] = balancers
    asked = content["asked_balancer"]
    content["balancer"] = chosen = next((one for one in balancers if one["arn"] == asked), None)
    if chosen is None:
        return
    listeners = _seen(request, place, Inquiry.Kind.LISTENERS, chosen["arn"])
    content["listeners"] = listeners
    for side in content["sides"]:
        if any(one["arn"] == side.listener for one in listeners):
            rules = _seen(request, place, Inquiry.Kind.RULES, side.listener)
            side.rules = [{**one, "value": one["arn"] or DEFAULT} for one in rules]
    content["ready"] = all(side.chosen for side in content["sides"])
    if content["ready"]:
        content["same"] = _shared_targets(content["sides"])


def _seen(request: PageRequest, place: Infrastructure, kind: str, subject: str = "") -> list[dict[str, Any]]:
    found = seen_by_connector(
        actor=request.user, connector=place.connector, kind=kind, region=place.region, subject=subject
    )
    if isinstance(found, Inquiry):
        raise StillAsked(found)
    return found


def _shared_targets(sides: list[Side]) -> str:
    """A target group that both rules send traffic to: blue/green needs one for each."""
    names = [{one["name"] for one in (side.chosen or {}).get("targets", ())} for side in sides]
    return ", ".join(sorted(set.intersection(*names)))
