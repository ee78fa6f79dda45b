"""Page that deploys a delegate to Amazon ECS, or upgrades it: its plan, and the confirmation."""

from functools import reduce
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.html import format_html
from django.views.decorators.cache import never_cache

from connectors.models import Connector
from delegates.models import Delegate
from delegates.operations.installation import INSTALL_PERMISSION
from delegates.queries.aws_connectors import list_near_connectors
from deployments.delegate_installs.operations import (
    PROJECT_PERMISSIONS,
    DelegateDeploymentPlan,
    deploy_delegate,
    plan_delegate_deployment,
)
from rbac.models import Scope, User
from rbac.policy import list_permitted_scopes, require
from web.forms.page_forms import PageForm
from web.forms.pages import PageRequest, get_visible, require_get_or_post, require_sign_in
from web.http.problems import Problem

VIEW: Final = "core_delegate_view"


class _ProjectField(forms.ModelChoiceField):
    def label_from_instance(self, obj: Any) -> str:
        return str(obj.path)


class _ConnectorField(forms.ModelChoiceField):
    def label_from_instance(self, obj: Any) -> str:
        return f"{obj.name} ({obj.scope.path})"


class DelegatePlaceForm(PageForm):
    """Project and connector of a delegate's deployment, with the ones that the user may use."""

    project = _ProjectField(
        Scope.objects.none(),
        empty_label=None,
        help_text="It gets the pipeline, with its service, environment and secret.",
    )
    connector = _ConnectorField(
        Connector.objects.none(),
        empty_label=None,
        help_text="Creates the delegate in its AWS account, through Slipway or another delegate.",
    )
    pairs = (("project", "connector"),)

    def __init__(self, *args: Any, user: User, delegate: Delegate, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["project"].queryset = self.list_projects(user, delegate)  # type: ignore[attr-defined]
        self.fields["connector"].queryset = list_near_connectors(user, delegate.scope)  # type: ignore[attr-defined]

    def list_projects(self, user: User, delegate: Delegate) -> QuerySet[Scope]:
        """Return the projects at or below the delegate's scope in which the user may deploy it."""
        path = delegate.scope.path
        rows = Scope.objects.filter(Q(path=path) | Q(path__startswith=f"{path}/"), kind=Scope.Kind.PROJECT)
        scopes = (list_permitted_scopes(user, permission).values("pk") for permission in PROJECT_PERMISSIONS)
        return reduce(lambda left, right: left.filter(pk__in=right), scopes, rows).order_by("path")


@require_sign_in
@never_cache
@require_get_or_post
def deploy_delegate_now(request: PageRequest, pk: int) -> HttpResponse:
    """Show what a deployment of a delegate creates or changes; after a confirmation, start it."""
    rows = Delegate.objects.select_related("scope", "token__scope", "configuration")
    delegate = get_visible(request, VIEW, rows.prefetch_related("instances"), pk=pk)
    require(request.user, INSTALL_PERMISSION, delegate)
    form = _build_form(request, delegate)
    plan = _build_plan(request, delegate, form)
    if request.method == "POST" and plan is not None:
        if request.POST.get("digest") != plan.digest:
            form.add_error(None, "The delegate was changed after this plan was shown. Check the plan again.")
        else:
            try:
                execution = deploy_delegate(actor=request.user, plan=plan)
            except Problem as problem:
                form.add_problem(problem)
            else:
                url = reverse("execution", args=[execution.pk])
                messages.success(request, format_html('<a href="{}">Deployment started</a>', url))
                return redirect("install-delegate", pk=pk)
    content = {
        "delegate": delegate,
        "form": form,
        "plan": plan,
        "digest": plan.digest if plan else "",
    }
    # A reason against the choices that the page made itself is no error of the reader.
    status = form.http_status if request.method == "POST" else 200
    return render(request, "deployments/delegates/deploy.html", content, status=status)


def _build_form(request: PageRequest, delegate: Delegate) -> DelegatePlaceForm:
    """Return the form; with one project and one connector to choose from, they are chosen."""
    data = request.POST if request.method == "POST" else request.GET
    if request.method == "POST" or "connector" in data:
        return DelegatePlaceForm(data, user=request.user, delegate=delegate)
    form = DelegatePlaceForm(user=request.user, delegate=delegate)
    only = {name: list(form.fields[name].queryset[:2]) for name in ("project", "connector")}  # type: ignore[attr-defined]
    if all(len(found) == 1 for found in only.values()):
        chosen = {name: str(found[0].pk) for name, found in only.items()}
        return DelegatePlaceForm(chosen, user=request.user, delegate=delegate)
    return form


def _build_plan(
    request: PageRequest, delegate: Delegate, form: DelegatePlaceForm
) -> DelegateDeploymentPlan | None:
    if not form.is_valid():
        return None
    data = form.cleaned_data
    try:
        return plan_delegate_deployment(
            actor=request.user, delegate=delegate, project=data["project"], connector=data["connector"]
        )
    except Problem as problem:
        form.add_problem(problem)
        return None
