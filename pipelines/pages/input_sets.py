"""Pages of input sets: list, create, edit and delete."""

from dataclasses import asdict
from typing import Any

from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django.utils.html import format_html
from django.views.decorators.http import require_safe

from pipelines.forms.input_sets import InputSetForm, NewInputSetForm, get_posted_input
from pipelines.inputs import input_sets
from pipelines.models import InputSet, Pipeline
from pipelines.pages.pipelines import PipelinePage, get_pipeline
from rbac.policy import can
from web.forms.page_forms import get_posted_data
from web.forms.pages import PageRequest, get_visible, require_sign_in
from web.forms.resource_pages import (
    Breadcrumb,
    CreateChildPage,
    DeletePage,
    Notice,
    ResourcePage,
    VersionedEditPage,
)
from web.http.pagination import paginate_queryset
from web.http.problems import Problem, VersionConflict
from web.templatetags.slipway import when
from web.text_diffs import TextDiff, diff_values


def _get_input_set(request: PageRequest, pk: int, number: int) -> InputSet:
    rows = input_sets.list_input_sets()
    return get_visible(request, input_sets.VIEW, rows, pk=number, pipeline_id=pk)


class InputSetPage(ResourcePage[InputSet]):
    """A page about an input set, which belongs to a pipeline."""

    load = staticmethod(_get_input_set)
    noun = "input set"

    def get_parents(self) -> list[Breadcrumb]:
        return list_input_set_parents(self.object.pipeline)


def list_input_set_parents(pipeline: Pipeline) -> list[Breadcrumb]:
    """Return the pages above those of a pipeline's input sets."""
    return [
        Breadcrumb("Pipelines", reverse("pipelines")),
        Breadcrumb(pipeline.name, reverse("pipeline", args=[pipeline.pk])),
        Breadcrumb("Input sets", reverse("input-sets", args=[pipeline.pk])),
    ]


@require_sign_in
@require_safe
def list_pipeline_input_sets(request: PageRequest, pk: int) -> HttpResponse:
    """List the input sets of a pipeline."""
    pipeline = get_pipeline(request, pk)
    content = {
        "pipeline": pipeline,
        "page": paginate_queryset(
            input_sets.list_visible_input_sets(pipeline, request.user).order_by(), request
        ),
        "may_edit": can(request.user, input_sets.EDIT, pipeline),
        "may_delete": can(request.user, input_sets.DELETE, pipeline),
    }
    return render(request, "pipelines/input_sets.html", content)


class NewInputSet(PipelinePage, CreateChildPage[Pipeline]):
    """Create an input set; opened from the run form, it starts with the values entered there."""

    template_name = "pipelines/input_set.html"
    permission = input_sets.EDIT
    noun = "input set"
    form_class = NewInputSetForm
    here = "New"
    done = "Input set {name} created."

    def get_breadcrumbs(self) -> list[Breadcrumb]:
        return list_input_set_parents(self.object)

    def get_context(self, form: NewInputSetForm) -> dict[str, Any]:
        return {"pipeline": self.object}

    def build_form(self) -> NewInputSetForm:
        if "from_run" not in self.request.POST:
            return NewInputSetForm(get_posted_data(self.request), pipeline=self.object, initial_inputs={})
        form = NewInputSetForm(pipeline=self.object, initial_inputs={})
        form.initial_inputs = {
            variable.name: text
            for variable in form.variables
            if (text := get_posted_input(self.request.POST, variable))
        }
        return form

    def save(self, form: NewInputSetForm) -> InputSet:
        return input_sets.create_input_set(
            actor=self.request.user,
            pipeline=self.object,
            identifier=form.cleaned_data["identifier"],
            spec=_build_spec(form),
        )


def _get_input_set_of_visible_pipeline(request: PageRequest, pk: int, number: int) -> InputSet:
    get_pipeline(request, pk)
    return _get_input_set(request, pk, number)


class EditInputSet(InputSetPage, VersionedEditPage[InputSet]):
    """Edit an input set; a review of the changes is optional."""

    load = staticmethod(_get_input_set_of_visible_pipeline)
    template_name = "pipelines/input_set.html"
    permission = input_sets.EDIT
    form_class = InputSetForm
    fields = ("name", "description")
    done = "Input set {name} saved."

    def get_here(self) -> str:
        return self.get_name()

    def get_context(self, form: InputSetForm) -> dict[str, Any]:
        return {"pipeline": self.object.pipeline, "input_set": self.object}

    def get_form_options(self) -> dict[str, Any]:
        options = {"pipeline": self.object.pipeline, "initial_inputs": self.object.inputs}
        return super().get_form_options() | options

    def post(self, request: PageRequest, **kwargs: Any) -> HttpResponseBase:
        if "review" not in request.POST:
            return super().post(request, **kwargs)
        form: Any = self.build_form()
        if not form.is_valid():
            return self.render_form(form)
        try:
            input_sets.validate_spec(self.object.pipeline, _build_spec(form))
        except Problem as problem:
            form.add_problem(problem)
            return self.render_form(form)
        return self.render_form(form, review=self.describe_change(form))

    def save(self, form: InputSetForm) -> InputSet:
        return input_sets.update_input_set(
            actor=self.request.user,
            input_set=self.object,
            spec=_build_spec(form),
            version=self.get_opened_version(form),
        )

    def render_conflict(self, form: InputSetForm, problem: VersionConflict) -> HttpResponse:
        self.prepare()
        entered = asdict(_build_spec(form))
        overwriting = InputSetForm(
            pipeline=self.object.pipeline,
            initial_inputs=entered["inputs"],
            initial=entered | {"version": self.object.version},
        )
        return self.render_form(overwriting, 409, diff=self.describe_change(form))

    def describe_change(self, form: InputSetForm) -> TextDiff:
        return diff_values(input_sets.serialize_input_set(self.object), asdict(_build_spec(form)))


class DeleteInputSet(InputSetPage, DeletePage[InputSet]):
    """Delete an input set, after showing how many runs used it."""

    permission = input_sets.DELETE
    done = "Input set {name} deleted."

    def get_texts(self) -> list[str]:
        return [] if self.object.runs else ["No run has used this input set."]

    def get_notice(self) -> Notice | None:
        input_set = self.object
        if not input_set.runs:
            return None
        last = format_html("Last used {}. These runs keep their values.", when(input_set.last_run_at, "ago"))
        refused = format_html(
            "API requests that run a pipeline with <code>{}</code> will fail.", input_set.identifier
        )
        return Notice(f"Used by {input_set.runs} run{pluralize(input_set.runs)}", [last, refused])

    def perform(self, **values: Any) -> None:
        input_sets.delete_input_set(actor=self.request.user, input_set=self.object)


def _build_spec(form: InputSetForm) -> input_sets.InputSetSpec:
    data = form.cleaned_data
    return input_sets.InputSetSpec(data["name"], data["description"], form.inputs())
