"""Forms of connectors to HashiCorp Vault."""

from typing import Any

from django import forms
from django.conf import settings
from django.db.models import Q

from connectors.forms.base import (
    MONOSPACE_ATTRIBUTES,
    BaseConnectorForm,
    ConnectorVersionField,
    NewConnectorFields,
    SecretField,
    build_initial_values,
)
from connectors.models import Connector
from connectors.specs.base import SLIPWAY
from connectors.specs.vault import APP_ROLE, AWS_IAM, VAULT_TOKEN, parse_vault_spec
from rbac.models import Scope
from rbac.policy import Principal

_TEXT_FIELDS = ("url", "namespace", "mount", "login_mount", "role_id", "role", "server_id")


class _VaultField(forms.CharField):
    """Short text of a Vault connector."""

    def __init__(
        self, *, label: str, help_text: str = "", placeholder: str = "", required: bool = False
    ) -> None:
        attributes = {**MONOSPACE_ATTRIBUTES, "placeholder": placeholder}
        super().__init__(
            required=required,
            max_length=500,
            label=label,
            help_text=help_text,
            widget=forms.TextInput(attrs=attributes),
        )


class VaultConnectorForm(BaseConnectorForm):
    """Form with the address and login of a Vault server; `spec` is in the format of the connector."""

    conditional_fields = frozenset({"role_id", "role", "secret", "secret_value"})
    kind = Connector.Kind.VAULT

    name = forms.CharField(max_length=128, help_text="Such as “Vault of the platform team”.")
    url = _VaultField(label="Address", placeholder="https://vault.example.com:8200", required=True)
    namespace = _VaultField(label="Namespace", help_text="Only for Vault Enterprise and HCP Vault.")
    mount = _VaultField(label="Mount", help_text="Path of a key-value engine of version 2.")
    authentication = forms.ChoiceField(label="Login", widget=forms.RadioSelect)
    role_id = _VaultField(label="Role ID")
    role = _VaultField(label="Role", help_text="Name of the role of Vault's AWS login.")
    server_id = _VaultField(
        label="Server ID",
        help_text="Value of the header X-Vault-AWS-IAM-Server-ID, if Vault requires it.",
    )
    login_mount = _VaultField(
        label="Mount of the login", help_text="Empty for the usual one: approle or aws."
    )
    secret = SecretField(label="Token or secret ID (stored secret)")
    secret_value = forms.CharField(
        required=False,
        strip=True,
        label="Token or secret ID (new value)",
        help_text="It is stored as a new encrypted secret and never shown again.",
        widget=forms.PasswordInput(attrs={"class": "input mono", "autocomplete": "new-password"}),
    )

    def __init__(
        self, *args: Any, person: Principal, connector: Connector | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, auto_id="connector-%s", initial=_build_initial_values(connector), **kwargs)
        self.set_secret_choices(person)
        logins = self.fields["authentication"]
        if isinstance(logins, forms.ChoiceField):
            logins.choices = _build_logins()

    def spec(self) -> dict[str, Any]:
        """Return the connector's spec with only the fields of its login."""
        data = self.cleaned_data
        names = {"url", "namespace", "mount", "authentication"}
        if data["authentication"] == APP_ROLE:
            names |= {"role_id", "login_mount"}
        elif data["authentication"] == AWS_IAM:
            names |= {"role", "server_id", "login_mount"}
        spec = {name: data[name] for name in sorted(names)} | self.build_route()
        return {name: value for name, value in spec.items() if value}

    @property
    def needs_secret(self) -> bool:
        """Return whether the login uses a token or a secret ID."""
        return parse_vault_spec(self.spec()).needs_secret


class NewVaultConnectorForm(NewConnectorFields, VaultConnectorForm):
    """Form for a new Vault connector."""

    field_order = ("in_scope", "name", "identifier")

    def __init__(
        self, *args: Any, person: Principal, scope: Scope | None, among: Q | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, person=person, **kwargs)
        self.set_scope_choices(person, scope, among)


class EditVaultConnectorForm(ConnectorVersionField, VaultConnectorForm):
    """Form for an existing Vault connector."""


def _build_logins() -> list[tuple[str, str]]:
    logins = [(VAULT_TOKEN, "Token"), (APP_ROLE, "AppRole")]
    if settings.ALLOW_MANAGER_CREDENTIALS:
        logins.append((AWS_IAM, "AWS, with the credentials of Slipway"))
    return logins


def _build_initial_values(connector: Connector | None) -> dict[str, Any]:
    if connector is None:
        return {"authentication": APP_ROLE, "mount": "secret", "connect_through": SLIPWAY}
    spec = parse_vault_spec(connector.spec)
    return {
        **build_initial_values(connector, spec),
        "authentication": spec.authentication,
        **{name: getattr(spec, name) for name in _TEXT_FIELDS},
    }
