"""Base of connector forms: name, scope, secret and the route of calls."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django import forms
from django.db.models import Q

from connectors.models import Connector, Secret
from connectors.specs.base import DELEGATE, SLIPWAY, ConnectorSpec, parse_tag_list
from rbac.models import Scope
from rbac.policy import Principal, filter_visible
from web.forms.drafts import NewResource
from web.forms.page_forms import PageForm, ScopeField
from web.forms.resource_forms import IdentifierField, IdentifierForm

CONNECTOR_EDIT_PERMISSION = "core_connector_edit"
MONOSPACE_ATTRIBUTES = {"class": "input mono", "spellcheck": "false", "autocapitalize": "none"}


class SecretField(forms.ModelChoiceField):
    """Choice of a secret that the user may use, labeled with its scope."""

    def __init__(self, *, label: str) -> None:
        super().__init__(Secret.objects.none(), required=False, empty_label="Choose a secret", label=label)

    def set_choices(self, person: Principal) -> None:
        """Offer the secrets that the user may use."""
        usable: Any = filter_visible(person, "core_secret_access", Secret.objects.defer("value"))
        self.queryset = usable.select_related("scope").order_by("scope__path", "identifier")

    def label_from_instance(self, obj: Any) -> str:
        return f"{obj.name} ({obj.scope.path}/{obj.identifier})"


class BaseConnectorForm(PageForm):
    """Base form of connectors, with the delegate selection."""

    new_resources: ClassVar[Mapping[str, NewResource]] = {
        "secret": NewResource("secret", "new-secret", "core_secret_edit")
    }
    name = forms.CharField(max_length=128)
    connect_through = forms.ChoiceField(
        label="Connect through",
        choices=[(SLIPWAY, "This Slipway"), (DELEGATE, "A delegate")],
        initial=SLIPWAY,
        required=False,
        widget=forms.RadioSelect,
    )
    delegate_selectors = forms.CharField(
        required=False,
        max_length=3000,
        label="Delegate selectors",
        help_text="Use delegates that have all of these tags, separated by commas. Empty: any delegate of "
        "the scope.",
        widget=forms.TextInput(attrs={**MONOSPACE_ATTRIBUTES, "placeholder": "prod, eu-central"}),
    )

    def set_secret_choices(self, person: Principal) -> None:
        """Offer the secrets that the user may use."""
        field = self.fields["secret"]
        if isinstance(field, SecretField):
            field.set_choices(person)

    def build_route(self) -> dict[str, Any]:
        """Return the delegate selection; tags only if delegates make the calls."""
        through = self.cleaned_data.get("connect_through", "")
        if through != DELEGATE:
            return {"connect_through": through}
        tags = parse_tag_list(self.cleaned_data.get("delegate_selectors", ""))
        return {"connect_through": through, "delegate_selectors": tags}


class NewConnectorFields(IdentifierForm):
    """Additional fields of a new connector."""

    in_scope = ScopeField(help_text="Resources in this scope and below can use the connector.")
    identifier = IdentifierField(
        help_text="Used in pipelines and manifests. Generated from the name if empty."
    )

    def set_scope_choices(self, person: Principal, chosen: Scope | None, among: Q | None) -> None:
        """Offer the scopes where the user may create connectors. Raises `Forbidden` if there are none.

        With `among`, only those that match the condition.
        """
        field = self.fields["in_scope"]
        if isinstance(field, ScopeField):
            field.set_choices(person, CONNECTOR_EDIT_PERMISSION, chosen, among=among)


class ConnectorVersionField(forms.Form):
    """Version of an existing connector when the form was opened."""

    version = forms.CharField(max_length=32, widget=forms.HiddenInput)


def build_initial_values(connector: Connector, spec: ConnectorSpec) -> dict[str, Any]:
    """Return the initial values of a connector's form."""
    return {
        "name": connector.name,
        "connect_through": spec.connect_through,
        "delegate_selectors": ", ".join(spec.delegate_selectors),
        "secret": connector.secret_id,
        "version": get_connector_version(connector),
    }


def get_connector_version(connector: Connector) -> str:
    """Return the version of a connector's state."""
    return f"{connector.updated_at.timestamp():.6f}"
