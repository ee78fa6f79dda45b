"""Pages of adoptions: unmanaged ECS services, and the wizard that adopts one."""

from typing import Any, Final

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.text import slugify
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from catalog.models import Infrastructure
from connectors.required_access import MissingAccess
from inventory.adoption.manifests import get_base_name
from inventory.adoption.proposals import AdoptionProposal
from inventory.models.adoption import Adoption
from inventory.operations import adoption_undo, adoptions
from inventory.operations.adoptions import AdoptionSpec
from inventory.queries import drift
from inventory.queries.instances import get_cluster
from rbac.policy import can
from web.forms.pages import PageRequest, get_visible, require_sign_in
from web.forms.resource_pages import Breadcrumb, ConfirmPage, Obstacle
from web.http.pagination import paginate_queryset
from web.http.problems import BadInput, Conflict, Problem

READING_STATE: Final = Adoption.State.READING


@require_sign_in
@require_safe
def list_unmanaged_services_page(request: PageRequest, pk: int) -> HttpResponse:
    """List the ECS services of a cluster that Slipway does not deploy."""
    return _render_unmanaged_services(request, _get_infrastructure(request, pk))


@require_sign_in
@require_POST
def read_service(request: PageRequest, pk: int) -> HttpResponse:
    """Have an ECS service read back."""
    place = _get_infrastructure(request, pk)
    try:
        name = request.POST.get("ecs_service", "")
        adoption = adoptions.read_for_adoption(actor=request.user, infrastructure=place, ecs_service=name)
    except (BadInput, Conflict, MissingAccess) as problem:
        return _render_unmanaged_services(request, place, said=problem.detail, status=problem.status)
    return redirect("adoption", pk=adoption.pk)


@require_sign_in
@require_http_methods(["GET", "HEAD", "POST"])
def show_adoption(request: PageRequest, pk: int) -> HttpResponse:
    """Show what was read back and what would be made of it, and make it."""
    found = _get_adoption(request, pk)
    if request.method != "POST":
        return _render_wizard(request, found)
    names = ("identifier", "name", "strategy", "traffic")
    typed = {name: request.POST.get(name, "").strip() for name in names}
    try:
        adoptions.adopt_service(actor=request.user, adoption=found, spec=AdoptionSpec(**typed))
    except (BadInput, Conflict, MissingAccess) as problem:
        # Somebody else may have been faster.
        return _render_wizard(request, _get_adoption(request, pk), typed=typed, problem=problem)
    return redirect("adoption", pk=pk)


def _get_adoption(request: PageRequest, pk: int) -> Adoption:
    rows = Adoption.objects.select_related(
        "infrastructure__environment__scope", "infrastructure__connector__scope", "seen__cluster", "service",
        "pipeline", "adopted_by",
    )  # fmt: skip
    return get_visible(request, drift.VIEW_ENVIRONMENT, rows, pk=pk)


class UndoAdoption(ConfirmPage[Adoption]):
    """Undo an adoption that nothing was deployed with."""

    load = staticmethod(_get_adoption)
    permission = drift.EDIT_ENVIRONMENT
    noun = "adoption"
    verb = "Undo"
    participle = "undone"

    def get_name(self) -> str:
        return f"the adoption of {self.object.seen.name}"

    def get_parents(self) -> list[Breadcrumb]:
        environment = self.object.infrastructure.environment
        return [
            Breadcrumb(environment.name, reverse("environment", args=[environment.pk])),
            Breadcrumb(self.object.seen.name, reverse("adoption", args=[self.object.pk])),
        ]

    def get_texts(self) -> list[str]:
        found, created = self.object, f"The service {self.object.service}"
        if found.pipeline is not None:
            created += f" and the pipeline {found.pipeline}"
        return [
            f"{created} are deleted with all later changes. In AWS nothing is changed: {found.seen.name} "
            "keeps running, and can be adopted again."
        ]

    def get_obstacle(self) -> Obstacle | None:
        if reason := adoption_undo.describe_undo_obstacle(self.object):
            return Obstacle(reason)
        if not adoption_undo.can_undo_adoption(self.request.user, self.object):
            return Obstacle("You need permission to delete the service and the pipeline.")
        return None

    def get_success_url(self) -> str:
        return reverse("unknown-services", args=[self.object.infrastructure_id])

    def perform(self, **given: Any) -> None:
        adoption_undo.undo_adoption(actor=self.request.user, adoption=self.object)

    def get_done_message(self, name: str) -> str:
        return f"The adoption of {self.object.seen.name} is undone. It keeps running in AWS."


def _render_wizard(
    request: PageRequest,
    found: Adoption,
    *,
    typed: dict[str, str] | None = None,
    problem: Problem | None = None,
) -> HttpResponse:
    trouble = drift.get_adoption_failure(found)
    # What is read back has the values of environments: it is for who may make a service of it.
    may_adopt = can(request.user, drift.EDIT_ENVIRONMENT, found)
    is_ready = found.state == Adoption.State.READY
    proposal = AdoptionProposal.of(found) if may_adopt and is_ready else None
    context: dict[str, Any] = {
        "adoption": found,
        "is_reading": found.state == READING_STATE,
        "proposal": proposal,
        "typed": typed or _suggest_names(found, proposal),
        "problem": problem,
        "stale": adoptions.describe_adoption_obstacle(request.user, found)
        if proposal and problem is None
        else "",
        "trouble": trouble,
        "ask": adoptions.RUNTIME_INPUT,
        "may_adopt": may_adopt,
        "may_take_back": not adoption_undo.describe_undo_obstacle(found)
        and adoption_undo.can_undo_adoption(request.user, found),
    }
    return render(
        request, "inventory/drift/adoption.html", context, status=problem.status if problem else 200
    )


def _suggest_names(found: Adoption, proposal: AdoptionProposal | None) -> dict[str, str]:
    name = get_base_name(found.seen.name)
    identifier = slugify(name).replace("-", "_")[:128] or "service"
    if not identifier[0].isalpha():
        identifier = f"service_{identifier}"[:128]
    strategy = proposal.strategies[0] if proposal else ""
    sure = proposal.fit.only if proposal else None
    found_key = sure.key if sure else ""
    return {"identifier": identifier, "name": name[:128], "strategy": strategy, "traffic": found_key}


def _render_unmanaged_services(
    request: PageRequest, place: Infrastructure, *, said: str = "", status: int = 200
) -> HttpResponse:
    context = {
        "place": place,
        "page": paginate_queryset(adoptions.list_unmanaged_services(place), request),
        "cluster": get_cluster(place),
        "may_adopt": can(request.user, drift.EDIT_ENVIRONMENT, place),
        "said": said,
    }
    return render(request, "inventory/drift/unknown.html", context, status=status)


def _get_infrastructure(request: PageRequest, pk: int) -> Infrastructure:
    rows = Infrastructure.objects.select_related("environment__scope", "connector__scope")
    return get_visible(request, drift.VIEW_ENVIRONMENT, rows, pk=pk)
