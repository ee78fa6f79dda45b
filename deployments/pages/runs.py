"""Pages that preview a run, show its IAM policies, or deploy another image."""

from typing import Any, Final

from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from aws.policies import POLICIES, get_policy
from catalog.models import Service
from catalog.usages import PipelineUsage, find_pipeline_usage
from deployments.execution import operations, queries
from deployments.forms import DeployForm, RunForm
from deployments.models import PreviewRequest
from deployments.pages.pipelines import SETS_SHOWN
from deployments.preview import operations as preview_operations
from deployments.preview.documents import PreviewDetails
from deployments.rehearsal import operations as rehearsal_operations
from deployments.rehearsal.sandbox_access import is_sandbox_installed
from pipelines.deployability import list_image_pipelines
from pipelines.inputs import input_sets
from pipelines.models import Pipeline
from rbac.policy import filter_visible, require
from web.forms.page_forms import get_posted_data
from web.forms.pages import PageRequest, get_visible, require_get_or_post, require_sign_in
from web.http.problems import Problem

VIEW_SERVICE: Final = "core_service_view"
EXECUTE_PIPELINE: Final = "core_pipeline_execute"
# As many earlier tags as a list of suggestions is good for.
MOST_TAGS: Final = 20


def build_deploy_form(request: PageRequest, service: Service, users: PipelineUsage) -> DeployForm:
    """Return the deploy form with the pipelines of a service's image that the user may run."""
    deploying = [pipeline.pk for pipeline in list_image_pipelines(service, users.visible)]
    rows = Pipeline.objects.filter(pk__in=deploying).select_related("scope")
    runnable = filter_visible(request.user, EXECUTE_PIPELINE, rows).order_by("name", "pk")
    artifact = getattr(service, "artifact", None)
    pattern = str(artifact.source.get("tagPattern") or "") if artifact else ""
    form = DeployForm(get_posted_data(request), pipelines=runnable, pattern=pattern)
    form.tags = queries.list_newest_tags(request.user, form.pipelines, MOST_TAGS)
    return form


@require_sign_in
@require_get_or_post
def deploy_image(request: PageRequest, pk: int) -> HttpResponse:
    """Deploy a tag of a service's image, and show the execution."""
    service = get_visible(request, VIEW_SERVICE, Service.objects.select_related("scope", "artifact"), pk=pk)
    form = build_deploy_form(request, service, find_pipeline_usage(service, request.user))
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            made = operations.run_pipeline(
                actor=request.user, pipeline=data["pipeline"], artifact_tag=data["tag"]
            )
            return redirect("execution", pk=made.pk)
        except Problem as problem:
            form.refuse(problem)
    return render(request, "catalog/services/deploy.html", {"service": service, "deploy": form})


# Behaviors of the new tasks in a rehearsal, with their names.
REHEARSAL_BEHAVIORS: Final = (
    ("healthy", "Start and stay healthy"),
    ("crashes", "Crash after the start"),
    ("not_pulled", "Image cannot be pulled"),
    ("unhealthy", "Never become healthy"),
    ("slow", "Start slowly"),
)
VIEW: Final = "core_pipeline_view"
EXECUTE: Final = "core_pipeline_execute"


@require_sign_in
@require_get_or_post
def preview_pipeline(request: PageRequest, pk: int) -> HttpResponse:
    """Show the preview of a run with this tag and these inputs. Inputs never enter a URL."""
    pipeline = get_visible(request, VIEW, Pipeline.objects.select_related("scope"), pk=pk)
    require(request.user, EXECUTE, pipeline)
    data = request.POST if request.method == "POST" else request.GET
    form = RunForm(data if "tag" in data else None, pipeline=pipeline)
    form.apply_input_sets(
        input_sets.list_visible_input_sets(pipeline, request.user)[:SETS_SHOWN], data.getlist("set")
    )
    preview = None
    if not form.problems and (not form.is_bound or form.is_valid()):
        preview = _render_preview(request, pipeline, form)
    content = _build_preview_content(pipeline, form)
    if isinstance(preview, PreviewRequest):
        content["question"] = preview
    elif preview is not None:
        content["preview"] = preview
    return render(request, "pipelines/preview.html", content)


def _build_preview_content(pipeline: Pipeline, form: RunForm) -> dict[str, Any]:
    behaviors = REHEARSAL_BEHAVIORS if is_sandbox_installed() else ()
    return {"pipeline": pipeline, "form": form, "behaviors": behaviors}


@require_sign_in
@require_POST
def rehearse_pipeline(request: PageRequest, pk: int) -> HttpResponse:
    """Rehearse a run with this tag and these inputs, and show it with its preview."""
    pipeline = get_visible(request, VIEW, Pipeline.objects.select_related("scope"), pk=pk)
    require(request.user, EXECUTE, pipeline)
    form = RunForm(request.POST, pipeline=pipeline)
    form.apply_input_sets(
        input_sets.list_visible_input_sets(pipeline, request.user)[:SETS_SHOWN], request.POST.getlist("set")
    )
    content = _build_preview_content(pipeline, form)
    content["behavior"] = request.POST.get("behavior", "")
    if not form.problems and form.is_valid():
        try:
            result = rehearsal_operations.rehearse_pipeline(
                actor=request.user,
                pipeline=pipeline,
                behavior=content["behavior"],
                artifact_tag=form.cleaned_data["tag"],
                inputs=form.inputs(),
                force_new_deployment=form.force_new_deployment,
            )
            if isinstance(result, PreviewRequest):
                content["question"] = result
            else:
                content |= {"rehearsal": result, "preview": result.preview}
        except Problem as problem:
            form.refuse(problem)
    return render(request, "pipelines/preview.html", content)


def _render_preview(
    request: PageRequest, pipeline: Pipeline, form: RunForm
) -> PreviewDetails | PreviewRequest | None:
    tag = form.cleaned_data["tag"] if form.is_bound else ""
    try:
        return preview_operations.preview_pipeline(
            actor=request.user,
            pipeline=pipeline,
            artifact_tag=tag,
            # Only a sent form has inputs; the address names input sets.
            inputs=form.inputs() if request.method == "POST" else form.initial_values,
            force_new_deployment=form.force_new_deployment if form.is_bound else None,
        )
    except Problem as problem:
        form.refuse(problem)
        return None


@require_sign_in
@require_safe
def list_policies(request: PageRequest) -> HttpResponse:
    """List the IAM policies with the purpose of each action."""
    return render(request, "deployments/policies.html", {"policies": POLICIES})


@require_sign_in
@require_safe
def download_policy(request: PageRequest, identifier: str) -> HttpResponse:
    """Return a policy as a file for IAM."""
    policy = get_policy(identifier)
    if policy is None:
        raise Http404("This policy does not exist.")
    headers = {"Content-Disposition": f'attachment; filename="slipway-{identifier}.json"'}
    return JsonResponse(policy.document, json_dumps_params={"indent": 2}, headers=headers)
