"""Forms of environments and of the infrastructures in them."""

from collections.abc import Iterable
from typing import Any

from django import forms

from aws.regions import regions
from connectors.models import Connector
from deployments.catalog import EnvironmentSpec, InfrastructureSpec
from deployments.forms.resources import InScope, ResourceForm, WithIdentifier
from deployments.models import Environment
from deployments.provisioning import CLUSTER
from web.page_forms import PageForm


class EnvironmentForm(ResourceForm):
    """An environment without its variables and infrastructures."""

    kind = forms.ChoiceField(
        label="Type",
        choices=Environment.Kind.choices,
        initial=Environment.Kind.PRE_PRODUCTION,
        help_text="Production or not: shown wherever something is about to be deployed there.",
    )
    field_order = ("in_scope", "name", "identifier", "kind", "description")

    def spec(self, variables: dict[str, Any]) -> EnvironmentSpec:
        """What was entered."""
        given = self.cleaned_data
        return EnvironmentSpec(given["name"], given["description"], given["kind"], variables)


class NewEnvironmentForm(InScope, WithIdentifier, EnvironmentForm):
    """An environment that is not there yet."""


class ConnectorField(forms.ModelChoiceField):
    """A connector that may be used, with the scope it lies in."""

    def label_from_instance(self, obj: Any) -> str:
        return f"{obj.name} ({obj.scope.path})"


class InfrastructureForm(PageForm):
    """A place in an environment; the connectors offered are those that the person may use there."""

    name = forms.CharField(max_length=128)
    connector = ConnectorField(
        Connector.objects.none(), empty_label=None, help_text="Whose credentials reach the AWS account."
    )
    region = forms.ChoiceField()
    cluster = forms.RegexField(
        regex=CLUSTER,
        error_messages={
            "required": "Choose the cluster that services run in.",
            "invalid": "A cluster's name has letters, digits, - and _, 255 at most; an ARN is not a name.",
        },
        widget=forms.TextInput(
            attrs={"class": "input mono", "spellcheck": "false", "autocapitalize": "none"}
        ),
    )
    version = forms.IntegerField(min_value=1, required=False, widget=forms.HiddenInput)
    field_order = ("name", "identifier", "connector", "region", "cluster")

    def __init__(self, *args: Any, connectors: Iterable[Connector], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["connector"]
        if isinstance(field, ConnectorField):
            field.queryset = Connector.objects.filter(pk__in=[one.pk for one in connectors]).select_related(
                "scope"
            )
        region = self.fields["region"]
        if isinstance(region, forms.ChoiceField):
            region.choices = [(one.name, f"{one.name} · {one.title}") for one in regions()]

    def spec(self) -> InfrastructureSpec:
        """What was entered."""
        given = self.cleaned_data
        return InfrastructureSpec(given["name"], given["connector"], given["region"], given["cluster"])


class NewInfrastructureForm(WithIdentifier, InfrastructureForm):
    """A place that is not there yet."""
