"""Page that removes a deployed delegate from AWS: its plan, the confirmation, and how far the removal is."""

from typing import Any, Final

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.html import format_html
from django.views.decorators.cache import never_cache

from delegates.models import Delegate
from deployments.delegate_installs.records import find_last_run, is_removal, list_delegate_installations
from deployments.delegate_installs.removal import (
    REMOVE_PERMISSION,
    RUN_PERMISSION,
    VIEW_PERMISSION,
    DelegateRemovalPlan,
    plan_delegate_removal,
    remove_delegate,
)
from deployments.models import Execution, StepExecution
from deployments.pages.delegates import DelegatePlaceForm
from rbac.models import Scope, User
from rbac.policy import can, list_permitted_scopes, require
from steps.states import Status
from web.forms.pages import PageRequest, get_visible, require_get_or_post, require_sign_in
from web.http.problems import Problem
from web.page_paths import get_page_path

VIEW: Final = "core_delegate_view"


class DelegateRemovalForm(DelegatePlaceForm):
    """Project whose pipeline deployed a delegate, and the connector that removes it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["project"].help_text = "It has the pipeline that deployed the delegate."
        self.fields[
            "connector"
        ].help_text = "Deletes what the deployment created, through Slipway or another delegate."

    def list_projects(self, user: User, delegate: Delegate) -> QuerySet[Scope]:
        """Return the projects that deployed the delegate and in which the user may run pipelines."""
        projects = [installation.project.pk for installation in list_delegate_installations(delegate)]
        return list_permitted_scopes(user, RUN_PERMISSION).filter(pk__in=projects).order_by("path")


@require_sign_in
@never_cache
@require_get_or_post
def remove_delegate_now(request: PageRequest, pk: int) -> HttpResponse:
    """Show what a removal of a delegate deletes in AWS; after a confirmation, start it."""
    rows = Delegate.objects.select_related("scope", "token__scope", "configuration")
    delegate = get_visible(request, VIEW, rows.prefetch_related("instances"), pk=pk)
    require(request.user, REMOVE_PERMISSION, delegate)
    last_run = find_last_run(delegate)
    removal = last_run if last_run is not None and is_removal(last_run) else None
    form = _build_form(request, delegate)
    is_running = removal is not None and not removal.is_over
    plan = None if is_running else _build_plan(request, delegate, form)
    if request.method == "POST" and plan is not None:
        if request.POST.get("digest") != plan.digest:
            form.add_error(None, "The plan has changed after it was shown. Check the plan again.")
        else:
            try:
                execution = remove_delegate(actor=request.user, plan=plan)
            except Problem as problem:
                form.add_problem(problem)
            else:
                url = get_page_path("execution", execution.pk)
                messages.success(request, format_html('<a href="{}">Removal started</a>', url))
                return redirect("remove-delegate", pk=pk)
    content = {
        "delegate": delegate,
        "form": form,
        "shows_form": not is_running and form.fields["project"].queryset.exists(),  # type: ignore[attr-defined]
        "plan": plan,
        "digest": plan.digest if plan else "",
        **_build_removal(request, removal),
    }
    status = form.http_status if request.method == "POST" else 200
    return render(request, "deployments/delegates/remove.html", content, status=status)


def _build_removal(request: PageRequest, removal: Execution | None) -> dict[str, Any]:
    if removal is None:
        return {"removal": None}
    return {
        "removal": removal,
        "is_removed": removal.status == Status.SUCCESS,
        "deleted_stack": StepExecution.objects.filter(stage__execution=removal, type="DeleteStack").exists(),
        "removal_url": get_page_path("execution", removal.pk)
        if can(request.user, VIEW_PERMISSION, removal.scope)
        else "",
    }


def _build_form(request: PageRequest, delegate: Delegate) -> DelegateRemovalForm:
    """Return the form, by default with project and connector of the last deployment."""
    data = request.POST if request.method == "POST" else request.GET
    if request.method == "POST" or "connector" in data:
        return DelegateRemovalForm(data, user=request.user, delegate=delegate)
    form = DelegateRemovalForm(user=request.user, delegate=delegate)
    permitted = set(form.fields["project"].queryset)  # type: ignore[attr-defined]
    for installation in list_delegate_installations(delegate):
        if installation.project in permitted:
            chosen = {"project": str(installation.project.pk), "connector": str(installation.connector.pk)}
            return DelegateRemovalForm(chosen, user=request.user, delegate=delegate)
    return form


def _build_plan(
    request: PageRequest, delegate: Delegate, form: DelegateRemovalForm
) -> DelegateRemovalPlan | None:
    if not form.is_valid():
        return None
    data = form.cleaned_data
    try:
        return plan_delegate_removal(
            actor=request.user, delegate=delegate, project=data["project"], connector=data["connector"]
        )
    except Problem as problem:
        form.add_problem(problem)
        return None
