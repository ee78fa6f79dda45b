"""Forms of runs and of freeze windows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, ClassVar, Final
from zoneinfo import available_timezones

from django import forms
from django.db.models import QuerySet

from catalog.models import Environment
from deployments.execution import operations
from deployments.execution.planning.run_requests import list_requested_variables
from deployments.freezes.operations import FreezeSpec
from deployments.preview import operations as preview_operations
from pipelines.definition.stage_targets import StageTarget
from pipelines.forms.input_sets import RunVariableInput, get_posted_input, parse_posted_inputs
from pipelines.inputs.variables import PipelineVariable, format_variable_value
from pipelines.models import InputSet, Pipeline
from pipelines.operations.pipelines import list_pipeline_variables
from steps.kinds.registry import get_step_kind
from web.forms.drafts import NewResource, Selection
from web.forms.page_forms import ScopeField
from web.forms.resource_forms import IdentifierField, IdentifierForm, ResourceForm, ScopedForm
from web.http.problems import Problem

_MOMENT = {"type": "datetime-local", "class": "input"}


@cache
def list_time_zones() -> list[tuple[str, str]]:
    """Return the names of this machine's time zones, cached."""
    return [(name, name) for name in sorted(available_timezones())]


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text.replace(",", " ").split()))


# Windows name services and environments of their scope and below.
_OF_WINDOW: Final[Mapping[str, Any]] = {
    "value_attribute": "identifier",
    "selection": Selection.ADD_WORD,
    "is_inside": True,
}
NEW_ENVIRONMENT: Final = NewResource("environment", "new-environment", "core_environment_edit", **_OF_WINDOW)
NEW_SERVICE: Final = NewResource("service", "new-service", "core_service_edit", **_OF_WINDOW)


class FreezeForm(ResourceForm):
    """Form of a freeze window."""

    description = forms.CharField(
        label="Reason",
        required=False,
        max_length=4096,
        help_text="Shown to users whose runs are blocked.",
        widget=forms.Textarea(attrs={"class": "input area", "rows": 2}),
    )
    begins = forms.CharField(max_length=19, widget=forms.TextInput(attrs=_MOMENT))
    ends = forms.CharField(max_length=19, widget=forms.TextInput(attrs=_MOMENT))
    time_zone = forms.ChoiceField(initial="UTC", help_text="Time zone of the start and end.")
    weekly = forms.BooleanField(required=False, label="Repeat every week at the same local time")
    environment_kind = forms.ChoiceField(
        label="Type of environment",
        required=False,
        choices=[("", "All types"), *Environment.Kind.choices],
    )
    environments = forms.CharField(
        required=False, max_length=4096, help_text="Identifiers, separated by commas; empty for all."
    )
    services = forms.CharField(
        required=False, max_length=4096, help_text="Identifiers, separated by commas; empty for all."
    )
    enabled = forms.BooleanField(required=False, initial=True, label="Enabled")

    new_resources: ClassVar[Mapping[str, NewResource]] = {
        "environments": NEW_ENVIRONMENT,
        "services": NEW_SERVICE,
    }
    pairs = (
        ("name", "identifier", "in_scope"),
        ("begins", "ends", "time_zone", "environment_kind", "environments", "services"),
    )
    field_order = (*pairs[0], "description", *pairs[1], "weekly", "enabled")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        zone = self.fields["time_zone"]
        if isinstance(zone, forms.ChoiceField):
            zone.choices = list_time_zones()

    def spec(self) -> FreezeSpec:
        """Return the spec from the input."""
        data = self.cleaned_data
        return FreezeSpec(
            name=data["name"],
            reason=data["description"],
            begins=data["begins"],
            ends=data["ends"],
            time_zone=data["time_zone"],
            weekly=data["weekly"],
            services=_names(data["services"]),
            environments=_names(data["environments"]),
            environment_kind=data["environment_kind"],
            enabled=data["enabled"],
        )


class NewFreezeForm(ScopedForm, IdentifierForm, FreezeForm):
    """Form for a new freeze window."""

    in_scope = ScopeField(help_text="Blocks runs in this scope and below.")
    identifier = IdentifierField(
        help_text=("Used in the API. It cannot be changed. Generated from the name if empty.")
    )


TAG = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z"


def _build_tag_field() -> forms.RegexField:
    return forms.RegexField(
        regex=TAG,
        strip=True,
        error_messages={
            "required": "Enter the tag of the image to deploy.",
            "invalid": "Use up to 128 letters, digits, dots, dashes and underscores.",
        },
    )


