"""Pages of input sets: those of one pipeline, a new one, an edit."""

from dataclasses import asdict
from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from catalog.pages.changes import compared
from pipelines.forms.input_sets import InputSetForm, NewInputSetForm
from pipelines.inputs import input_sets
from pipelines.models import InputSet, Pipeline
from rbac.policy import can, require
from web.pages import PageRequest, get_visible, page
from web.paging import keyset
from web.problems import ChangedMeanwhile, Problem

GET_OR_POST: Final = ["GET", "HEAD", "POST"]
PIPELINE: Final = "core_pipeline_view"


@page
@require_safe
def pipeline_input_sets(request: PageRequest, pk: int) -> HttpResponse:
    """This will list the input sets of a pipeline."""
    found = _pipeline(request, pk)
    content = {
        "pipeline": found,
        "page": keyset(input_sets.input_sets_of(found, request.user).order_by(), request),
        "may_edit": can(request.user, input_sets.EDIT, found),
        "may_delete": can(request.user, input_sets.DELETE, found),
    }
    return render(request, "pipelines/input_sets.html", content)


@page
@require_http_methods(GET_OR_POST)
def new_input_set(request: PageRequest, pk: int) -> HttpResponse:
    """This will keep values for inputs; from the form of a run it begins with what was entered there."""
    found = _pipeline(request, pk)
    require(request.user, input_sets.EDIT, found)
    from_run = "from_run" in request.POST
    entered = request.POST if request.method == "POST" and not from_run else None
    form = NewInputSetForm(entered, pipeline=found, begun={})
    if from_run:
        form.begun = {
            one.name: text for one in form.variables if (text := request.POST.get(f"input.{one.name}"))
        }
    if form.is_bound and form.is_valid():
        identifier = form.cleaned_data["identifier"]
        try:
            input_sets.create_input_set(
                actor=request.user, pipeline=found, identifier=identifier, spec=_spec(form)
            )
        except Problem as problem:
            form.refuse(problem)
        else:
            messages.success(request, f"The input set {form.cleaned_data['name']} is there.")
            return redirect("input-sets", pk=pk)
    return _form_page(request, found, form)


@page
@require_http_methods(GET_OR_POST)
def edit_input_set(request: PageRequest, pk: int, number: int) -> HttpResponse:
    """This will change an input set; what saving would change is shown before, and nobody's work is lost."""
    pipeline, found = _pipeline(request, pk), _input_set(request, pk, number)
    require(request.user, input_sets.EDIT, found)
    entered = request.POST if request.method == "POST" else None
    form = InputSetForm(entered, pipeline=pipeline, begun=found.inputs, initial=_values(found))
    if not (form.is_bound and form.is_valid()):
        return _form_page(request, pipeline, form, found)
    try:
        if "review" in request.POST:
            input_sets.check_spec(pipeline, _spec(form))
            review = compared(input_sets.said_by(found), asdict(_spec(form)))
            return _form_page(request, pipeline, form, found, review=review)
        version = form.cleaned_data["version"] or 0
        input_sets.update_input_set(actor=request.user, input_set=found, spec=_spec(form), version=version)
    except ChangedMeanwhile:
        return _changed_meanwhile(request, pipeline, form, number)
    except Problem as problem:
        form.refuse(problem)
        return _form_page(request, pipeline, form, found)
    messages.success(request, f"The input set {found.name} is saved.")
    return redirect("input-sets", pk=pk)


@page
@require_http_methods(GET_OR_POST)
def delete_input_set(request: PageRequest, pk: int, number: int) -> HttpResponse:
    """This will ask before an input set goes, and say how much it is used."""
    found = _input_set(request, pk, number)
    require(request.user, input_sets.DELETE, found)
    if request.method == "POST":
        input_sets.delete_input_set(actor=request.user, input_set=found)
        messages.success(request, f"The input set {found.name} is deleted.")
        return redirect("input-sets", pk=pk)
    content = {"pipeline": found.pipeline, "input_set": found}
    return render(request, "pipelines/delete_input_set.html", content)


def _changed_meanwhile(
    request: PageRequest, pipeline: Pipeline, form: InputSetForm, number: int
) -> HttpResponse:
    """Show what was entered over what was saved meanwhile; the next save means to replace that."""
    stored, entered = _input_set(request, pipeline.pk, number), asdict(_spec(form))
    differs = compared(input_sets.said_by(stored), entered)
    initial = {**entered, "version": stored.version}
    again = InputSetForm(pipeline=pipeline, begun=entered["inputs"], initial=initial)
    return _form_page(request, pipeline, again, stored, diff=differs, status=409)


def _values(found: InputSet) -> dict[str, Any]:
    return {"name": found.name, "description": found.description, "version": found.version}


def _pipeline(request: PageRequest, pk: int) -> Pipeline:
    return get_visible(request, PIPELINE, Pipeline.objects.select_related("scope"), pk=pk)


def _input_set(request: PageRequest, pk: int, number: int) -> InputSet:
    rows = input_sets.kept_input_sets()
    return get_visible(request, input_sets.VIEW, rows, pk=number, pipeline_id=pk)


def _spec(form: InputSetForm) -> input_sets.InputSetSpec:
    given = form.cleaned_data
    return input_sets.InputSetSpec(given["name"], given["description"], form.inputs())


def _form_page(
    request: PageRequest,
    pipeline: Pipeline,
    form: InputSetForm,
    found: InputSet | None = None,
    **more: Any,
) -> HttpResponse:
    content = {"pipeline": pipeline, "form": form, "input_set": found}
    status = more.pop("status", form.http_status)
    return render(request, "pipelines/input_set.html", content | more, status=status)
