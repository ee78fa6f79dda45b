"""Forms of AWS connectors."""

import secrets as randoms
from typing import Any

from django import forms
from django.conf import settings
from django.db.models import Q

from aws.regions import list_regions
from connectors.forms.base import (
    MONOSPACE_ATTRIBUTES,
    BaseConnectorForm,
    ConnectorVersionField,
    NewConnectorFields,
    SecretField,
    build_initial_values,
)
from connectors.models import Connector
from connectors.specs.aws import (
    ACCESS_KEY,
    ASSUME_ROLE,
    DEFAULT_CHAIN,
    DELEGATE_CREDENTIALS,
    WEB_IDENTITY,
    parse_aws_spec,
)
from connectors.specs.base import SLIPWAY
from rbac.models import Scope
from rbac.policy import Principal

_SESSION_FIELDS = ("via_roles", "session_name", "session_tags", "transitive_tag_keys")


class AwsConnectorForm(BaseConnectorForm):
    """Form of an AWS connector; `spec` is in the format of the connector."""

    conditional_fields = frozenset(
        {"role_arn", "access_key_id", "secret", "secret_value", "web_identity_token_file"}
    )

    name = forms.CharField(max_length=128, help_text="For example “Production, Ireland”.")
    credentials = forms.ChoiceField(label="Authentication", widget=forms.RadioSelect)
    role_arn = forms.CharField(
        required=False,
        max_length=600,
        label="Role",
        help_text="The ARN of the role in the account to deploy to.",
        widget=forms.TextInput(
            attrs={**MONOSPACE_ATTRIBUTES, "placeholder": "arn:aws:iam::123456789012:role/deployer"}
        ),
    )
    external_id = forms.CharField(
        required=False,
        max_length=1224,
        label="External ID",
        help_text="Add it to the trust policy of the role so that no other connector can assume the role.",
        widget=forms.TextInput(attrs=MONOSPACE_ATTRIBUTES),
    )
    web_identity_token_file = forms.CharField(
        required=False,
        max_length=500,
        label="Token file",
        help_text="Path of the OIDC token on every worker and web server, or on the delegates that the "
        "connector uses, whose operator allows it with SLIPWAY_DELEGATE_TOKEN_FILES. It is read again for "
        "each session.",
        widget=forms.TextInput(attrs={**MONOSPACE_ATTRIBUTES, "placeholder": "/var/run/secrets/aws/token"}),
    )
    via_roles = forms.CharField(
        required=False,
        max_length=3000,
        label="Roles before it",
        help_text="ARNs of up to four roles that are assumed one after the other before the role above, "
        "separated by commas.",
        widget=forms.TextInput(attrs=MONOSPACE_ATTRIBUTES),
    )
    session_name = forms.CharField(
        required=False,
        max_length=200,
        label="Session name",
        help_text="Shown by CloudTrail. {pipeline} and {execution} are replaced. Empty: slipway.",
        widget=forms.TextInput(attrs={**MONOSPACE_ATTRIBUTES, "placeholder": "slipway-{execution}"}),
    )
    session_tags = forms.CharField(
        required=False,
        max_length=5000,
        label="Session tags",
        help_text="Separated by commas. The trust policy must allow sts:TagSession.",
        widget=forms.TextInput(
            attrs={**MONOSPACE_ATTRIBUTES, "placeholder": "team=shop, pipeline={pipeline}"}
        ),
    )
    transitive_tag_keys = forms.CharField(
        required=False,
        max_length=3000,
        label="Transitive tag keys",
        help_text="Keys of tags that the roles of the chain inherit, separated by commas.",
        widget=forms.TextInput(attrs={**MONOSPACE_ATTRIBUTES, "placeholder": "team"}),
    )
    access_key_id = forms.CharField(
        required=False,
        max_length=128,
        label="Access key ID",
        widget=forms.TextInput(attrs={**MONOSPACE_ATTRIBUTES, "placeholder": "AKIAIOSFODNN7EXAMPLE"}),
    )
    secret = SecretField(label="Secret access key (stored secret)")
    secret_value = forms.CharField(
        required=False,
        strip=True,
        label="Secret access key (new value)",
        help_text="It is stored as a new encrypted secret and never shown again.",
        widget=forms.PasswordInput(attrs={"class": "input mono", "autocomplete": "new-password"}),
    )
    session_token = SecretField(label="Session token (stored secret)")
    test_region = forms.ChoiceField(label="Test region")
    endpoint_url = forms.CharField(
        required=False,
        max_length=200,
        label="Custom endpoint",
        help_text="The endpoint of an AWS emulator, such as the sandbox. Empty for AWS.",
        widget=forms.TextInput(attrs=MONOSPACE_ATTRIBUTES),
    )

    def __init__(self, *args: Any, person: Principal, connector: Connector | None = None, **kwargs: Any):
        initial = kwargs.pop("initial", {})
        super().__init__(
            *args, auto_id="connector-%s", initial=_build_initial_values(connector) | initial, **kwargs
        )
        self._set_choices(person)
        if not settings.ALLOW_AWS_ENDPOINTS:
            del self.fields["endpoint_url"]
        self.allows_manager_credentials = bool(settings.ALLOW_MANAGER_CREDENTIALS)

    def _set_choices(self, person: Principal) -> None:
        self.set_secret_choices(person)
        token = self.fields["session_token"]
        token.help_text = "Only for a temporary access key, whose ID starts with ASIA."
        if isinstance(token, SecretField):
            token.set_choices(person)
        credentials, region = self.fields["credentials"], self.fields["test_region"]
        if isinstance(credentials, forms.ChoiceField):
            credentials.choices = _build_credential_choices()
        if isinstance(region, forms.ChoiceField):
            region.choices = [
                (region_info.name, f"{region_info.name} – {region_info.title}")
                for region_info in list_regions()
            ]

    def spec(self) -> dict[str, Any]:
        """Return the connector's spec with only the fields of its authentication."""
        way = self.cleaned_data["credentials"]
        names = ["test_region", "endpoint_url"]
        if way in (ACCESS_KEY, ASSUME_ROLE):
            names.append("access_key_id")
        if way in (ASSUME_ROLE, WEB_IDENTITY):
            names += ["role_arn", "external_id", *_SESSION_FIELDS]
        if way == WEB_IDENTITY:
            names.append("web_identity_token_file")
        spec = {name: self.cleaned_data.get(name, "") for name in names} | self.build_route()
        return {"credentials": way, **{name: value for name, value in spec.items() if value}}

    @property
    def needs_secret(self) -> bool:
        """Return whether the authentication uses an access key."""
        return parse_aws_spec(self.spec()).needs_secret

    @property
    def removes_session_token(self) -> bool:
        """Return whether the user was offered the present session token, and selected none."""
        field, current = self.fields["session_token"], self.initial.get("session_token")
        offered = field.queryset if isinstance(field, SecretField) else None
        is_offered = offered is not None and offered.filter(pk=current).exists()
        is_empty = self.add_prefix("session_token") in self.data and not self.cleaned_data["session_token"]
        return is_offered and is_empty


