"""Pages that create, edit, check, draw, delete and restore pipelines."""

from typing import Any, Final
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpResponse, JsonResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from pipelines.definition.parser import InvalidPipelineError, parse_pipeline
from pipelines.editor.graph import PipelineGraph, build_graph
from pipelines.editor.suggestions import build_suggestions
from pipelines.forms.pipelines import EmptyPipelineForm, NewPipelineForm, PipelineForm, PipelineTemplateForm
from pipelines.models import Pipeline, PipelineVersion
from pipelines.operations import pipelines
from pipelines.usages import find_following_triggers
from rbac.models import Scope
from rbac.policy import NotVisible, can, filter_visible, list_permitted_scopes, require
from web.forms.draft_pages import leave_form, list_creatable, open_draft, report_draft
from web.forms.drafts import CREATE_NAME, DRAFT_PARAMETER, OpenDraft, delete_draft
from web.forms.page_forms import get_posted_data
from web.forms.pages import PageRequest, get_visible, require_get_or_post, require_sign_in
from web.forms.resource_pages import DeletePage, Notice, ResourcePage, report_proposal
from web.http.pagination import paginate_queryset
from web.http.problems import Problem, VersionConflict
from web.managed_resources import ChangeProposed
from web.text_diffs import compare_texts

VIEW: Final = "core_pipeline_view"
EDIT: Final = "core_pipeline_edit"
DELETE: Final = "core_pipeline_delete"
# Only the form of a template has this field.
TEMPLATE_FIELD: Final = "strategy"


def get_pipeline(request: PageRequest, pk: int) -> Pipeline:
    """Return the pipeline with this key. Raises `NotVisible` (404)."""
    return get_visible(request, VIEW, Pipeline.objects.select_related("scope"), pk=pk)


def build_graph_of_text(yaml: str) -> PipelineGraph | None:
    """Return the graph of a pipeline text; None if the text is invalid."""
    try:
        return build_graph(parse_pipeline(yaml))
    except InvalidPipelineError:
        return None


@require_sign_in
@require_get_or_post
def create_pipeline(request: PageRequest) -> HttpResponse:
    """Create a pipeline; the text starts from a template."""
    draft = open_draft(request)
    start = EmptyPipelineForm(request.GET if "name" in request.GET else None)
    template = _build_template_form(request, draft)
    if draft is not None and TEMPLATE_FIELD in draft.data:
        report_draft(request, draft, template.fields.get(draft.field))
        request.draft_data, draft = None, None
    form = NewPipelineForm(
        get_posted_data(request),
        person=request.user,
        permission=EDIT,
        scope=request.current_scope,
        initial={"yaml": start.text() or template.text()},
    )
    if TEMPLATE_FIELD in request.POST:
        return _choose_template(request)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            made = pipelines.save_pipeline(actor=request.user, scope=data["in_scope"], yaml=data["yaml"])
        except Problem as problem:
            form.add_problem(problem)
        else:
            delete_draft(request.user, request.GET.get(DRAFT_PARAMETER, ""))
            messages.success(request, f"Pipeline {made.name} created.")
            return redirect("pipeline", pk=made.pk)
    nouns = list_creatable(request.user, template.list_new_resources(), request.current_scope)
    more = {"template": template, "start": start, "draft": draft, "new_nouns": nouns}
    return _render_form(request, form, request.current_scope, **more)


def _build_template_form(request: PageRequest, draft: OpenDraft | None) -> PipelineTemplateForm:
    """Return the form with the values of its draft, or of the address."""
    query = request.GET
    if draft is not None and TEMPLATE_FIELD in draft.data:
        query = QueryDict(draft.data.urlencode())
    data = query if TEMPLATE_FIELD in query else None
    return PipelineTemplateForm(data, person=request.user, scope=request.current_scope)


