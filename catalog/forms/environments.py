"""Forms of environments and infrastructures."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError

from aws.regions import list_regions
from catalog.forms.variables import FormWithVariables
from catalog.infrastructure_checks import list_field_problems
from catalog.models import Environment
from catalog.operations import EnvironmentSpec, InfrastructureSpec
from connectors.models import Connector
from web.forms.drafts import NewResource
from web.forms.page_forms import PageForm
from web.forms.resource_forms import IdentifierForm, ResourceForm, ScopedForm, VersionField
from web.http.problems import Problem

STATIC, DYNAMIC = "STATIC", "DYNAMIC"
PROVISIONING_METHODS = ((STATIC, "Pre-existing"), (DYNAMIC, "Dynamically provisioned"))


class EnvironmentForm(FormWithVariables, ResourceForm):
    """An environment with its variables, without its infrastructures."""

    kind = forms.ChoiceField(
        label="Type",
        choices=Environment.Kind.choices,
        initial=Environment.Kind.PRE_PRODUCTION,
        help_text="Production environments are marked on all pages.",
    )
    pairs = (("name", "identifier", "in_scope", "kind"),)
    field_order = (*pairs[0], "description")

    def build_spec(self) -> EnvironmentSpec:
        """Build the spec from the submitted values."""
        data, variables = self.cleaned_data, self.variables.variables()
        return EnvironmentSpec(data["name"], data["description"], data["kind"], variables)


class NewEnvironmentForm(ScopedForm, IdentifierForm, EnvironmentForm):
    """Form for a new environment."""


class ConnectorField(forms.ModelChoiceField):
    """A choice of the connectors that the user may use, with their scopes."""

    def label_from_instance(self, obj: Any) -> str:
        return f"{obj.name} ({obj.scope.path})"


def _build_mono_input() -> forms.TextInput:
    return forms.TextInput(attrs={"class": "input mono", "spellcheck": "false", "autocapitalize": "none"})


class InfrastructureForm(PageForm):
    """Form of an infrastructure; offers the connectors that the user may use there."""

    name = forms.CharField(max_length=128)
    connector = ConnectorField(
        Connector.objects.none(), empty_label=None, help_text="Provides the credentials for the AWS account."
    )
    method = forms.ChoiceField(
        label="Method", choices=PROVISIONING_METHODS, initial=STATIC, required=False, widget=forms.RadioSelect
    )
    region = forms.ChoiceField(required=False)
    cluster = forms.CharField(max_length=255, required=False, widget=_build_mono_input())
    mapped_region = forms.CharField(
        label="Region",
        max_length=255,
        required=False,
        initial="<+provisioner.region_name>",
        help_text="An expression or a fixed region.",
        widget=_build_mono_input(),
    )
    mapped_cluster = forms.CharField(
        label="Cluster",
        max_length=255,
        required=False,
        initial="<+provisioner.cluster_name>",
        help_text="The provisioner output with the cluster name, as <+provisioner.OUTPUT_NAME>.",
        widget=_build_mono_input(),
    )
    version = VersionField()
    conditional_fields = frozenset({"region", "cluster", "mapped_region", "mapped_cluster", "method"})
    field_order = ("name", "identifier", "connector", "method", "region", "cluster")
    new_resources: ClassVar[Mapping[str, NewResource]] = {
        "connector": NewResource(
            "connector", "new-connector", "core_connector_edit", kinds=(Connector.Kind.AWS,)
        )
    }

    def __init__(self, *args: Any, connectors: Iterable[Connector], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["connector"]
        if isinstance(field, ConnectorField):
            field.queryset = Connector.objects.filter(
                pk__in=[connector.pk for connector in connectors]
            ).select_related("scope")
        region = self.fields["region"]
        if isinstance(region, forms.ChoiceField):
            region.choices = [(item.name, f"{item.name} · {item.title}") for item in list_regions()]

    @property
    def is_dynamic(self) -> bool:
        """Return whether region and cluster come from the outputs of a provisioner (R184)."""
        return bool(self["method"].value() == DYNAMIC)

    def clean(self) -> dict[str, Any]:
        """Check the fields that static and dynamic infrastructures require."""
        data = super().clean() or self.cleaned_data
        region, cluster = self._get_location(data)
        if not cluster:
            self.add_error(self._field("cluster"), "Choose a cluster.")
        if not region:
            self.add_error(self._field("region"), "Choose a region.")
        if region and cluster:
            for field, message in list_field_problems(region, cluster, is_dynamic=self.is_dynamic):
                self.add_error(self._field(field), message)
        return data

    def add_problem(self, problem: Problem | ValidationError) -> None:
        """Show a problem; one of region or cluster is shown at its visible field."""
        if isinstance(problem, Problem) and self.is_dynamic:
            for error in problem.errors or ():
                error["path"] = self._field(str(error.get("path", "")))
        super().add_problem(problem)

    def _field(self, name: str) -> str:
        return f"mapped_{name}" if self.is_dynamic and name in ("region", "cluster") else name

    def _get_location(self, data: Mapping[str, Any]) -> tuple[str, str]:
        region, cluster = data.get(self._field("region")), data.get(self._field("cluster"))
        return str(region or "").strip(), str(cluster or "").strip()

    def build_spec(self) -> InfrastructureSpec:
        """Build the spec from the submitted values."""
        data = self.cleaned_data
        region, cluster = self._get_location(data)
        return InfrastructureSpec(
            data["name"], data["connector"], region, cluster, is_dynamic=self.is_dynamic
        )


class NewInfrastructureForm(IdentifierForm, InfrastructureForm):
    """Form for a new infrastructure."""
