"""Pages of input sets: those of one pipeline, a new one, an edit."""

from typing import Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from deployments import input_sets
from deployments.forms.input_sets import InputSetForm, NewInputSetForm
from deployments.models import InputSet, Pipeline
from rbac.policy import can, require
from web.pages import PageRequest, get_visible, page
from web.paging import keyset
from web.problems import Problem

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
    return render(request, "deployments/pipelines/input_sets.html", content)


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
    """This will change an input set."""
    pipeline, found = _pipeline(request, pk), _input_set(request, pk, number)
    require(request.user, input_sets.EDIT, found)
    initial = {"name": found.name, "description": found.description, "version": found.version}
    form = InputSetForm(
        request.POST if request.method == "POST" else None,
        pipeline=pipeline,
        begun=found.inputs,
        initial=initial,
    )
    if form.is_bound and form.is_valid():
        version = form.cleaned_data["version"] or 0
        try:
            input_sets.update_input_set(
                actor=request.user, input_set=found, spec=_spec(form), version=version
            )
        except Problem as problem:
            form.refuse(problem)
        else:
            messages.success(request, f"The input set {found.name} is saved.")
            return redirect("input-sets", pk=pk)
    return _form_page(request, pipeline, form, found)


@page
@require_POST
def delete_input_set(request: PageRequest, pk: int, number: int) -> HttpResponse:
    """This will delete an input set; runs that used it keep what it said."""
    found = _input_set(request, pk, number)
    input_sets.delete_input_set(actor=request.user, input_set=found)
    messages.success(request, f"The input set {found.name} is deleted.")
    return redirect("input-sets", pk=pk)


def _pipeline(request: PageRequest, pk: int) -> Pipeline:
    return get_visible(request, PIPELINE, Pipeline.objects.select_related("scope"), pk=pk)


def _input_set(request: PageRequest, pk: int, number: int) -> InputSet:
    rows = input_sets.kept_input_sets()
    return get_visible(request, input_sets.VIEW, rows, pk=number, pipeline_id=pk)


def _spec(form: InputSetForm) -> input_sets.InputSetSpec:
    given = form.cleaned_data
    return input_sets.InputSetSpec(given["name"], given["description"], form.inputs())


def _form_page(
    request: PageRequest, pipeline: Pipeline, form: InputSetForm, found: InputSet | None = None
) -> HttpResponse:
    content = {"pipeline": pipeline, "form": form, "input_set": found}
    return render(request, "deployments/pipelines/input_set.html", content, status=form.http_status)
