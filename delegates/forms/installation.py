"""Forms of the install wizard, of a delegate's setup, and of another token for a spec."""

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Final

from django import forms
from django.db.models import Q
from django.http import QueryDict
from django.urls import reverse_lazy

from aws.policies import POLICIES
from aws.regions import list_regions
from connectors.specs.aws import parse_aws_spec
from delegates.install.wizard import SIZES, WizardAnswers
from delegates.models import DelegateConfiguration, DelegateToken
from delegates.queries.aws_connectors import list_aws_connectors
from delegates.queries.delegates import list_usable_tokens
from rbac.models import Scope
from rbac.policy import Principal, filter_visible
from web.forms.drafts import NewResource
from web.forms.page_forms import PageForm, ScopeField

MAX_TOKEN_CHOICES = 200
DEFAULT_USES = ("ecs", "tags", "deployments", "logs")
# Names of checkboxes beside the text field of the same values.
LISTED_PREFIX = "listed_"
TARGET_CHOICES = (
    ("FARGATE", "ECS on Fargate"),
    ("EC2", "ECS on EC2"),
    ("DOCKER", "Docker on a virtual machine"),
    ("COMPOSE", "Docker Compose"),
    ("KUBERNETES", "Kubernetes"),
    ("SHELL_SCRIPT", "systemd on a Linux machine"),
)
FLAVOUR_CHOICES = (("v3", "v3, recommended"), ("legacy", "Legacy, with the older variable names"))
SECRET_CHOICES = (
    ("CREATE", "New Secrets Manager secret"),
    ("EXISTING", "Existing Secrets Manager secret"),
    ("PLAINTEXT", "Plain text in the task definition"),
)
MODE_CHOICES = (("", "bridge"), ("host", "host"), ("awsvpc", "awsvpc"))
SCHEME_CHOICES = (("http", "http"), ("https", "https"))


class WordListInput(forms.TextInput):
    """Text input of words; the checkboxes of listed choices add theirs."""

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        typed = super().value_from_datadict(data, files, name)
        ticked = data.getlist(f"{LISTED_PREFIX}{name}") if isinstance(data, QueryDict) else []
        return " ".join([*ticked, typed or ""]).strip() if ticked else typed


class WordListField(forms.CharField):
    """Field of words separated by commas, spaces or line ends."""

    def __init__(self, **options: Any) -> None:
        attrs = {"class": "input mono", "spellcheck": "false", "autocapitalize": "none"}
        super().__init__(
            **{"required": False, "max_length": 4096, "widget": WordListInput(attrs=attrs), **options}
        )

    def to_python(self, value: Any) -> Any:
        return tuple(
            dict.fromkeys(word for word in re.split(r"[\s,]+", str(super().to_python(value))) if word)
        )


def build_monospace_field(**options: Any) -> forms.CharField:
    """Return a field for an identifier, in a monospace font."""
    attrs = {"class": "input mono", "spellcheck": "false", "autocapitalize": "none"}
    settled = {"required": False, "max_length": 1024, "widget": forms.TextInput(attrs=attrs), **options}
    return forms.CharField(**settled)


def build_choice_field(label: str, choices: Any, help_text: str = "") -> forms.ChoiceField:
    return forms.ChoiceField(label=label, choices=choices, required=False, help_text=help_text)


_ECS_TARGETS: Final = ("FARGATE", "EC2")
# Answers that only the files for ECS use; the form hides them for other targets.
_ECS_FIELDS: Final = frozenset(
    {"mirrors_image", "region", "aws_account_id", "network_mode", "vpc", "subnets", "security_groups"}
    | {"assign_public_ip", "uses", "task_role", "execution_role", "secret_kind", "secret_name", "secret_arn"}
    | {"cluster", "log_group", "proxy_secret", "ca_secret"}
)
_PROXY_FIELDS: Final = frozenset({"proxy_port", "proxy_scheme", "proxy_user", "proxy_secret"})


