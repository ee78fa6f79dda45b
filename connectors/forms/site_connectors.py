"""Forms of connectors to Git servers, Docker registries and Terraform Cloud."""

from typing import Any

from django import forms
from django.db.models import Q

from connectors.forms.base import (
    MONOSPACE_ATTRIBUTES,
    BaseConnectorForm,
    ConnectorVersionField,
    NewConnectorFields,
    SecretField,
    build_initial_values,
)
from connectors.forms.secrets import SecretTextarea
from connectors.models import Connector
from connectors.specs.base import SLIPWAY
from connectors.specs.sites import ANONYMOUS, PASSWORD, SSH_KEY, TOKEN, parse_site_spec
from rbac.models import Scope
from rbac.policy import Principal

_AUTHENTICATION_CHOICES = {
    Connector.Kind.GIT: [
        (ANONYMOUS, "Anonymous"),
        (PASSWORD, "User name and token"),
        (SSH_KEY, "SSH key"),
    ],
    Connector.Kind.DOCKER_REGISTRY: [(ANONYMOUS, "Anonymous"), (PASSWORD, "User name and password")],
    Connector.Kind.TERRAFORM_CLOUD: [(TOKEN, "API token")],
}
_FIELD_TEXTS = {
    Connector.Kind.GIT: (
        "Such as https://github.com/team/app.git, ssh://git@example.com/team/app.git, or "
        "https://github.com/team for all repositories of an account.",
        "https://github.com/team/app.git",
        "Test repository",
        "Only for the URL of an account, such as app.git.",
    ),
    Connector.Kind.DOCKER_REGISTRY: (
        "Such as https://registry.hub.docker.com/v2/ for Docker Hub.",
        "https://registry.hub.docker.com/v2/",
        "Test image path",
        "Such as library/nginx. Empty: the test only connects to the registry.",
    ),
    Connector.Kind.TERRAFORM_CLOUD: (
        "https://app.terraform.io or the URL of your Terraform Enterprise.",
        "https://app.terraform.io",
        "",
        "",
    ),
}


class SiteConnectorForm(BaseConnectorForm):
    """Form with the location and authentication of a Git server, a registry or Terraform Cloud.

    `spec` is in the format of the connector.
    """

    conditional_fields = frozenset({"username", "secret", "secret_value", "host_key", "test_repository"})

    name = forms.CharField(max_length=128, help_text="Such as “Team repositories”.")
    url = forms.CharField(max_length=500, label="URL", widget=forms.TextInput(attrs=MONOSPACE_ATTRIBUTES))
    authentication = forms.ChoiceField(label="Authentication", widget=forms.RadioSelect)
    username = forms.CharField(
        required=False, max_length=255, label="User name", widget=forms.TextInput(attrs=MONOSPACE_ATTRIBUTES)
    )
    secret = SecretField(label="Token, password or private key (stored secret)")
    secret_value = forms.CharField(
        required=False,
        strip=True,
        max_length=65_536,
        label="Token, password or private key (new value)",
        help_text="It is stored as a new encrypted secret and never shown again.",
        widget=SecretTextarea(
            attrs={
                "class": "input mono secret-value",
                "rows": 3,
                "autocomplete": "off",
                "spellcheck": "false",
            }
        ),
    )
    host_key = forms.CharField(
        required=False,
        max_length=10_000,
        label="Host keys",
        help_text="The output of ssh-keyscan, one key per line. Empty: the key of the first connection is "
        "stored.",
        widget=forms.Textarea(
            attrs={
                **MONOSPACE_ATTRIBUTES,
                "class": "input mono lines",
                "rows": 3,
                "placeholder": "ssh-ed25519 AAAA…",
            }
        ),
    )
    test_repository = forms.CharField(
        required=False, max_length=255, widget=forms.TextInput(attrs=MONOSPACE_ATTRIBUTES)
    )

    def __init__(
        self, *args: Any, person: Principal, kind: str, connector: Connector | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, auto_id="connector-%s", initial=_build_initial_values(connector), **kwargs)
        self.kind = Connector.Kind(kind)
        self.set_secret_choices(person)
        ways = self.fields["authentication"]
        if isinstance(ways, forms.ChoiceField):
            ways.choices = _AUTHENTICATION_CHOICES[self.kind]
        help_text, placeholder, label, about = _FIELD_TEXTS[self.kind]
        self.fields["url"].help_text = help_text
        self.fields["url"].widget.attrs["placeholder"] = placeholder
        self.fields["test_repository"].label, self.fields["test_repository"].help_text = label, about
        if self.kind == Connector.Kind.TERRAFORM_CLOUD:
            for name in ("username", "host_key", "test_repository"):
                del self.fields[name]
            self._require_token(connector)

    def _require_token(self, connector: Connector | None) -> None:
        """Restrict the authentication to a token."""
        if connector is None:
            self.initial["authentication"] = TOKEN
        self.fields["name"].help_text = "Such as “Terraform of the platform team”."
        self.fields["secret"].label = "API token (stored secret)"
        self.fields["secret_value"].label = "API token (new value)"

    def spec(self) -> dict[str, Any]:
        """Return the connector's spec with only the fields of its authentication."""
        data = self.cleaned_data
        names = ["url", "authentication", "test_repository"]
        if data["authentication"] == PASSWORD:
            names.append("username")
        spec = {name: data.get(name, "") for name in names} | self.build_route()
        if data["authentication"] == SSH_KEY:
            spec["host_key"] = data.get("host_key", "")
        return {name: value for name, value in spec.items() if value}

    @property
    def needs_secret(self) -> bool:
        """Return whether the authentication uses a password, token or key."""
        return parse_site_spec(self.spec()).needs_secret


class NewSiteConnectorForm(NewConnectorFields, SiteConnectorForm):
    """Form for a new site connector."""

    field_order = ("in_scope", "name", "identifier")

    def __init__(
        self,
        *args: Any,
        person: Principal,
        kind: str,
        scope: Scope | None,
        among: Q | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, person=person, kind=kind, **kwargs)
        self.set_scope_choices(person, scope, among)


class EditSiteConnectorForm(ConnectorVersionField, SiteConnectorForm):
    """Form for an existing site connector."""


def _build_initial_values(connector: Connector | None) -> dict[str, Any]:
    if connector is None:
        return {"connect_through": SLIPWAY, "authentication": ANONYMOUS}
    site = parse_site_spec(connector.spec)
    return {
        **build_initial_values(connector, site),
        "url": site.url,
        "authentication": site.authentication,
        "username": site.username,
        "host_key": site.host_key,
        "test_repository": site.test_repository,
    }
