"""Forms of services: the artifact, beside the rows of manifests and variables."""

from collections.abc import Sequence

from django import forms

from deployments.catalog import IMAGE, TAG, ManifestSpec, ServiceSpec
from deployments.forms.resources import InScope, ResourceForm, WithIdentifier
from deployments.forms.variables import VariableRows
from deployments.models import Service

_MONO = {"class": "input mono", "spellcheck": "false", "autocapitalize": "none"}


class ServiceForm(ResourceForm):
    """A service without its manifests and variables."""

    image = forms.RegexField(
        regex=IMAGE,
        required=False,
        help_text="Such as public.ecr.aws/nginx/nginx, without a tag. Manifests name it as "
        "<+primary.artifact.image>.",
        error_messages={"invalid": "An image is a registry, a repository and no spaces, such as nginx."},
        widget=forms.TextInput(attrs=_MONO),
    )
    tag = forms.RegexField(
        regex=TAG,
        required=False,
        label="Default tag",
        help_text="Filled in when somebody runs a pipeline; latest if empty.",
        error_messages={"invalid": "A tag has letters, digits, dots, dashes and underscores, 128 at most."},
        widget=forms.TextInput(attrs=_MONO),
    )

    def spec(self, manifests: Sequence[ManifestSpec], variables: VariableRows) -> ServiceSpec:
        """What was entered."""
        given = self.cleaned_data
        return ServiceSpec(
            name=given["name"],
            description=given["description"],
            variables=variables.variables(),
            required_variables=variables.required(),
            image=given["image"],
            tag=given["tag"] or "latest",
            manifests=manifests,
        )


class NewServiceForm(InScope, WithIdentifier, ServiceForm):
    """A service that is not there yet."""


def spec_of(service: Service) -> ServiceSpec:
    """A service as it is stored."""
    artifact = getattr(service, "artifact", None)
    return ServiceSpec(
        name=service.name,
        description=service.description,
        variables=service.variables,
        required_variables=service.required_variables,
        image=artifact.image if artifact else "",
        tag=artifact.tag if artifact else "latest",
        manifests=[
            ManifestSpec(one.identifier, one.kind, one.store, tuple(one.paths), one.content, place=one.place)
            for one in service.manifests.order_by("pk")
        ],
    )