def _choose_template(request: PageRequest) -> HttpResponse:
    """Go to the address of the chosen template, or to the form of a new resource for it."""
    if field := request.POST.get(CREATE_NAME):
        resource = PipelineTemplateForm.new_resources.get(field)
        return leave_form(request, field, resource, scope=request.current_scope, path=request.path)
    names = PipelineTemplateForm.base_fields.keys() & request.POST.keys()
    query = {name: request.POST[name] for name in sorted(names)}
    return redirect(f"{request.path}?{urlencode(query)}")


@require_sign_in
@require_get_or_post
def edit_pipeline(request: PageRequest, pk: int) -> HttpResponse:
    """Save a new version of a pipeline; show the conflict if someone else saved meanwhile."""
    # The answer for a hidden pipeline equals the one for a deleted pipeline.
    visible_rows = filter_visible(request.user, VIEW, Pipeline.objects.filter(pk=pk))
    if request.method == "POST" and not visible_rows.exists():
        return _render_deleted_conflict(request)
    pipeline = get_pipeline(request, pk)
    require(request.user, EDIT, pipeline)
    if request.method != "POST":
        draft = open_draft(request)
        initial = {"yaml": pipeline.yaml, "version": pipeline.version}
        form = PipelineForm(get_posted_data(request), initial=initial)
        return _render_form(request, form, pipeline.scope, pipeline=pipeline, draft=draft)
    form = PipelineForm(request.POST)
    if not form.is_valid():
        return _render_form(request, form, pipeline.scope, pipeline=pipeline)
    data = form.cleaned_data
    try:
        saved = pipelines.save_pipeline(
            actor=request.user,
            scope=pipeline.scope,
            yaml=data["yaml"],
            pipeline=pipeline,
            version=data["version"] or 0,
        )
    except ChangeProposed as proposed:
        delete_draft(request.user, request.GET.get(DRAFT_PARAMETER, ""))
        report_proposal(request, proposed)
        return redirect("pipeline", pk=pk)
    except VersionConflict:
        return _render_edit_conflict(request, pk, data["yaml"])
    except Problem as problem:
        form.add_problem(problem)
        return _render_form(request, form, pipeline.scope, pipeline=pipeline)
    delete_draft(request.user, request.GET.get(DRAFT_PARAMETER, ""))
    messages.success(request, f"{saved.name} saved as version {saved.version}.")
    return redirect("pipeline", pk=pk)


class PipelinePage(ResourcePage[Pipeline]):
    """Page of a pipeline."""

    load = staticmethod(get_pipeline)
    noun = "pipeline"
    parents = (("Pipelines", "pipelines"),)
    detail = "pipeline"


class DeletePipeline(PipelinePage, DeletePage[Pipeline]):
    """Delete a pipeline; its executions stay."""

    permission = DELETE
    text = (
        "The pipeline can no longer be run. Deployed services keep running, its executions remain "
        "available, and executions in progress continue."
    )
    done = "Pipeline {name} deleted. Its executions remain available."

    def get_notice(self) -> Notice | None:
        usages = find_following_triggers(self.object, self.request.user)
        lines = ["These triggers of other pipelines wait for its runs, and start nothing any more."]
        return Notice("Followed by other pipelines", lines, usages) if usages else None

    def perform(self, **values: Any) -> None:
        pipelines.delete_pipeline(actor=self.request.user, pipeline=self.object)


@require_sign_in
@require_POST
def check_pipeline(request: PageRequest) -> HttpResponse:
    """Return the problems of an unsaved pipeline text, for the editor."""
    scopes = list_permitted_scopes(request.user, VIEW)
    scope = get_object_or_404(scopes, path=request.POST.get("in_scope", ""))
    return JsonResponse(pipelines.check_pipeline(request.POST.get("yaml", ""), scope, request.user))


