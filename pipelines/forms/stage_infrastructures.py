"""Form that creates an infrastructure, and its environment, within a stage."""

from collections.abc import Mapping
from typing import Any

from django import forms

from catalog.forms.environments import NewInfrastructureForm
from catalog.models import Environment
from catalog.operations import EnvironmentSpec
from connectors.queries import list_connectors
from connectors.specs.aws import parse_aws_spec
from guards.limits import NAME_CHARACTERS
from pipelines.definition.stage_targets import filter_nearest
from rbac.models import Scope
from rbac.policy import Principal, filter_visible, list_permitted_scopes
from web.forms.page_forms import ScopeField
from web.forms.resource_forms import suggest_identifier
from web.http.problems import Problem

EDIT = "core_environment_edit"
# Limit of the connectors that the form offers.
MAX_CONNECTORS = 200
_ENVIRONMENT_FIELDS = {"name": "environment_name", "identifier": "environment_identifier"}
# Fields with a default value.
_PRESELECTED_FIELDS = frozenset(
    {"connector", "region", "cluster", "kind", "in_scope", "method", "mapped_region", "mapped_cluster"}
)


class EnvironmentField(forms.ModelChoiceField):
    """A choice of the environments that the user may edit, with their scopes."""

    def label_from_instance(self, obj: Any) -> str:
        return f"{obj.name} ({obj.scope.path})"


class StageInfrastructureForm(NewInfrastructureForm):
    """Form for a new infrastructure in an existing or a new environment."""

    conditional_fields = NewInfrastructureForm.conditional_fields | {
        "environment",
        "environment_name",
        "kind",
        "in_scope",
    }

    environment = EnvironmentField(
        Environment.objects.none(), label="Environment", required=False, empty_label="New environment"
    )
    environment_name = forms.CharField(label="Name", max_length=int(NAME_CHARACTERS), required=False)
    environment_identifier = forms.CharField(
        label="Identifier",
        required=False,
        max_length=int(NAME_CHARACTERS),
        help_text="Used in pipelines. It cannot be changed. Generated from the name if empty.",
    )
    kind = forms.ChoiceField(
        label="Type",
        choices=Environment.Kind.choices,
        initial=Environment.Kind.PRE_PRODUCTION,
        required=False,
    )
    in_scope = ScopeField(label="Scope", help_text="Pipelines in this scope and below can use it.")

    def __init__(
        self,
        *args: Any,
        person: Principal,
        scope: Scope,
        entered: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        """Build the form for a pipeline of `scope`, with the resources there and above that the user may use.

        `entered` is displayed without validation, because it was not submitted yet.
        """
        connectors = filter_visible(person, "core_connector_access", list_connectors(scope))
        self.connectors, self.scope = list(connectors[:MAX_CONNECTORS]), scope
        super().__init__(*args, connectors=self.connectors, prefix="new", auto_id="visual-%s", **kwargs)
        if self.connectors:
            self.fields["region"].initial = parse_aws_spec(self.connectors[0].spec).test_region
        above = scope.ancestor_paths()
        rows = filter_nearest(Environment.objects.select_related("scope"), scope)
        environments = filter_visible(person, EDIT, rows).order_by("name", "pk")
        environment, in_scope = self.fields["environment"], self.fields["in_scope"]
        if isinstance(environment, EnvironmentField):
            environment.queryset = environments
        if isinstance(in_scope, ScopeField):
            in_scope.queryset = list_permitted_scopes(person, EDIT).filter(path__in=above).order_by("path")
            in_scope.initial = scope.path
            in_scope.required = False
        self.has_entered_values = False
        if entered:
            self._restore_entered(entered)

    def _restore_entered(self, entered: Mapping[str, str]) -> None:
        """Set initial values from earlier input; set `has_entered_values` if there are any."""
        for name, field in self.fields.items():
            text = entered.get(self.add_prefix(name))
            if text is not None and text != str(self.get_initial_for_field(field, name) or ""):
                self.initial[name] = text
                self.has_entered_values |= name not in _PRESELECTED_FIELDS

    @property
    def can_create(self) -> bool:
        """Return whether the user may create an infrastructure that the pipeline can reference."""
        return any(self.fields[name].queryset.exists() for name in ("environment", "in_scope"))  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        """Check the fields that a new environment requires."""
        data = super().clean() or self.cleaned_data
        if data.get("environment"):
            return data
        if not data.get("environment_name", "").strip():
            self.add_error(
                "environment_name", ("Enter a name for the new environment, or choose an existing one.")
            )
        elif not data.get("environment_identifier"):
            data["environment_identifier"] = suggest_identifier(data["environment_name"])
        if not data.get("in_scope"):
            self.add_error("in_scope", "Choose the scope of the environment.")
        elif self._has_nearer_environment(data.get("environment_identifier", ""), data["in_scope"]):
            text = "The pipeline has a nearer environment with this identifier. Enter another one."
            self.add_error("environment_identifier", text)
        return data

    def _has_nearer_environment(self, identifier: str, place: Scope) -> bool:
        """Return whether the stage would get another environment by the identifier of the new one."""
        near = filter_nearest(Environment.objects.filter(identifier=identifier), self.scope)
        return near.filter(scope__path__gt=place.path).exists()

    def environment_spec(self) -> EnvironmentSpec:
        """Build the spec of the new environment."""
        data = self.cleaned_data
        return EnvironmentSpec(data["environment_name"], kind=data["kind"] or Environment.Kind.PRE_PRODUCTION)

    @property
    def target_identifiers(self) -> tuple[str, str]:
        """Return the identifiers of environment and infrastructure, as the stage references them."""
        data = self.cleaned_data
        environment = data["environment"]
        named = environment.identifier if environment else data["environment_identifier"]
        return named, data["identifier"]

    def add_environment_errors(self, problem: Problem) -> None:
        """Add the problems of a rejected environment to its fields."""
        for error in problem.errors or [{"path": "identifier", "message": problem.detail}]:
            self.add_error(_ENVIRONMENT_FIELDS.get(str(error["path"])), str(error["message"]))
