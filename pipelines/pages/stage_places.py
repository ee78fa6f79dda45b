"""Making an environment and its infrastructure from within the form of a stage (R182)."""

from dataclasses import replace
from typing import Any, Final

from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from catalog import operations
from catalog.models import Environment
from catalog.pages.infrastructures import ClusterBox, show_clusters
from pipelines.editor.commands import CHOOSE_PLACE, Outcome, carry_out
from pipelines.editor.forms import OpenForm
from pipelines.forms.stage_places import EDIT, StagePlaceForm
from rbac.models import Scope
from rbac.policy import Forbidden, scopes_where
from web.pages import PageRequest, page
from web.problems import Problem

CREATE_PLACE: Final = "create-place"
CLUSTERS: Final = ClusterBox(id="visual-clusters", control="visual-new-cluster", prefix="new-")
_REFUSED = "The environment was not created; see below."


@page
@require_safe
def clusters_for_stage(request: PageRequest) -> HttpResponse:
    """This will ask AWS which clusters a connector sees, for a place that a stage of a scope gets."""
    scopes = scopes_where(request.user, "core_pipeline_view")
    scope = get_object_or_404(scopes, path=request.GET.get("in_scope", ""))
    form = StagePlaceForm(person=request.user, scope=scope)
    if not form.may_make:
        raise Forbidden(EDIT)
    return show_clusters(request, form.connectors, CLUSTERS)


def create_place(
    request: PageRequest, scope: Scope, text: str, words: dict[str, str]
) -> tuple[Outcome, StagePlaceForm | None]:
    """Make what was entered and let the stage deploy there; where either cannot be, neither is done."""
    opened = words.get("at", "")
    form = StagePlaceForm(request.POST, person=request.user, scope=scope)
    if not form.is_valid():
        return Outcome(text, opened, problem=_REFUSED), form
    place = "/".join(form.chosen)
    outcome = carry_out(text, words | {"do": CHOOSE_PLACE, "chosen": place})
    if outcome.problem or outcome.errors:
        return outcome, form
    if not _is_made(request, form):
        return Outcome(text, opened, problem=_REFUSED), form
    return replace(outcome, said=f"{place} was created. {outcome.said}"), None


def place_form(request: PageRequest, scope: Scope, stage: OpenForm, words: dict[str, str]) -> StagePlaceForm:
    """The form for the stage that is open now, with what was entered for it and not created yet."""
    is_of_it = stage.identifier in (words.get("new_of"), words.get("identifier")) and "new_of" in words
    entered = words if is_of_it and words.get("do") != CREATE_PLACE else None
    return StagePlaceForm(person=request.user, scope=scope, entered=entered)


def _is_made(request: PageRequest, form: StagePlaceForm) -> bool:
    """Whether the environment and the infrastructure were both made; what was refused is in the form."""
    try:
        with transaction.atomic():
            environment = form.cleaned_data["environment"] or _environment(request, form)
            given: dict[str, Any] = form.cleaned_data
            operations.create_infrastructure(
                actor=request.user,
                environment=environment,
                identifier=given["identifier"],
                spec=form.spec(),
            )
    except _EnvironmentRefused as refused:
        form.refuse_environment(refused.problem)
        return False
    except Problem as problem:
        form.refuse(problem)
        return False
    return True


class _EnvironmentRefused(Exception):
    """The environment itself could not be made, so that nothing else is tried."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def _environment(request: PageRequest, form: StagePlaceForm) -> Environment:
    given = form.cleaned_data
    try:
        return operations.create_environment(
            actor=request.user,
            scope=given["in_scope"],
            identifier=given["environment_identifier"],
            spec=form.environment_spec(),
        )
    except Problem as problem:
        raise _EnvironmentRefused(problem) from problem
