"""Form sets of the manifests of a service or an override."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from django import forms
from django.forms import BaseFormSet, formset_factory

from catalog.manifests.layers import MERGE, REPLACE
from catalog.manifests.locations import (
    BRANCH,
    COMMIT,
    GIT,
    REMOTE_STORES,
    REVISION_FIELDS,
    S3,
    TAG,
    clean_location,
)
from catalog.manifests.stores import TASK_DEFINITION_ARN
from catalog.models import Manifest
from catalog.operations import MOST_MANIFESTS, ManifestSpec
from guards.limits import SPEC_BYTES
from web.forms.page_forms import PageForm

FILE_STORE, INLINE = "FileStore", "Inline"
_MONO_ATTRIBUTES = {"class": "input mono", "spellcheck": "false", "autocapitalize": "none"}
_IDENTIFIER_STEMS = {
    Manifest.Kind.TASK_DEFINITION.value: "task_definition",
    Manifest.Kind.SERVICE_DEFINITION.value: "service_definition",
    Manifest.Kind.SCALABLE_TARGET.value: "scalable_target",
    Manifest.Kind.SCALING_POLICY.value: "scaling_policy",
}


class ManifestForm(PageForm):
    """One manifest: text that is written here, paths in a store, or the ARN of a task definition."""

    depending = frozenset({"connector", "ref", "region", "bucket"})

    kind = forms.ChoiceField(
        required=False, label="Kind", choices=Manifest.Kind.choices, initial=Manifest.Kind.TASK_DEFINITION
    )
    identifier = forms.CharField(
        required=False,
        max_length=128,
        help_text="Made from the kind if empty.",
        widget=forms.TextInput(attrs=_MONO_ATTRIBUTES),
    )
    store = forms.ChoiceField(
        required=False,
        label="Where it is kept",
        choices=[
            (INLINE, "Here, as text"),
            (FILE_STORE, "In the file store"),
            (GIT, "In a Git repository"),
            (S3, "In an S3 bucket"),
            (TASK_DEFINITION_ARN, "In AWS already: the ARN of a task definition"),
        ],
        widget=forms.Select(attrs={"class": "select", "data-store": ""}),
    )
    paths = forms.CharField(
        required=False,
        label="Paths",
        max_length=4096,
        help_text="Such as /web/task.yaml, in the file store also org:/task.yaml; commas between several.",
        widget=forms.TextInput(attrs=_MONO_ATTRIBUTES | {"list": "stored-files"}),
    )
    connector = forms.CharField(
        required=False,
        label="Connector",
        max_length=128,
        help_text="The identifier of the connector that leads there.",
        widget=forms.TextInput(attrs=_MONO_ATTRIBUTES | {"list": "store-connectors"}),
    )
    repository = forms.CharField(
        required=False,
        label="Repository",
        max_length=255,
        help_text="Only where the connector's URL is that of an account, such as app.git.",
        widget=forms.TextInput(attrs=_MONO_ATTRIBUTES),
    )
    ref_kind = forms.ChoiceField(
        required=False,
        label="Branch, tag or commit",
        choices=[(BRANCH, "Branch"), (TAG, "Tag"), (COMMIT, "Commit")],
    )
    ref = forms.CharField(
        required=False,
        label="Its name",
        max_length=255,
        help_text="Such as main. Each run keeps the commit that it began with.",
        widget=forms.TextInput(attrs=_MONO_ATTRIBUTES),
    )
    region = forms.CharField(
        required=False,
        label="Region of the bucket",
        max_length=64,
        widget=forms.TextInput(attrs=_MONO_ATTRIBUTES | {"placeholder": "us-east-1"}),
    )
    bucket = forms.CharField(
        required=False, label="Bucket", max_length=255, widget=forms.TextInput(attrs=_MONO_ATTRIBUTES)
    )
    arn = forms.CharField(
        required=False,
        label="ARN of the task definition",
        max_length=512,
        help_text="Such as arn:aws:ecs:us-east-1:123456789012:task-definition/web:7. Without :7 the newest "
        "revision counts. A rolling deployment then replaces all tasks, even if nothing differs.",
        widget=forms.TextInput(attrs=_MONO_ATTRIBUTES),
    )
    content = forms.CharField(required=False, strip=False, max_length=int(SPEC_BYTES), widget=forms.Textarea)

    @property
    def is_filled(self) -> bool:
        """Whether the row is a manifest; one without text, paths and ARN is none."""
        given = self.cleaned_data
        return given.get("store") in REMOTE_STORES or any(
            given.get(name, "").strip() for name in ("paths", "content", "arn")
        )

    def spec(self, identifier: str) -> ManifestSpec:
        """What was entered; `identifier` is for a row that names none."""
        given = self.cleaned_data
        store = given["store"] or INLINE
        paths = given["paths"].split(",") if store in (FILE_STORE, *REMOTE_STORES) else []
        return ManifestSpec(
            identifier=given["identifier"] or identifier,
            kind=given["kind"] or Manifest.Kind.TASK_DEFINITION,
            store=store,
            paths=tuple(path.strip() for path in paths if path.strip()),
            content=self._content(store),
            mode=given.get("mode") or MERGE,
            place=clean_location(store, self._place()),
        )

    def _place(self) -> dict[str, str]:
        given = self.cleaned_data
        names = ("connector", "repository", "region", "bucket")
        return {name: given[name] for name in names} | {given["ref_kind"] or BRANCH: given["ref"]}

    def _content(self, store: str) -> str:
        if store == TASK_DEFINITION_ARN:
            return str(self.cleaned_data["arn"]).strip()
        text: str = self.cleaned_data["content"]
        return text.replace("\r\n", "\n") if store == INLINE else ""


class OverrideManifestForm(ManifestForm):
    """One manifest that overrides the service's of its kind."""

    mode = forms.ChoiceField(
        required=False,
        label="What it does",
        choices=[(MERGE, "Is laid over the service's"), (REPLACE, "Replaces the service's")],
    )


