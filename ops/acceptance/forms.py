"""Form of a new acceptance run."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from django import forms

from aws.regions import list_regions
from catalog.forms.environments import ConnectorField
from connectors.models import Connector
from ops.acceptance.operations import AcceptanceSpec
from ops.acceptance.targets import DEFAULT_IMAGE, BlueGreenTarget
from rbac.models import Scope
from web.forms.drafts import NewResource
from web.forms.page_forms import PageForm

LOAD_BALANCING = ("load_balancer", "prod_listener", "prod_rule", "stage_listener", "stage_rule")


class _OrganizationField(forms.ModelChoiceField):  # type: ignore[type-arg]
    def label_from_instance(self, obj: Any) -> str:
        return str(obj.name)


def _build_code_field(
    label: str, help_text: str = "", *, initial: str = "", required: bool = False
) -> forms.CharField:
    widget = forms.TextInput(attrs={"class": "input mono", "spellcheck": "false", "autocapitalize": "none"})
    return forms.CharField(
        label=label, help_text=help_text, max_length=500, required=required, initial=initial, widget=widget
    )


class AcceptanceRunForm(PageForm):
    """Place of a run, with the connectors that the user may use; `build_spec` returns its request."""

    connector = ConnectorField(
        Connector.objects.none(),
        empty_label=None,
        help_text="An AWS connector that Slipway connects directly, without a delegate.",
    )
    region = forms.ChoiceField()
    cluster = _build_code_field("Cluster", required=True)
    organization = _OrganizationField(
        Scope.objects.none(),
        required=False,
        empty_label="The project of the connector",
        help_text="For a connector of the account: the organization that gets a project for the run.",
    )
    subnets = _build_code_field(
        "Subnets", "Separate IDs with commas. Without them, those of a service of the cluster."
    )
    security_groups = _build_code_field(
        "Security groups", "Separate IDs with commas. Without them, those of a service of the cluster."
    )
    has_public_ip = forms.BooleanField(
        label="Assign public IP",
        required=False,
        initial=True,
        help_text="Clear it for subnets with a NAT gateway.",
    )
    image = _build_code_field(
        "Image",
        "An nginx with a shell, with its tag. The tag nopull must not exist in its repository.",
        required=True,
        initial=DEFAULT_IMAGE,
    )
    execution_role = _build_code_field("Task execution role", "ARN of the role that pulls a private image.")
    load_balancer = _build_code_field(
        "Load balancer",
        "ARN. Adds blue/green deployments, which swap the rules of two listeners and leave them swapped.",
    )
    prod_listener = _build_code_field("Production listener", "ARN.")
    prod_rule = _build_code_field("Production rule", "ARN. Without it, the default rule.")
    stage_listener = _build_code_field("Stage listener", "ARN.")
    stage_rule = _build_code_field("Stage rule", "ARN. Without it, the default rule.")
    pairs = (
        ("subnets", "security_groups"),
        ("image", "execution_role"),
        ("prod_listener", "prod_rule"),
        ("stage_listener", "stage_rule"),
    )
    new_resources: ClassVar[Mapping[str, NewResource]] = {
        "connector": NewResource(
            "connector", "new-connector", "core_connector_edit", kinds=(Connector.Kind.AWS,)
        )
    }

    def __init__(
        self, *args: Any, connectors: Iterable[Connector], organizations: Iterable[Scope], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        usable = Connector.objects.filter(pk__in=[connector.pk for connector in connectors])
        self.fields["connector"].queryset = usable.select_related("scope", "secret")  # type: ignore[attr-defined]
        named = Scope.objects.filter(pk__in=[scope.pk for scope in organizations])
        self.fields["organization"].queryset = named.order_by("name")  # type: ignore[attr-defined]
        regions = [(item.name, f"{item.name} · {item.title}") for item in list_regions()]
        self.fields["region"].choices = regions  # type: ignore[attr-defined]

    def build_spec(self) -> AcceptanceSpec:
        """Build the request from the submitted values."""
        data = self.cleaned_data
        balancing = {name: data[name].strip() for name in LOAD_BALANCING}
        return AcceptanceSpec(
            connector=data["connector"],
            cluster=data["cluster"].strip(),
            region=data["region"],
            subnets=split_ids(data["subnets"]),
            security_groups=split_ids(data["security_groups"]),
            image=data["image"].strip(),
            execution_role=data["execution_role"].strip(),
            has_public_ip=data["has_public_ip"],
            organization=data["organization"],
            blue_green=BlueGreenTarget(**balancing) if any(balancing.values()) else None,
        )


def split_ids(text: str) -> tuple[str, ...]:
    """Return the IDs in a text with commas."""
    return tuple(filter(None, (part.strip() for part in text.split(","))))
