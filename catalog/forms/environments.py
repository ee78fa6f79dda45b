"""Forms of environments and infrastructures."""

from collections.abc import Iterable, Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from aws.regions import list_regions
from catalog.forms.variables import FormWithVariables
from catalog.infrastructure_checks import list_field_problems
from catalog.models import Environment
from catalog.operations import EnvironmentSpec, InfrastructureSpec
from connectors.models import Connector
from web.forms.page_forms import PageForm
from web.forms.resource_forms import IdentifierForm, ResourceForm, ScopedForm
from web.http.problems import Problem

STATIC, DYNAMIC = "STATIC", "DYNAMIC"
PROVISIONING_METHODS = ((STATIC, "Pre-existing"), (DYNAMIC, "Dynamically provisioned"))


class EnvironmentForm(FormWithVariables, ResourceForm):
    """An environment with its variables."""

    kind = forms.ChoiceField(
        label="Type",
        choices=Environment.Kind.choices,
        initial=Environment.Kind.PRE_PRODUCTION,
        help_text="Production or not: shown wherever something is about to be deployed there.",
    )
    pairs = (("name", "identifier", "in_scope", "kind"),)
    field_order = (*pairs[0], "description")

    def spec(self) -> EnvironmentSpec:
        """Return what was entered."""
        given, variables = self.cleaned_data, self.variables.variables()
        return EnvironmentSpec(given["name"], given["description"], given["kind"], variables)


class NewEnvironmentForm(ScopedForm, IdentifierForm, EnvironmentForm):
    """An environment that is not there yet."""


class ConnectorField(forms.ModelChoiceField):
    """A connector that may be used, with the scope it lies in."""

    def label_from_instance(self, obj: Any) -> str:
        return f"{obj.name} ({obj.scope.path})"


def _build_mono_input() -> forms.TextInput:
    return forms.TextInput(attrs={"class": "input mono", "spellcheck": "false", "autocapitalize": "none"})


class InfrastructureForm(PageForm):
    """A place in an environment; the connectors offered are those that the person may use there."""

    name = forms.CharField(max_length=128)
    connector = ConnectorField(
        Connector.objects.none(), empty_label=None, help_text="Whose credentials reach the AWS account."
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
        help_text="An expression, or the name of a region that never changes.",
        widget=_build_mono_input(),
    )
    mapped_cluster = forms.CharField(
        label="Cluster",
        max_length=255,
        required=False,
        initial="<+provisioner.cluster_name>",
        help_text="The output of the provisioner that names the cluster, as <+provisioner.OUTPUT_NAME>.",
        widget=_build_mono_input(),
    )
    version = forms.IntegerField(min_value=1, required=False, widget=forms.HiddenInput)
    depending = frozenset({"region", "cluster", "mapped_region", "mapped_cluster", "method"})
    field_order = ("name", "identifier", "connector", "method", "region", "cluster")

    def __init__(self, *args: Any, connectors: Iterable[Connector], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["connector"]
        if isinstance(field, ConnectorField):
            field.queryset = Connector.objects.filter(pk__in=[one.pk for one in connectors]).select_related(
                "scope"
            )
        region = self.fields["region"]
        if isinstance(region, forms.ChoiceField):
            region.choices = [(one.name, f"{one.name} · {one.title}") for one in list_regions()]

    @property
    def is_dynamic(self) -> bool:
        """Whether region and cluster are mapped to what a provisioner makes (R184)."""
        return bool(self["method"].value() == DYNAMIC)

    def clean(self) -> dict[str, Any]:
        """What either of the methods cannot do without."""
        given = super().clean() or self.cleaned_data
        region, cluster = self._place(given)
        if not cluster:
            self.add_error(self._field("cluster"), "Choose the cluster that services run in.")
        if not region:
            self.add_error(self._field("region"), "Choose the region of the cluster.")
        if region and cluster:
            for field, message in list_field_problems(region, cluster, is_dynamic=self.is_dynamic):
                self.add_error(self._field(field), message)
        return given

    def refuse(self, problem: Problem | ValidationError) -> None:
        """As every form; what is said of region or cluster stands beside the field that is shown."""
        if isinstance(problem, Problem) and self.is_dynamic:
            for error in problem.errors or ():
                error["path"] = self._field(str(error.get("path", "")))
        super().refuse(problem)

    def _field(self, name: str) -> str:
        return f"mapped_{name}" if self.is_dynamic and name in ("region", "cluster") else name

    def _place(self, given: Mapping[str, Any]) -> tuple[str, str]:
        region, cluster = given.get(self._field("region")), given.get(self._field("cluster"))
        return str(region or "").strip(), str(cluster or "").strip()

    def spec(self) -> InfrastructureSpec:
        """What was entered."""
        given = self.cleaned_data
        region, cluster = self._place(given)
        return InfrastructureSpec(
            given["name"], given["connector"], region, cluster, is_dynamic=self.is_dynamic
        )


class NewInfrastructureForm(IdentifierForm, InfrastructureForm):
    """A place that is not there yet."""
