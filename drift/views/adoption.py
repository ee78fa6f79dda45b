"""Pages of adoption: which ECS services are nobody's here, and one of them on its way to be taken over."""

from typing import Any, Final

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.text import slugify
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from connectors.downstream import LacksAccess
from deployments.models import Infrastructure
from drift import adoptions, queries
from drift.adopting import Proposal
from drift.adoptions import AdoptionSpec
from drift.documents.readback import base_name
from drift.models import Adoption
from instances.queries import cluster_of
from rbac.policy import can
from web.pages import PageRequest, get_visible, page
from web.paging import keyset
from web.problems import BadInput, Conflict, Problem

READING: Final = Adoption.State.READING


@page
@require_safe
def unknown(request: PageRequest, pk: int) -> HttpResponse:
    """This will list the ECS services of a cluster that Slipway does not deploy."""
    return _listed(request, _place(request, pk))


@page
@require_POST
def read(request: PageRequest, pk: int) -> HttpResponse:
    """This will have an ECS service read back."""
    place = _place(request, pk)
    try:
        name = request.POST.get("ecs_service", "")
        adoption = adoptions.read_for_adoption(actor=request.user, infrastructure=place, ecs_service=name)
    except (BadInput, LacksAccess) as problem:
        return _listed(request, place, said=problem.detail, status=problem.status)
    return redirect("adoption", pk=adoption.pk)


@page
@require_http_methods(["GET", "HEAD", "POST"])
def adoption(request: PageRequest, pk: int) -> HttpResponse:
    """This will show what was read back and what would be made of it, and make it."""
    found = _found(request, pk)
    if request.method != "POST":
        return _wizard(request, found)
    typed = {name: request.POST.get(name, "").strip() for name in ("identifier", "name", "strategy")}
    try:
        adoptions.adopt(actor=request.user, adoption=found, spec=AdoptionSpec(**typed))
    except (BadInput, Conflict, LacksAccess) as problem:
        return _wizard(request, found, typed=typed, problem=problem)
    return redirect("adoption", pk=pk)


def _wizard(
    request: PageRequest,
    found: Adoption,
    *,
    typed: dict[str, str] | None = None,
    problem: Problem | None = None,
) -> HttpResponse:
    # What is read back has the values of environments: it is for who may make a service of it.
    may_adopt = can(request.user, queries.EDIT, found)
    is_ready = found.state == Adoption.State.READY
    proposal = Proposal.of(found) if may_adopt and is_ready else None
    context: dict[str, Any] = {
        "adoption": found,
        "is_reading": found.state == READING,
        "proposal": proposal,
        "typed": typed or _suggested(found, proposal),
        "problem": problem,
        "may_adopt": may_adopt,
    }
    return render(request, "drift/adoption.html", context, status=problem.status if problem else 200)


def _suggested(found: Adoption, proposal: Proposal | None) -> dict[str, str]:
    name = base_name(found.seen.name)
    identifier = slugify(name).replace("-", "_")[:128] or "service"
    if not identifier[0].isalpha():
        identifier = f"service_{identifier}"[:128]
    strategy = proposal.strategies[0] if proposal else ""
    return {"identifier": identifier, "name": name[:128], "strategy": strategy}


def _listed(
    request: PageRequest, place: Infrastructure, *, said: str = "", status: int = 200
) -> HttpResponse:
    context = {
        "place": place,
        "page": keyset(adoptions.unknown_services(place), request),
        "cluster": cluster_of(place),
        "may_adopt": can(request.user, queries.EDIT, place),
        "said": said,
    }
    return render(request, "drift/unknown.html", context, status=status)


def _place(request: PageRequest, pk: int) -> Infrastructure:
    rows = Infrastructure.objects.select_related("environment__scope", "connector__scope")
    return get_visible(request, queries.VIEW, rows, pk=pk)


def _found(request: PageRequest, pk: int) -> Adoption:
    rows = Adoption.objects.select_related(
        "infrastructure__environment__scope", "infrastructure__connector__scope", "seen__cluster", "service",
        "pipeline",
    )  # fmt: skip
    return get_visible(request, queries.VIEW, rows, pk=pk)
