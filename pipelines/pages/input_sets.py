"""Pages of input sets: list, create, edit and delete."""

from dataclasses import asdict
from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django.utils.html import format_html
from django.views.decorators.http import require_http_methods, require_safe

from catalog.pages.edit_conflicts import diff_values
from pipelines.forms.input_sets import InputSetForm, NewInputSetForm
from pipelines.inputs import input_sets
from pipelines.models import InputSet, Pipeline
from rbac.policy import can, require
from web.forms.pages import PageRequest, get_visible, require_sign_in
from web.forms.resource_pages import Breadcrumb, DeletePage, Notice, ResourcePage
from web.http.pagination import paginate_queryset
from web.http.problems import Problem, VersionConflict
from web.templatetags.slipway import when

GET_OR_POST: Final = ["GET", "HEAD", "POST"]
PIPELINE: Final = "core_pipeline_view"


def _get_input_set(request: PageRequest, pk: int, number: int) -> InputSet:
    rows = input_sets.list_input_sets()
    return get_visible(request, input_sets.VIEW, rows, pk=number, pipeline_id=pk)


class InputSetPage(ResourcePage[InputSet]):
    """A page about an input set, which belongs to a pipeline."""

    load = staticmethod(_get_input_set)
    noun = "input set"

    def get_parents(self) -> list[Breadcrumb]:
        pipeline = self.object.pipeline
        return [
            Breadcrumb("Pipelines", reverse("pipelines")),
            Breadcrumb(pipeline.name, reverse("pipeline", args=[pipeline.pk])),
            Breadcrumb("Input sets", reverse("input-sets", args=[pipeline.pk])),
        ]


@require_sign_in
@require_safe
def list_pipeline_input_sets(request: PageRequest, pk: int) -> HttpResponse:
    """List the input sets of a pipeline."""
    found = _get_pipeline(request, pk)
    content = {
        "pipeline": found,
        "page": paginate_queryset(
            input_sets.list_visible_input_sets(found, request.user).order_by(), request
        ),
        "may_edit": can(request.user, input_sets.EDIT, found),
        "may_delete": can(request.user, input_sets.DELETE, found),
    }
    return render(request, "pipelines/input_sets.html", content)


@require_sign_in
@require_http_methods(GET_OR_POST)
def create_input_set(request: PageRequest, pk: int) -> HttpResponse:
    """Keep values for inputs; from the form of a run it begins with what was entered there."""
    found = _get_pipeline(request, pk)
    require(request.user, input_sets.EDIT, found)
    from_run = "from_run" in request.POST
    entered = request.POST if request.method == "POST" and not from_run else None
    form = NewInputSetForm(entered, pipeline=found, begun={})
    if from_run:
        form.initial_inputs = {
            one.name: text for one in form.variables if (text := request.POST.get(f"input.{one.name}"))
        }
    if form.is_bound and form.is_valid():
        identifier = form.cleaned_data["identifier"]
        try:
            input_sets.create_input_set(
                actor=request.user, pipeline=found, identifier=identifier, spec=_build_spec(form)
            )
        except Problem as problem:
            form.add_problem(problem)
        else:
            messages.success(request, f"The input set {form.cleaned_data['name']} is there.")
            return redirect("input-sets", pk=pk)
    return _render_form(request, found, form)


@require_sign_in
@require_http_methods(GET_OR_POST)
def edit_input_set(request: PageRequest, pk: int, number: int) -> HttpResponse:
    """Change an input set; what saving would change is shown before, and nobody's work is lost."""
    pipeline, found = _get_pipeline(request, pk), _get_input_set(request, pk, number)
    require(request.user, input_sets.EDIT, found)
    entered = request.POST if request.method == "POST" else None
    form = InputSetForm(entered, pipeline=pipeline, begun=found.inputs, initial=_build_initial_values(found))
    if not (form.is_bound and form.is_valid()):
        return _render_form(request, pipeline, form, found)
    try:
        if "review" in request.POST:
            input_sets.validate_spec(pipeline, _build_spec(form))
            review = diff_values(input_sets.serialize_input_set(found), asdict(_build_spec(form)))
            return _render_form(request, pipeline, form, found, review=review)
        version = form.cleaned_data["version"] or 0
        input_sets.update_input_set(
            actor=request.user, input_set=found, spec=_build_spec(form), version=version
        )
    except VersionConflict:
        return _render_edit_conflict(request, pipeline, form, number)
    except Problem as problem:
        form.add_problem(problem)
        return _render_form(request, pipeline, form, found)
    messages.success(request, f"The input set {found.name} is saved.")
    return redirect("input-sets", pk=pk)


class DeleteInputSet(InputSetPage, DeletePage[InputSet]):
    """Delete an input set, after telling how often runs took values from it."""

    permission = input_sets.DELETE
    done = "The input set {name} is deleted."

    def get_texts(self) -> list[str]:
        return [] if self.object.runs else ["No run has taken values from it."]

    def get_notice(self) -> Notice | None:
        found = self.object
        if not found.runs:
            return None
        last = format_html(
            "The last one was {}. These runs keep their values.", when(found.last_run_at, "ago")
        )
        refused = format_html(
            "A program that names <code>{}</code> for a run is refused from now on.", found.identifier
        )
        return Notice(f"{found.runs} run{pluralize(found.runs)} took values from it", [last, refused])

    def perform(self, **given: Any) -> None:
        input_sets.delete_input_set(actor=self.request.user, input_set=self.object)


def _render_edit_conflict(
    request: PageRequest, pipeline: Pipeline, form: InputSetForm, number: int
) -> HttpResponse:
    """Show what was entered over what was saved meanwhile; the next save means to replace that."""
    stored, entered = _get_input_set(request, pipeline.pk, number), asdict(_build_spec(form))
    differs = diff_values(input_sets.serialize_input_set(stored), entered)
    initial = {**entered, "version": stored.version}
    again = InputSetForm(pipeline=pipeline, begun=entered["inputs"], initial=initial)
    return _render_form(request, pipeline, again, stored, diff=differs, status=409)


def _build_initial_values(found: InputSet) -> dict[str, Any]:
    return {"name": found.name, "description": found.description, "version": found.version}


def _get_pipeline(request: PageRequest, pk: int) -> Pipeline:
    return get_visible(request, PIPELINE, Pipeline.objects.select_related("scope"), pk=pk)


def _build_spec(form: InputSetForm) -> input_sets.InputSetSpec:
    given = form.cleaned_data
    return input_sets.InputSetSpec(given["name"], given["description"], form.inputs())


def _render_form(
    request: PageRequest,
    pipeline: Pipeline,
    form: InputSetForm,
    found: InputSet | None = None,
    **more: Any,
) -> HttpResponse:
    content = {"pipeline": pipeline, "form": form, "input_set": found}
    status = more.pop("status", form.http_status)
    return render(request, "pipelines/input_set.html", content | more, status=status)
