"""Forms of services and their artifact."""

from dataclasses import replace
from typing import Any

from django import forms

from catalog.artifacts.image_sources import DOCKER_REGISTRY, ECR, SOURCE_CONNECTOR_KINDS
from catalog.forms.manifests import NEW_CONNECTOR, build_manifest_formset, get_manifest_resource
from catalog.forms.variables import FormWithVariables
from catalog.models import Service
from catalog.operations import IMAGE_PATTERN, TAG_PATTERN, ManifestSpec, ServiceSpec
from guards.limits import PATTERN_CHARACTERS
from web.forms.drafts import NewResource
from web.forms.resource_forms import IdentifierForm, ResourceForm, ScopedForm

_MONO_ATTRIBUTES = {"class": "input mono", "spellcheck": "false", "autocapitalize": "none"}


SOURCE_FIELDS = {
    "type": "source_type",
    "connector": "source_connector",
    "imagePath": "source_path",
    "region": "source_region",
    "tagPattern": "tag_pattern",
}


class ServiceForm(FormWithVariables, ResourceForm):
    """A service with its manifests and variables."""

    image = forms.RegexField(
        regex=IMAGE_PATTERN,
        required=False,
        help_text="Such as public.ecr.aws/nginx/nginx, without a tag. Manifests refer to it as "
        "<+primary.artifact.image>.",
        error_messages={
            "invalid": ("Enter an image without spaces, such as nginx or public.ecr.aws/nginx/nginx.")
        },
        widget=forms.TextInput(attrs=_MONO_ATTRIBUTES),
    )
    tag = forms.RegexField(
        regex=TAG_PATTERN,
        required=False,
        label="Default tag",
        help_text="Prefilled in the run form; latest if empty.",
        error_messages={"invalid": "Use up to 128 letters, digits, dots, dashes and underscores."},
        widget=forms.TextInput(attrs=_MONO_ATTRIBUTES),
    )

    source_type = forms.ChoiceField(
        required=False,
        label="Registry for tag lookup",
        choices=[("", "None"), (DOCKER_REGISTRY, "A container registry"), (ECR, "Amazon ECR")],
        help_text="Each run then pins the digest of the tag.",
    )
    source_connector = forms.CharField(
        required=False,
        max_length=128,
        label="Connector of the registry",
        help_text="The connector identifier; for ECR an AWS connector.",
        widget=forms.TextInput(attrs=_MONO_ATTRIBUTES | {"list": "store-connectors"}),
    )
    source_path = forms.CharField(
        required=False,
        max_length=255,
        label="Image path",
        help_text="The repository in the registry, such as library/nginx.",
        widget=forms.TextInput(attrs=_MONO_ATTRIBUTES),
    )
    source_region = forms.CharField(
        required=False,
        max_length=64,
        label="Region of ECR",
        widget=forms.TextInput(attrs=_MONO_ATTRIBUTES | {"placeholder": "us-east-1"}),
    )
    tag_pattern = forms.CharField(
        required=False,
        max_length=int(PATTERN_CHARACTERS) + 2,
        label="Tag pattern",
        help_text="Such as 1.27.* or, as a regular expression, /1\\.27\\.[0-9]+/. A run without a tag uses "
        "the highest match.",
        widget=forms.TextInput(attrs=_MONO_ATTRIBUTES),
    )

    def __init__(self, data: Any = None, files: Any = None, **kwargs: Any) -> None:
        super().__init__(data, files, **kwargs)
        self.manifests = build_manifest_formset(data, self.initial.get("manifests", ()))
        self.fields["source_connector"].new_resource = NEW_CONNECTOR  # type: ignore[attr-defined]

    def list_new_resources(self) -> list[NewResource]:
        """Return the connectors that images and manifests name."""
        return [NEW_CONNECTOR]

    def get_new_resource(self, name: str) -> NewResource | None:
        """Return the connector that can be created for the image or for a manifest."""
        if name != "source_connector":
            return get_manifest_resource(self.data, name)
        kind = SOURCE_CONNECTOR_KINDS.get(self["source_type"].value() or "")
        return replace(NEW_CONNECTOR, kinds=(kind,) if kind else tuple(SOURCE_CONNECTOR_KINDS.values()))

    def is_valid(self) -> bool:
        """Validate the fields and all rows, so that all mistakes are shown at once."""
        return super().is_valid() & self.manifests.is_valid()

    @property
    def http_status(self) -> int:
        """Return the status of a page with this form: 400 if an entered value was refused."""
        return 400 if self.is_bound and not self.manifests.is_valid() else super().http_status

    def build_source(self) -> dict[str, str]:
        """Build the image source that the artifact stores."""
        data = self.cleaned_data
        if not data["source_type"]:
            return {}
        fields = {key: data[field] for key, field in SOURCE_FIELDS.items()}
        if data["source_type"] != ECR:
            del fields["region"]
        return {key: value for key, value in fields.items() if value}

    def build_spec(self) -> ServiceSpec:
        """Build the spec from the submitted values."""
        data = self.cleaned_data
        return ServiceSpec(
            name=data["name"],
            description=data["description"],
            variables=self.variables.variables(),
            required_variables=self.variables.required(),
            image=data["image"],
            tag=data["tag"] or "latest",
            source=self.build_source(),
            manifests=self.manifests.build_specs(),
        )


class NewServiceForm(ScopedForm, IdentifierForm, ServiceForm):
    """Form for a new service."""


def build_service_spec(service: Service) -> ServiceSpec:
    """Build the spec of a stored service."""
    artifact = getattr(service, "artifact", None)
    return ServiceSpec(
        name=service.name,
        description=service.description,
        variables=service.variables,
        required_variables=service.required_variables,
        image=artifact.image if artifact else "",
        tag=artifact.tag if artifact else "latest",
        source=artifact.source if artifact else {},
        manifests=[
            ManifestSpec(
                manifest.identifier,
                manifest.kind,
                manifest.store,
                tuple(manifest.paths),
                manifest.content,
                place=manifest.place,
            )
            for manifest in service.manifests.order_by("pk")
        ],
    )


def build_service_values(spec: ServiceSpec) -> dict[str, Any]:
    """Build the initial values of a service form."""
    names = ("name", "description", "image", "tag", "manifests", "variables", "required_variables")
    source = {field: spec.source.get(key, "") for key, field in SOURCE_FIELDS.items()}
    return {name: getattr(spec, name) for name in names} | source