@require_sign_in
@require_POST
def draw_pipeline(request: PageRequest) -> HttpResponse:
    """Render the graph of an unsaved pipeline text; an invalid text keeps the previous graph."""
    graph = build_graph_of_text(request.POST.get("yaml", ""))
    response = render(request, "pipelines/_graph.html", {"graph": graph, "is_followed": True})
    if graph is None:
        response["HX-Reswap"] = "none"
    return response


@require_sign_in
@require_safe
def show_history(request: PageRequest, pk: int) -> HttpResponse:
    """List the versions of a pipeline, and show one version or the diff of two."""
    pipeline = get_pipeline(request, pk)
    rows = PipelineVersion.objects.filter(pipeline=pipeline).defer("yaml").select_related("saved_by")
    content: dict[str, Any] = {
        "pipeline": pipeline,
        "page": paginate_queryset(rows, request, order="number"),
        "can_edit": can(request.user, EDIT, pipeline),
    }
    if number := request.GET.get("show"):
        content["selected_version"] = _get_version(pipeline, number)
        content["graph"] = build_graph_of_text(content["selected_version"].yaml)
    elif pipeline.version > 1:
        newer = _get_version(pipeline, request.GET.get("to") or str(pipeline.version))
        older = _get_version(pipeline, request.GET.get("from") or str(newer.number - 1))
        content |= {"older": older, "newer": newer, "diff": compare_texts(older.yaml, newer.yaml)}
    return render(request, "pipelines/history.html", content)


@require_sign_in
@require_POST
def restore_pipeline(request: PageRequest, pk: int, number: int) -> HttpResponse:
    """Restore an earlier version of a pipeline as a new version."""
    pipeline, opened = get_pipeline(request, pk), request.POST.get("version", "")
    version = int(opened) if _is_version(opened) else None
    try:
        restored = pipelines.restore_version(
            actor=request.user, pipeline=pipeline, number=number, version=version
        )
    except VersionConflict:
        text = f"Someone else saved {pipeline.name} after you opened its history. Nothing was restored."
        messages.error(request, text)
    except ChangeProposed as proposed:
        report_proposal(request, proposed)
    else:
        done = f"Version {number} of {restored.name} restored as version {restored.version}."
        messages.success(request, done)
    return redirect("pipeline-history", pk=pk)


def _is_version(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _get_version(pipeline: Pipeline, number: str) -> PipelineVersion:
    version = pipeline.versions.filter(number=int(number)).first() if _is_version(number) else None
    if version is None:
        raise NotVisible("This version does not exist.")
    return version


def _render_edit_conflict(request: PageRequest, pk: int, text: str) -> HttpResponse:
    """Show the diff between the submitted text and the stored version; the next save overwrites it."""
    stored = get_pipeline(request, pk)
    text = text.replace("\r\n", "\n")
    form = PipelineForm(initial={"yaml": text, "version": stored.version})
    return _render_form(
        request, form, stored.scope, pipeline=stored, diff=compare_texts(stored.yaml, text), status=409
    )


def _render_deleted_conflict(request: PageRequest) -> HttpResponse:
    """Offer to save the submitted text of a deleted pipeline as a new pipeline."""
    initial = {name: request.POST.get(name, "") for name in ("in_scope", "yaml")}
    scope = list_permitted_scopes(request.user, EDIT).filter(path=initial["in_scope"]).first()
    form = NewPipelineForm(person=request.user, permission=EDIT, scope=scope, initial=initial)
    return _render_form(request, form, scope, is_gone=True, status=409)


def _render_form(request: PageRequest, form: PipelineForm, scope: Scope | None, **more: Any) -> HttpResponse:
    if draft := more.get("draft"):
        report_draft(request, draft)
    yaml = str(form["yaml"].value() or "")
    content = {
        "form": form,
        "graph": build_graph_of_text(yaml),
        "guide": build_suggestions(scope, request.user),
        "is_dirty": form.is_bound or "diff" in more or "is_gone" in more,
    }
    status = more.pop("status", form.http_status)
    return render(request, "pipelines/edit.html", content | more, status=status)
