"""Creation of an environment and infrastructure within the form of a stage (R182)."""

from dataclasses import replace
from typing import Any, Final

from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from catalog import operations
from catalog.models import Environment
from catalog.pages.infrastructures import ClusterFieldNames, render_cluster_field
from pipelines.editor.commands import CHOOSE_TARGET, CommandResult, run_command
from pipelines.editor.forms import EditorForm
from pipelines.forms.stage_infrastructures import EDIT, StageInfrastructureForm
from rbac.models import Scope
from rbac.policy import Forbidden, list_permitted_scopes
from web.forms.pages import PageRequest, require_sign_in
from web.http.problems import Problem

CREATE_INFRASTRUCTURE: Final = "create-place"
CLUSTER_BOX: Final = ClusterFieldNames(id="visual-clusters", control="visual-new-cluster", prefix="new-")
_NOT_CREATED_MESSAGE = "The environment was not created. See the errors below."


@require_sign_in
@require_safe
def list_stage_clusters(request: PageRequest) -> HttpResponse:
    """List the clusters of a connector for a new infrastructure of a stage."""
    scopes = list_permitted_scopes(request.user, "core_pipeline_view")
    scope = get_object_or_404(scopes, path=request.GET.get("in_scope", ""))
    form = StageInfrastructureForm(person=request.user, scope=scope)
    if not form.can_create:
        raise Forbidden(EDIT)
    return render_cluster_field(request, form.connectors, CLUSTER_BOX)


def create_stage_infrastructure(
    request: PageRequest, scope: Scope, text: str, words: dict[str, str]
) -> tuple[CommandResult, StageInfrastructureForm | None]:
    """Create the infrastructure and set it as target of the stage; both or neither."""
    opened = words.get("at", "")
    form = StageInfrastructureForm(request.POST, person=request.user, scope=scope)
    if not form.is_valid():
        return CommandResult(text, opened, problem=_NOT_CREATED_MESSAGE), form
    place = "/".join(form.target_identifiers)
    outcome = run_command(text, words | {"do": CHOOSE_TARGET, "chosen": place})
    if outcome.problem or outcome.errors:
        return outcome, form
    if not _create_from_form(request, form):
        return CommandResult(text, opened, problem=_NOT_CREATED_MESSAGE), form
    return replace(outcome, message=f"{place} was created. {outcome.message}"), None


def build_infrastructure_form(
    request: PageRequest, scope: Scope, stage: EditorForm, words: dict[str, str]
) -> StageInfrastructureForm:
    """Return the infrastructure form of the open stage, with the input entered for that stage."""
    is_same_stage = stage.identifier in (words.get("new_of"), words.get("identifier")) and "new_of" in words
    entered = words if is_same_stage and words.get("do") != CREATE_INFRASTRUCTURE else None
    return StageInfrastructureForm(person=request.user, scope=scope, entered=entered)


def _create_from_form(request: PageRequest, form: StageInfrastructureForm) -> bool:
    """Create environment and infrastructure; return whether both succeeded. The form has the errors."""
    try:
        with transaction.atomic():
            environment = form.cleaned_data["environment"] or _create_environment(request, form)
            data: dict[str, Any] = form.cleaned_data
            operations.create_infrastructure(
                actor=request.user,
                environment=environment,
                identifier=data["identifier"],
                spec=form.build_spec(),
            )
    except _EnvironmentNotCreatedError as refused:
        form.add_environment_errors(refused.problem)
        return False
    except Problem as problem:
        form.add_problem(problem)
        return False
    return True


class _EnvironmentNotCreatedError(Exception):
    """The environment could not be created."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def _create_environment(request: PageRequest, form: StageInfrastructureForm) -> Environment:
    data = form.cleaned_data
    try:
        return operations.create_environment(
            actor=request.user,
            scope=data["in_scope"],
            identifier=data["environment_identifier"],
            spec=form.environment_spec(),
        )
    except Problem as problem:
        raise _EnvironmentNotCreatedError(problem) from problem
