"""Pages of adoption: which ECS services are nobody's here, and one of them on its way to be taken over."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.text import slugify
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from catalog.models import Infrastructure
from connectors.downstream import LacksAccess
from inventory.drift import adoptions, queries, taking_back
from inventory.drift.adopting import Proposal
from inventory.drift.adoptions import AdoptionSpec
from inventory.drift.documents.readback import base_name
from inventory.models.drift import Adoption
from inventory.sync.queries import cluster_of
from rbac.policy import can, require
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
    except (BadInput, Conflict, LacksAccess) as problem:
        return _listed(request, place, said=problem.detail, status=problem.status)
    return redirect("adoption", pk=adoption.pk)


@page
@require_http_methods(["GET", "HEAD", "POST"])
def adoption(request: PageRequest, pk: int) -> HttpResponse:
    """This will show what was read back and what would be made of it, and make it."""
    found = _found(request, pk)
    if request.method != "POST":
        return _wizard(request, found)
    names = ("identifier", "name", "strategy", "traffic")
    typed = {name: request.POST.get(name, "").strip() for name in names}
    try:
        adoptions.adopt(actor=request.user, adoption=found, spec=AdoptionSpec(**typed))
    except (BadInput, Conflict, LacksAccess) as problem:
        # Somebody else may have been faster.
        return _wizard(request, _found(request, pk), typed=typed, problem=problem)
    return redirect("adoption", pk=pk)


@page
@require_http_methods(["GET", "HEAD", "POST"])
def take_back(request: PageRequest, pk: int) -> HttpResponse:
    """This will ask before what an adoption made goes, and take it away."""
    found = _found(request, pk)
    require(request.user, queries.EDIT, found)
    if request.method != "POST":
        return _asked_back(request, found, taking_back.why_not(found))
    try:
        taking_back.take_back(actor=request.user, adoption=found)
    except Problem as problem:
        return _asked_back(request, _found(request, pk), problem.detail, problem.status)
    messages.success(request, f"The adoption of {found.seen.name} is taken back. It runs on as it is in AWS.")
    return redirect("unknown-services", pk=found.infrastructure_id)


def _asked_back(request: PageRequest, found: Adoption, reason: str, status: int = 200) -> HttpResponse:
    context = {"adoption": found, "reason": reason, "may": taking_back.may_take_back(request.user, found)}
    return render(request, "inventory/drift/take_back.html", context, status=status)


def _wizard(
    request: PageRequest,
    found: Adoption,
    *,
    typed: dict[str, str] | None = None,
    problem: Problem | None = None,
) -> HttpResponse:
    trouble = queries.trouble_of(found)
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
        "stale": adoptions.why_not(request.user, found) if proposal and problem is None else "",
        "trouble": trouble,
        "ask": adoptions.ASK,
        "may_adopt": may_adopt,
        "may_take_back": not taking_back.why_not(found) and taking_back.may_take_back(request.user, found),
    }
    return render(
        request, "inventory/drift/adoption.html", context, status=problem.status if problem else 200
    )


def _suggested(found: Adoption, proposal: Proposal | None) -> dict[str, str]:
    name = base_name(found.seen.name)
    identifier = slugify(name).replace("-", "_")[:128] or "service"
    if not identifier[0].isalpha():
        identifier = f"service_{identifier}"[:128]
    strategy = proposal.strategies[0] if proposal else ""
    sure = proposal.fit.only if proposal else None
    found_key = sure.key if sure else ""
    return {"identifier": identifier, "name": name[:128], "strategy": strategy, "traffic": found_key}


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
    return render(request, "inventory/drift/unknown.html", context, status=status)


def _place(request: PageRequest, pk: int) -> Infrastructure:
    rows = Infrastructure.objects.select_related("environment__scope", "connector__scope")
    return get_visible(request, queries.VIEW, rows, pk=pk)


def _found(request: PageRequest, pk: int) -> Adoption:
    rows = Adoption.objects.select_related(
        "infrastructure__environment__scope", "infrastructure__connector__scope", "seen__cluster", "service",
        "pipeline", "adopted_by",
    )  # fmt: skip
    return get_visible(request, queries.VIEW, rows, pk=pk)
