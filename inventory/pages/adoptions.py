"""Pages of adoptions: unmanaged ECS services, and the wizard that adopts one."""

from typing import Any, Final

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.text import slugify
from django.views.decorators.http import require_POST, require_safe

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
from steps.strategies.registry import list_strategy_titles
from web.forms.pages import PageRequest, get_visible, require_get_or_post, require_sign_in
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
    """Request that an ECS service is read for adoption."""
    infrastructure = _get_infrastructure(request, pk)
    try:
        name = request.POST.get("ecs_service", "")
        adoption = adoptions.read_for_adoption(
            actor=request.user, infrastructure=infrastructure, ecs_service=name
        )
    except (BadInput, Conflict, MissingAccess) as problem:
        return _render_unmanaged_services(
            request, infrastructure, message=problem.detail, status=problem.status
        )
    return redirect("adoption", pk=adoption.pk)


@require_sign_in
@require_get_or_post
def show_adoption(request: PageRequest, pk: int) -> HttpResponse:
    """Show the proposal of an adoption, and adopt it."""
    adoption = _get_adoption(request, pk)
    if request.method != "POST":
        return _render_wizard(request, adoption)
    names = ("identifier", "name", "strategy", "traffic")
    values = {name: request.POST.get(name, "").strip() for name in names}
    try:
        adoptions.adopt_service(actor=request.user, adoption=adoption, spec=AdoptionSpec(**values))
    except (BadInput, Conflict, MissingAccess) as problem:
        # Another person may have adopted it meanwhile.
        return _render_wizard(request, _get_adoption(request, pk), values=values, problem=problem)
    return redirect("adoption", pk=pk)


def _get_adoption(request: PageRequest, pk: int) -> Adoption:
    rows = Adoption.objects.select_related(
        "infrastructure__environment__scope", "infrastructure__connector__scope", "ecs_service__cluster",
        "service", "pipeline", "adopted_by",
    )  # fmt: skip
    return get_visible(request, drift.VIEW_ENVIRONMENT, rows, pk=pk)


class UndoAdoption(ConfirmPage[Adoption]):
    """Undo an adoption without deployments."""

    load = staticmethod(_get_adoption)
    permission = drift.EDIT_ENVIRONMENT
    noun = "adoption"
    verb = "Undo"
    here = "Undo adoption"

    def get_name(self) -> str:
        return f"the adoption of {self.object.ecs_service.name}"

    def get_parents(self) -> list[Breadcrumb]:
        adoption, environment = self.object, self.object.infrastructure.environment
        return [
            Breadcrumb(environment.name, reverse("environment", args=[environment.pk])),
            Breadcrumb(adoption.ecs_service.name, reverse("adoption", args=[adoption.pk])),
        ]

    def get_texts(self) -> list[str]:
        adoption = self.object
        if adoption.service is None:
            return []
        created = f"The service {adoption.service.name}"
        if adoption.pipeline is not None:
            created += f" and the pipeline {adoption.pipeline.name}"
        return [
            f"{created} are deleted with all later changes. Nothing in AWS is changed: "
            f"{adoption.ecs_service.name} keeps running and can be adopted again."
        ]

    def get_obstacle(self) -> Obstacle | None:
        if reason := adoption_undo.describe_undo_obstacle(self.object):
            return Obstacle(reason)
        if not adoption_undo.can_undo_adoption(self.request.user, self.object):
            return Obstacle("You need permission to delete the service and the pipeline that were created.")
        return None

    def get_success_url(self) -> str:
        return reverse("unknown-services", args=[self.object.infrastructure_id])

    def perform(self, **values: Any) -> None:
        adoption_undo.undo_adoption(actor=self.request.user, adoption=self.object)

    def get_done_message(self, name: str) -> str:
        return (
            f"The adoption of {self.object.ecs_service.name} was undone. The ECS service keeps running in "
            "AWS."
        )


def _render_wizard(
    request: PageRequest,
    adoption: Adoption,
    *,
    values: dict[str, str] | None = None,
    problem: Problem | None = None,
) -> HttpResponse:
    failure = drift.get_adoption_failure(adoption)
    # The proposal holds environment values, so only those who may adopt see it.
    may_adopt = can(request.user, drift.EDIT_ENVIRONMENT, adoption)
    is_ready = adoption.state == Adoption.State.READY
    proposal = AdoptionProposal.of(adoption) if may_adopt and is_ready else None
    context: dict[str, Any] = {
        "adoption": adoption,
        "is_reading": adoption.state == READING_STATE,
        "proposal": proposal,
        "strategies": [row for row in list_strategy_titles() if proposal and row[0] in proposal.strategies],
        "typed": values or _suggest_names(adoption, proposal),
        "problem": problem,
        "stale": adoptions.describe_adoption_obstacle(request.user, adoption)
        if proposal and problem is None
        else "",
        "trouble": failure,
        "ask": adoptions.RUNTIME_INPUT,
        "may_adopt": may_adopt,
        "can_undo": not adoption_undo.describe_undo_obstacle(adoption)
        and adoption_undo.can_undo_adoption(request.user, adoption),
    }
    return render(
        request, "inventory/drift/adoption.html", context, status=problem.status if problem else 200
    )


def _suggest_names(adoption: Adoption, proposal: AdoptionProposal | None) -> dict[str, str]:
    name = get_base_name(adoption.ecs_service.name)
    identifier = slugify(name).replace("-", "_")[:128] or "service"
    if not identifier[0].isalpha():
        identifier = f"service_{identifier}"[:128]
    strategy = proposal.strategies[0] if proposal else ""
    option = proposal.traffic_options.certain_option if proposal else None
    traffic = option.key if option else ""
    return {"identifier": identifier, "name": name[:128], "strategy": strategy, "traffic": traffic}


def _render_unmanaged_services(
    request: PageRequest, infrastructure: Infrastructure, *, message: str = "", status: int = 200
) -> HttpResponse:
    context = {
        "place": infrastructure,
        "page": paginate_queryset(adoptions.list_unmanaged_services(infrastructure), request),
        "cluster": get_cluster(infrastructure),
        "may_adopt": can(request.user, drift.EDIT_ENVIRONMENT, infrastructure),
        "refusal": message,
    }
    return render(request, "inventory/drift/unknown.html", context, status=status)


def _get_infrastructure(request: PageRequest, pk: int) -> Infrastructure:
    rows = Infrastructure.objects.select_related("environment__scope", "connector__scope")
    return get_visible(request, drift.VIEW_ENVIRONMENT, rows, pk=pk)