class DeployForm(forms.Form):
    """Form with an image tag and one of the service's pipelines."""

    tag = _build_tag_field()
    pipeline = forms.ModelChoiceField(
        Pipeline.objects.none(),
        error_messages={
            "required": "Choose a pipeline.",
            "invalid_choice": "This pipeline does not deploy the service, or you cannot run it.",
        },
    )

    def __init__(self, *args: Any, pipelines: QuerySet[Pipeline], pattern: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pattern = pattern
        self.fields["tag"].required = not pattern
        self.fields["pipeline"].queryset = pipelines  # type: ignore[attr-defined]
        self.pipelines = list(pipelines)
        self.tags: list[str] = []
        self.problems: list[dict[str, Any]] = []

    def refuse(self, problem: Problem) -> None:
        """Show why nothing was deployed."""
        self.problems = problem.errors or [{"path": "", "message": problem.detail}]


class RunForm(forms.Form):
    """Form of a run: image tag and inputs, with the plan."""

    tag = _build_tag_field()
    override_freeze = forms.BooleanField(required=False)
    keep_same_tasks = forms.BooleanField(required=False)

    def __init__(self, *args: Any, pipeline: Pipeline, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pipeline = pipeline
        self.problems: list[dict[str, Any]] = []
        self.plan: list[dict[str, Any]] = []
        self.artifact: dict[str, Any] = {}
        self.targets: list[StageTarget] = []
        self.variables = list_requested_variables(pipeline)
        self.errors_of: dict[str, str] = {}
        self.initial_values: dict[str, Any] = {}
        self.sets: list[InputSet] = []
        self.chosen: list[str] = []
        try:
            outline = operations.RunOutline(pipeline)
            self.plan, self.targets = outline.list_stages(), outline.targets
            self.artifact = outline.get_default_artifact()
            self.initial["tag"] = self.artifact["tag"]
            self.fields["tag"].required = not self.pattern
        except Problem as problem:
            self.refuse(problem)

    @property
    def pattern(self) -> str:
        """Return the tag pattern of a run without a chosen tag."""
        return str((self.artifact.get("source") or {}).get("tagPattern") or "")

    @property
    def can_keep_tasks(self) -> bool:
        """Return whether a step of the plan replaces tasks if nothing changed, unless it is told not to."""
        types = {step["type"] for stage in self.plan for step in stage["steps"]}
        specs = [get_step_kind(step_type).spec for step_type in types]
        return any(field.name == "forceNewDeployment" for spec in specs for field in fields(spec))

    @property
    def force_new_deployment(self) -> bool | None:
        """Return whether the run replaces tasks without differences; None leaves it to the step."""
        return False if self.cleaned_data["keep_same_tasks"] else None

    def refuse(self, problem: Problem) -> None:
        """Show why the run was not started, with the problems of inputs at their fields."""
        names_by_path = {f"inputs.{variable.name}": variable.name for variable in self.variables}
        input_errors = [error for error in problem.errors if error.get("path") in names_by_path]
        self.errors_of = {names_by_path[error["path"]]: str(error["message"]) for error in input_errors}
        other_errors = [error for error in problem.errors if error not in input_errors]
        self.problems = other_errors or ([] if input_errors else [{"path": "", "message": problem.detail}])

    def apply_input_sets(self, sets: Iterable[InputSet], chosen: Sequence[str]) -> None:
        """Fill in the values of the chosen input sets; later ones override earlier ones.

        A variable that the run does not ask for gets a field if a chosen set has a value for it.
        """
        self.sets = list(sets)
        self.chosen = [
            name for name in chosen if any(name == input_set.identifier for input_set in self.sets)
        ]
        values_by_set = {input_set.identifier: input_set.inputs for input_set in self.sets}
        for name in self.chosen:
            self.initial_values |= values_by_set[name]
        if self.initial_values:
            self.variables = tuple(
                variable
                for variable in list_pipeline_variables(self.pipeline)
                if variable.is_runtime_input
                or (variable.name in self.initial_values and not variable.is_secret)
            )

    def inputs(self) -> dict[str, Any]:
        """Return the input, converted to the types of the pipeline's variables.

        Raises `BadInput` as `parse_posted_inputs` does.
        """
        return parse_posted_inputs(self.data, self.variables, self.initial_values)

    def current_inputs(self) -> dict[str, Any]:
        """Return the displayed values of the inputs, entered or not, without secrets."""
        texts = {variable: self._get_displayed_value(variable) for variable in self.variables}
        return {variable.name: variable.parse_value(text) for variable, text in texts.items() if text != ""}

    def evaluated_plan(self) -> list[dict[str, Any]]:
        """Return the plan with the evaluated conditions of its steps for the current input."""
        if not self.plan:
            return []
        try:
            return preview_operations.forecast_plan(
                self.pipeline, self.targets, self.current_inputs(), self.artifact
            )
        except Problem:
            return self.plan

    def list_input_fields(self) -> list[RunVariableInput]:
        """Return the fields of the inputs; a secret is never shown again."""
        return [
            RunVariableInput(
                variable, self._get_displayed_value(variable), self.errors_of.get(variable.name, "")
            )
            for variable in self.variables
        ]

    def _get_displayed_value(self, variable: PipelineVariable) -> str:
        if variable.is_secret:
            return ""
        if self.is_bound and f"input.{variable.name}" in self.data:
            return get_posted_input(self.data, variable)
        value = self.initial_values.get(variable.name, variable.value)
        return "" if value is None else format_variable_value(value)
