"""Listener panel of the pipeline editor for a blue/green step (R232-R234)."""

from dataclasses import dataclass, field
from typing import Any, Final

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from catalog.models import Infrastructure
from connectors.models import Connector
from delegates.access.lookup_requests import list_options
from delegates.models import LookupRequest
from rbac.policy import filter_visible
from steps.expressions import has_expression
from web.forms.pages import PageRequest, require_sign_in
from web.http.problems import Problem

ACCESS: Final = "core_connector_access"
LISTENER_SIDES: Final = (("prod", "Production"), ("stage", "Stage"))
# Value for the rule of a listener without rules.
DEFAULT_RULE: Final = "default"


class LookupPending(Exception):
    """Error raised while a delegate has not answered a lookup."""

    def __init__(self, lookup: LookupRequest) -> None:
        super().__init__(str(lookup))
        self.lookup = lookup


@dataclass
class ListenerSide:
    """One of the two listeners of a step, with its selected rule."""

    name: str
    title: str
    listener: str
    rule: str
    rules: list[dict[str, Any]] = field(default_factory=list)

    @property
    def chosen(self) -> dict[str, Any] | None:
        """Return the selected rule if the listener has it."""
        return next((rule for rule in self.rules if rule["value"] == self.rule), None)


@require_sign_in
@require_safe
def choose_listeners(request: PageRequest) -> HttpResponse:
    """Render the fields of load balancer, listeners and rules with the selectable values of AWS."""
    places = _list_infrastructures(request)
    key = request.GET.get("place", "")
    place = next((infrastructure for infrastructure in places if str(infrastructure.pk) == key), None)
    content: dict[str, Any] = {
        "places": places,
        "place": place,
        "asked_balancer": request.GET.get("balancer", ""),
        "sides": _build_sides(request),
    }
    if place is not None:
        try:
            _load_choices(request, place, content)
        except LookupPending as pending:
            content["waits"] = pending.lookup
        except Problem as problem:
            content |= {
                "refusal": problem.detail,
                "next_step": reverse("connector", args=[place.connector_id]),
            }
    return render(request, "pipelines/_listeners.html", content)


def _list_infrastructures(request: PageRequest) -> list[Infrastructure]:
    """Return the infrastructures with connectors that this user may use for lookups."""
    usable = filter_visible(request.user, ACCESS, Connector.objects.all())
    rows = filter_visible(request.user, "core_environment_view", Infrastructure.objects.all())
    infrastructures = rows.select_related("environment__scope", "connector__scope", "connector__secret")
    return list(
        infrastructures.filter(connector__in=usable).order_by("environment__identifier", "identifier")[:100]
    )


def _build_sides(request: PageRequest) -> list[ListenerSide]:
    query = request.GET
    return [
        ListenerSide(name, title, query.get(f"{name}_listener", ""), query.get(f"{name}_rule", ""))
        for name, title in LISTENER_SIDES
    ]


def _load_choices(request: PageRequest, place: Infrastructure, content: dict[str, Any]) -> None:
    if place.is_dynamic and has_expression(place.region):
        raise Problem(
            f"{place.name} is provisioned by each run, so its region is unknown. Choose another "
            "infrastructure."
        )
    balancers = _list_load_balancing(request, place, LookupRequest.Kind.BALANCERS)
    content["balancers"] = balancers
    balancer_arn = content["asked_balancer"]
    content["balancer"] = chosen = next(
        (balancer for balancer in balancers if balancer["arn"] == balancer_arn), None
    )
    if chosen is None:
        return
    listeners = _list_load_balancing(request, place, LookupRequest.Kind.LISTENERS, chosen["arn"])
    content["listeners"] = listeners
    for side in content["sides"]:
        if any(listener["arn"] == side.listener for listener in listeners):
            rules = _list_load_balancing(request, place, LookupRequest.Kind.RULES, side.listener)
            side.rules = [{**rule, "value": rule["arn"] or DEFAULT_RULE} for rule in rules]
    content["ready"] = all(side.chosen for side in content["sides"])
    if content["ready"]:
        content["same"] = _find_shared_target_groups(content["sides"])


def _list_load_balancing(
    request: PageRequest, place: Infrastructure, kind: str, subject: str = ""
) -> list[dict[str, Any]]:
    options = list_options(
        actor=request.user, connector=place.connector, kind=kind, region=place.region, subject=subject
    )
    if isinstance(options, LookupRequest):
        raise LookupPending(options)
    return options


def _find_shared_target_groups(sides: list[ListenerSide]) -> str:
    """Return a target group of both rules: blue/green needs a separate one for each."""
    names = [{target["name"] for target in (side.chosen or {}).get("targets", ())} for side in sides]
    return ", ".join(sorted(set.intersection(*names)))
