"""Forms of services: the artifact, and rows of manifests."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from django import forms
from django.forms import BaseFormSet, formset_factory

from deployments.catalog import IMAGE, MOST_MANIFESTS, TAG, ManifestSpec, ServiceSpec
from deployments.forms.resources import InScope, ResourceForm, WithIdentifier
from deployments.forms.variables import VariableRows
from deployments.models import Manifest, Service
from guards.limits import SPEC_BYTES
from web.page_forms import PageForm

FILES, INLINE = "FileStore", "Inline"
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


class ManifestForm(PageForm):
    """One manifest: text that is written here, or paths in the file store."""

    kind = forms.ChoiceField(
        required=False, label="Kind", choices=Manifest.Kind.choices, initial=Manifest.Kind.TASK_DEFINITION
    )
    identifier = forms.CharField(
        required=False,
        max_length=128,
        help_text="Made from the kind if empty.",
        widget=forms.TextInput(attrs=_MONO),
    )
    store = forms.ChoiceField(
        required=False,
        label="Where it is kept",
        choices=[(INLINE, "Here, as text"), (FILES, "In the file store")],
        widget=forms.Select(attrs={"class": "select", "data-store": ""}),
    )
    paths = forms.CharField(
        required=False,
        label="Paths",
        max_length=4096,
        help_text="Such as /web/task.yaml or org:/task.yaml; several with commas between.",
        widget=forms.TextInput(attrs=_MONO | {"list": "stored-files"}),
    )
    content = forms.CharField(required=False, strip=False, max_length=int(SPEC_BYTES), widget=forms.Textarea)

    @property
    def is_filled(self) -> bool:
        """Whether the row is a manifest; one without text and paths is none."""
        return bool(
            self.cleaned_data.get("paths", "").strip() or self.cleaned_data.get("content", "").strip()
        )

    def spec(self, identifier: str) -> ManifestSpec:
        """What was entered; `identifier` is for a row that names none."""
        given = self.cleaned_data
        is_inline = given["store"] != FILES
        return ManifestSpec(
            identifier=given["identifier"] or identifier,
            kind=given["kind"] or Manifest.Kind.TASK_DEFINITION,
            store=INLINE if is_inline else FILES,
            paths=() if is_inline else tuple(p.strip() for p in given["paths"].split(",") if p.strip()),
            content=given["content"].replace("\r\n", "\n") if is_inline else "",
        )


if TYPE_CHECKING:
    _Formset = BaseFormSet[ManifestForm]
else:
    _Formset = BaseFormSet


class ManifestRows(_Formset):
    """All manifests of a service."""

    def specs(self) -> list[ManifestSpec]:
        """The rows that are manifests."""
        taken = {form.cleaned_data["identifier"] for form in self.forms}
        found = []
        for form in self.forms:
            if form.is_filled:
                found.append(form.spec(_free(form.cleaned_data["kind"], taken)))
                taken.add(found[-1].identifier)
        return found


_Rows = formset_factory(
    ManifestForm, formset=ManifestRows, extra=0, max_num=MOST_MANIFESTS, absolute_max=MOST_MANIFESTS + 10
)


def manifest_rows(data: Any = None, manifests: Sequence[ManifestSpec] = ()) -> ManifestRows:
    """The rows of what was posted, or of what there is."""
    if data is not None:
        return cast("ManifestRows", _Rows(data, prefix="manifests"))
    initial = [
        {
            "kind": one.kind,
            "identifier": one.identifier,
            "store": one.store,
            "paths": ", ".join(one.paths),
            "content": one.content,
        }
        for one in manifests
    ]
    return cast("ManifestRows", _Rows(initial=initial, prefix="manifests"))


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
            ManifestSpec(one.identifier, one.kind, one.store, tuple(one.paths), one.content)
            for one in service.manifests.order_by("pk")
        ],
    )


def _free(kind: str, taken: set[str]) -> str:
    stem = {Manifest.Kind.SERVICE_DEFINITION.value: "service_definition"}.get(kind, "task_definition")
    names = (stem if number == 1 else f"{stem}_{number}" for number in range(1, MOST_MANIFESTS + 20))
    return next(name for name in names if name not in taken)