class DelegateSetupForm(PageForm):
    """Form of the answers that decide a delegate's files; every field has a default."""

    conditional_fields = frozenset(("secret_arn", "size", "region", "flavour", "target"))
    # Whether the page fills empty fields with what a connector lists: of a new delegate alone.
    chooses = False

    target = forms.ChoiceField(
        label="Launch type", choices=TARGET_CHOICES, widget=forms.RadioSelect, initial="FARGATE"
    )
    flavour = forms.ChoiceField(
        label="Flavour", choices=FLAVOUR_CHOICES, widget=forms.RadioSelect, initial="v3"
    )
    image = build_monospace_field(
        label="Image", max_length=500, help_text="Empty for the image of this release."
    )
    mirrors_image = forms.BooleanField(
        label="Mirror the image to Amazon ECR",
        required=False,
        help_text="Tasks pull from the registry of their account. One without a registry is always mirrored.",
    )
    size = build_choice_field("Size", ())
    region = build_choice_field("Region", ())
    connector = build_choice_field(
        "Connector to list resources",
        (),
        "VPCs, subnets, security groups, clusters and roles are then chosen from lists. It is not stored.",
    )
    vpc = build_monospace_field(label="VPC", max_length=64, help_text="Lists its subnets and groups.")
    aws_account_id = build_monospace_field(
        label="AWS account ID", max_length=12, help_text="12 digits; a placeholder is used if empty."
    )
    subnets = WordListField(
        label="Subnets", help_text="Subnet IDs. Use two Availability Zones for high availability."
    )
    security_groups = WordListField(
        label="Security groups",
        help_text="They must allow outbound HTTPS (443) and the ports that steps need.",
    )
    assign_public_ip = forms.BooleanField(
        label="Assign public IP",
        required=False,
        initial=True,
        help_text="With a public IP the subnets must be public; without, private with a NAT gateway.",
    )
    network_mode = build_choice_field(
        "Network mode",
        MODE_CHOICES,
        "host uses the network of the instance, awsvpc one interface for each task.",
    )
    secret_kind = build_choice_field("Token storage", SECRET_CHOICES)
    secret_name = build_monospace_field(
        label="Name of the new secret",
        help_text="Empty for slipway/delegates/ with the name of the delegate.",
    )
    secret_arn = build_monospace_field(
        label="ARN of the secret", help_text="For an existing secret; its value is only the token."
    )
    hostname = build_monospace_field(
        label="Hostname",
        help_text="Not supported on Fargate, and on EC2 only with bridge: otherwise it is omitted.",
    )
    cluster = build_monospace_field(label="Cluster")
    log_group = build_monospace_field(label="Log group")
    execution_role = build_monospace_field(
        label="Execution role",
        help_text="Empty for ecsTaskExecutionRole, which pulls the image.",
    )
    uses = forms.MultipleChoiceField(
        label="What is the delegate for?",
        choices=[(policy.identifier, policy.title) for policy in POLICIES],
        widget=forms.CheckboxSelectMultiple,
        required=False,
        initial=DEFAULT_USES,
        help_text="A new task role gets the permissions for these. Clear all if connectors have credentials.",
    )
    task_role = build_monospace_field(
        label="Task role",
        help_text="One that exists. Empty for a new one, slipway- with the name of the delegate.",
    )
    proxy_host = build_monospace_field(
        label="Proxy", help_text="A host name or IP address, without scheme and port."
    )
    proxy_port = forms.IntegerField(label="Proxy port", required=False, initial=3128)
    proxy_scheme = build_choice_field("Proxy scheme", SCHEME_CHOICES)
    proxy_user = build_monospace_field(
        label="Proxy user", help_text="Add the password to the files yourself: it is not stored here."
    )
    no_proxy = WordListField(label="No proxy for")
    ca_path = build_monospace_field(
        label="Certificates to trust", help_text="The path of a PEM file in the container, for a private CA."
    )
    ca_host_path = build_monospace_field(
        label="CA file on the host", help_text="It is mounted into the container."
    )

    ca_secret = build_monospace_field(
        label="Secret with certificates to trust",
        help_text="Its ARN; the value is the PEM text of a private CA.",
    )
    proxy_secret = build_monospace_field(
        label="Secret with the proxy password",
        help_text="Its ARN; the value is the password of the proxy user.",
    )

    def __init__(self, *args: Any, person: Principal, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="delegate-%s", **kwargs)
        self.person = person
        self._set_choices("size", [("", "Default"), *((s.identifier, s.name) for s in SIZES.values())])
        self._set_choices(
            "region", [(region.name, f"{region.name} ({region.title})") for region in list_regions()]
        )
        self._set_choices("connector", [("", "None, enter text"), *self._list_connector_choices()])
        self.fields["size"].initial, self.fields["region"].initial = "laptop", "us-east-1"
        self.lists = False

    def _set_choices(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        if isinstance(field, forms.ChoiceField):
            field.choices = choices

    def _list_connector_choices(self) -> list[tuple[str, str]]:
        return [
            (str(connector.pk), f"{connector.name} in {connector.scope.path}")
            for connector in list_aws_connectors(self.person)[:MAX_TOKEN_CHOICES]
        ]

    def clean_proxy_port(self) -> int:
        return int(self.cleaned_data["proxy_port"] or 3128)

    @property
    def build_answers(self) -> WizardAnswers:
        """Return the wizard answers."""
        data = self.cleaned_data
        values = {field.name: data[field.name] for field in fields(WizardAnswers)}
        if data["target"] not in _ECS_TARGETS:
            # Filled in from the connector and hidden: the delegate may have credentials of another account.
            values["aws_account_id"] = ""
        return WizardAnswers(**values | {"uses": tuple(data["uses"])})


class NewDelegateForm(DelegateSetupForm):
    """Form of the delegate wizard; every field except the name has a default."""

    new_resources: ClassVar[Mapping[str, NewResource]] = {
        "configuration": NewResource(
            "configuration", "new-delegate-configuration", "core_delegateconfiguration_edit"
        )
    }
    conditional_fields = DelegateSetupForm.conditional_fields | {"token", "configuration"}
    chooses = True

    in_scope = ScopeField(help_text="Tasks in this scope and below can use the delegate.")
    name = forms.CharField(
        max_length=128,
        help_text="Delegates with the same name are instances of one delegate.",
        # Checked while it is typed, by the rule that creates it.
        widget=forms.TextInput(
            attrs={
                "class": "input",
                "autocapitalize": "none",
                "hx-get": reverse_lazy("check-delegate-name"),
                "hx-trigger": "input changed delay:300ms",
                "hx-include": "closest form",
                "hx-params": "name,in_scope",
                "hx-target": "#name-check",
            }
        ),
    )
    tags = WordListField(
        label="Tags",
        help_text="Separate with commas or spaces. Connectors and steps select delegates by tags.",
    )
    token = build_choice_field(
        "Token", (), "The delegate registers with this token. You can revoke each token separately."
    )
    configuration = build_choice_field("Configuration", (), "Its script runs when the delegate starts.")

    def __init__(
        self,
        *args: Any,
        person: Principal,
        permission: str,
        scope: Scope | None,
        among: Q | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, person=person, **kwargs)
        field = self.fields["in_scope"]
        if isinstance(field, ScopeField):
            field.set_choices(person, permission, scope, among=among)
        self._set_choices(
            "token", [("", "Create a new token for this delegate"), *self._list_token_choices()]
        )
        self._set_choices(
            "configuration", [("", "Primary configuration"), *self._list_configuration_choices()]
        )
        self._choose_connector()

    def _choose_connector(self) -> None:
        """Choose the only connector, if it answers without a delegate, with its region."""
        connectors = list(list_aws_connectors(self.person)[:2])
        spec = parse_aws_spec(connectors[0].spec) if len(connectors) == 1 else None
        if spec is None or spec.is_remote:
            return
        self.lists = True
        self.fields["connector"].initial = str(connectors[0].pk)
        self.fields["region"].initial = spec.test_region

    def _list_token_choices(self) -> list[tuple[str, str]]:
        return [
            (str(token.pk), f"{token.name} in {token.scope.path}")
            for token in list_usable_tokens(self.person)[:MAX_TOKEN_CHOICES]
        ]

    def _list_configuration_choices(self) -> list[tuple[str, str]]:
        rows = DelegateConfiguration.objects.filter(is_primary=False).defer("script").select_related("scope")
        visible = filter_visible(self.person, "core_delegateconfiguration_view", rows)
        return [
            (str(configuration.pk), f"{configuration.name} in {configuration.scope.path}")
            for configuration in visible.order_by("name")[:MAX_TOKEN_CHOICES]
        ]

    @property
    def chosen_token(self) -> DelegateToken | None:
        pk = self.cleaned_data["token"]
        return list_usable_tokens(self.person).get(pk=pk) if pk else None

    @property
    def chosen_configuration(self) -> DelegateConfiguration | None:
        pk = self.cleaned_data["configuration"]
        return DelegateConfiguration.objects.select_related("scope").get(pk=pk) if pk else None


def describe_answers(stored: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Return the stored answers that the files use, with the labels of the form; empty ones are left out."""
    unused = frozenset() if stored.get("target") in _ECS_TARGETS else _ECS_FIELDS
    if not stored.get("proxy_host"):
        unused |= _PROXY_FIELDS
    return [
        (str(field.label), [_describe_answer(field, value) for value in _list_values(stored[name])])
        for name, field in NewDelegateForm.base_fields.items()
        if name in stored and name not in unused and stored[name] not in ("", None, [])
    ]


def _list_values(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _describe_answer(field: forms.Field, value: Any) -> str:
    if isinstance(value, bool):
        return "Yes" if value else "No"
    choices: Any = field.choices if isinstance(field, forms.ChoiceField) else ()
    return str(dict(choices).get(value, value))


class ChangeTokenForm(PageForm):
    """Form to replace the token in the spec of a delegate."""

    conditional_fields = frozenset({"token"})

    token = build_choice_field("Token", ())

    def __init__(self, *args: Any, person: Principal, scope: Scope, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="change-%s", **kwargs)
        self.offered = list_usable_tokens(person, scope)
        field = self.fields["token"]
        if isinstance(field, forms.ChoiceField):
            named = [(str(token.pk), token.name) for token in self.offered[:MAX_TOKEN_CHOICES]]
            field.choices = [("", "Create a new token for this delegate"), *named]

    @property
    def chosen(self) -> DelegateToken | None:
        pk = self.cleaned_data["token"]
        return self.offered.get(pk=pk) if pk else None