if TYPE_CHECKING:
    _BaseManifestFormSet = BaseFormSet[ManifestForm]
else:
    _BaseManifestFormSet = BaseFormSet


class ManifestFormSet(_BaseManifestFormSet):
    """All manifests of a service or an override."""

    def specs(self) -> list[ManifestSpec]:
        """The rows that are manifests."""
        taken = {form.cleaned_data["identifier"] for form in self.forms}
        found = []
        for form in self.forms:
            if form.is_filled:
                found.append(form.spec(_get_free_identifier(form.cleaned_data["kind"], taken)))
                taken.add(found[-1].identifier)
        return found


def _build_formset_class(form: type[ManifestForm]) -> Any:
    return formset_factory(
        form, formset=ManifestFormSet, extra=0, max_num=MOST_MANIFESTS, absolute_max=MOST_MANIFESTS + 10
    )


_ServiceManifestFormSet, _OverrideManifestFormSet = (
    _build_formset_class(ManifestForm),
    _build_formset_class(OverrideManifestForm),
)


def build_manifest_formset(data: Any = None, manifests: Sequence[ManifestSpec] = ()) -> ManifestFormSet:
    """The rows of a service: of what was posted, or of what there is."""
    return _build_formset(_ServiceManifestFormSet, data, manifests)


def build_override_formset(data: Any = None, manifests: Sequence[ManifestSpec] = ()) -> ManifestFormSet:
    """The rows of an override, which also say what they do to the service's."""
    return _build_formset(_OverrideManifestFormSet, data, manifests)


def parse_stored_manifests(rows: Iterable[Any]) -> list[ManifestSpec]:
    """The manifests of an override as they are stored."""
    return [ManifestSpec(**{**row, "paths": tuple(row["paths"])}) for row in rows]


def _build_formset(rows: Any, data: Any, manifests: Sequence[ManifestSpec]) -> ManifestFormSet:
    if data is not None:
        return cast("ManifestFormSet", rows(data, prefix="manifests"))
    return cast(
        "ManifestFormSet", rows(initial=[_build_initial_values(one) for one in manifests], prefix="manifests")
    )


def _build_initial_values(one: ManifestSpec) -> dict[str, str]:
    is_arn = one.store == TASK_DEFINITION_ARN
    return {
        "kind": one.kind,
        "identifier": one.identifier,
        "store": one.store,
        "paths": ", ".join(one.paths),
        "content": "" if is_arn else one.content,
        "arn": one.content if is_arn else "",
        "mode": one.mode,
        **{name: one.place.get(name, "") for name in ("connector", "repository", "region", "bucket")},
        **_build_initial_revision(one.place),
    }


def _build_initial_revision(place: Mapping[str, str]) -> dict[str, str]:
    kind = next((one for one in REVISION_FIELDS if place.get(one)), BRANCH)
    return {"ref_kind": kind, "ref": place.get(kind, "")}


def _get_free_identifier(kind: str, taken: set[str]) -> str:
    stem = _IDENTIFIER_STEMS.get(kind, "task_definition")
    names = (stem if number == 1 else f"{stem}_{number}" for number in range(1, MOST_MANIFESTS + 20))
    return next(name for name in names if name not in taken)