class NewAwsConnectorForm(NewConnectorFields, AwsConnectorForm):
    """Form for a new AWS connector."""

    field_order = ("in_scope", "name", "identifier")

    def __init__(
        self,
        *args: Any,
        person: Principal,
        scope: Scope | None,
        among: Q | None = None,
        **kwargs: Any,
    ) -> None:
        begun = {"credentials": ASSUME_ROLE, "external_id": f"slipway-{randoms.token_hex(8)}"}
        super().__init__(*args, person=person, initial=begun, **kwargs)
        self.set_scope_choices(person, scope, among)


def _build_credential_choices() -> list[tuple[str, str]]:
    choices = [
        (ASSUME_ROLE, "Assume a role"),
        (ACCESS_KEY, "Access key"),
        (WEB_IDENTITY, "Web identity (OIDC)"),
        (DELEGATE_CREDENTIALS, "Delegate credentials"),
    ]
    if settings.ALLOW_MANAGER_CREDENTIALS:
        choices.append((DEFAULT_CHAIN, "Slipway credentials"))
    return choices


def _build_initial_values(connector: Connector | None) -> dict[str, Any]:
    if connector is None:
        return {"test_region": "us-east-1", "connect_through": SLIPWAY}
    spec = parse_aws_spec(connector.spec)
    return {
        **build_initial_values(connector, spec),
        "credentials": spec.credentials,
        "role_arn": spec.role_arn,
        "external_id": spec.external_id,
        "access_key_id": spec.access_key_id,
        "web_identity_token_file": spec.web_identity_token_file,
        **spec.session_texts,
        "session_token": connector.session_token_id,
        "test_region": spec.test_region,
        "endpoint_url": spec.endpoint_url,
    }


class EditAwsConnectorForm(ConnectorVersionField, AwsConnectorForm):
    """Form for an existing AWS connector."""
