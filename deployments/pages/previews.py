"""Pages of previews: what a run would do, and the IAM policies that it needs."""

from typing import Any, Final

from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods, require_safe

from aws.policies import POLICIES, policy_of
from deployments import previews
from deployments.forms.runs import RunForm
from deployments.models import PreviewQuestion
from deployments.pages.pipelines import SETS_SHOWN
from deployments.preview.documents import ShownPreview
from pipelines.inputs import input_sets
from pipelines.models import Pipeline
from rbac.policy import require
from web.pages import PageRequest, get_visible, page
from web.problems import Problem

VIEW: Final = "core_pipeline_view"
EXECUTE: Final = "core_pipeline_execute"


@page
@require_http_methods(["GET", "HEAD", "POST"])
def preview_pipeline(request: PageRequest, pk: int) -> HttpResponse:
    """This will show what a run of this tag and these inputs would do; inputs go into no address."""
    found = get_visible(request, VIEW, Pipeline.objects.select_related("scope"), pk=pk)
    require(request.user, EXECUTE, found)
    told = request.POST if request.method == "POST" else request.GET
    form = RunForm(told if "tag" in told else None, pipeline=found)
    form.begin_with(input_sets.input_sets_of(found, request.user)[:SETS_SHOWN], told.getlist("set"))
    shown = None
    if not form.problems and (not form.is_bound or form.is_valid()):
        shown = _shown(request, found, form)
    content: dict[str, Any] = {"pipeline": found, "form": form}
    if isinstance(shown, PreviewQuestion):
        content["question"] = shown
    elif shown is not None:
        content["preview"] = shown
    return render(request, "pipelines/preview.html", content)


def _shown(request: PageRequest, pipeline: Pipeline, form: RunForm) -> ShownPreview | PreviewQuestion | None:
    tag = form.cleaned_data["tag"] if form.is_bound else ""
    try:
        return previews.preview_pipeline(
            actor=request.user, pipeline=pipeline, artifact_tag=tag, inputs=form.inputs()
        )
    except Problem as problem:
        form.refuse(problem)
        return None


@page
@require_safe
def policies(request: PageRequest) -> HttpResponse:
    """This will list the IAM policies with the purpose of each action."""
    return render(request, "deployments/policies.html", {"policies": POLICIES})


@page
@require_safe
def policy(request: PageRequest, identifier: str) -> HttpResponse:
    """This will hand out a policy as a file that IAM takes."""
    found = policy_of(identifier)
    if found is None:
        raise Http404("There is no such policy.")
    headers = {"Content-Disposition": f'attachment; filename="slipway-{identifier}.json"'}
    return JsonResponse(found.document, json_dumps_params={"indent": 2}, headers=headers)
