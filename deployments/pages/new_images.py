"""Deploying another image of a service: the same manifests and pipeline, another tag."""

from typing import Final

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from catalog.models import Service
from catalog.usage import UsedBy, used_by
from deployments import operations, queries
from deployments.forms.runs import DeployForm
from pipelines.models import Pipeline
from rbac.policy import visible_to
from web.page_forms import posted
from web.pages import PageRequest, get_visible, page
from web.problems import Problem

VIEW: Final = "core_service_view"
EXECUTE: Final = "core_pipeline_execute"
# As many earlier tags as a list of suggestions is good for.
MOST_TAGS: Final = 20


def deploy_form(request: PageRequest, service: Service, users: UsedBy) -> DeployForm:
    """The form for the pipelines among those that refer to a service which this person may run."""
    rows = Pipeline.objects.filter(pk__in=[one.pk for one in users.shown]).select_related("scope")
    runnable = visible_to(request.user, EXECUTE, rows).order_by("name", "pk")
    artifact = getattr(service, "artifact", None)
    pattern = str(artifact.source.get("tagPattern") or "") if artifact else ""
    form = DeployForm(posted(request), pipelines=runnable, pattern=pattern)
    form.tags = queries.newest_tags(request.user, form.pipelines, MOST_TAGS)
    return form


@page
@require_http_methods(["GET", "HEAD", "POST"])
def deploy_image(request: PageRequest, pk: int) -> HttpResponse:
    """This will deploy a tag of a service's image, and show what happens."""
    service = get_visible(request, VIEW, Service.objects.select_related("scope", "artifact"), pk=pk)
    form = deploy_form(request, service, used_by(service, request.user))
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            made = operations.run_pipeline(
                actor=request.user, pipeline=given["pipeline"], artifact_tag=given["tag"]
            )
            return redirect("execution", pk=made.pk)
        except Problem as problem:
            form.refuse(problem)
    return render(request, "catalog/services/deploy.html", {"service": service, "deploy": form})
