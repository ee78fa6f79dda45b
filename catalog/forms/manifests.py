"""Form sets of the manifests of a service or an override."""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from django import forms
from django.forms import BaseFormSet, formset_factory
from django.forms.boundfield import BoundField

from catalog.manifests.layers import MERGE, REPLACE
from catalog.manifests.locations import clean_location
from catalog.manifests.stores import INLINE, ManifestStore, StoreField, get_store, is_store, list_stores
from catalog.models import Manifest
from catalog.operations import MOST_MANIFESTS, ManifestSpec
from guards.limits import SPEC_BYTES
from web.forms.drafts import NewResource
from web.forms.page_forms import PageForm

_MONO_ATTRIBUTES = {"class": "input mono", "spellcheck": "false", "autocapitalize": "none"}
_IDENTIFIER_STEMS = {
    Manifest.Kind.TASK_DEFINITION.value: "task_definition",
    Manifest.Kind.SERVICE_DEFINITION.value: "service_definition",
    Manifest.Kind.SCALABLE_TARGET.value: "scalable_target",
    Manifest.Kind.SCALING_POLICY.value: "scaling_policy",
}

# Fields of manifests and images name a connector by its identifier.
NEW_CONNECTOR: Final = NewResource("connector", "new-connector", "core_connector_edit", "identifier")
_CONNECTOR_NAME: Final = re.compile(r"manifests-([0-9]{1,4})-connector")


def get_manifest_resource(data: Mapping[str, str], name: str) -> NewResource | None:
    """Return the connector that can be created for a manifest of posted data, by the name of its field."""
    row = _CONNECTOR_NAME.fullmatch(name)
    if row is None:
        return None
    store = data.get(f"manifests-{row[1]}-store", "")
    kinds = (get_store(store).connector_kind,) if is_store(store) and get_store(store).is_remote else ()
    return replace(NEW_CONNECTOR, kinds=kinds)


def _list_store_choices() -> list[tuple[str, str]]:
    return [(store.name, store.choice) for store in sorted(list_stores(), key=lambda store: store.position)]


class ManifestForm(PageForm):
    """One manifest: its kind, its store, and the inputs of the stores."""

    kind = forms.ChoiceField(
        required=False, label="Kind", choices=Manifest.Kind.choices, initial=Manifest.Kind.TASK_DEFINITION
    )
    identifier = forms.CharField(
        required=False,
        max_length=128,
        help_text="Generated from the kind if empty.",
        widget=forms.TextInput(attrs=_MONO_ATTRIBUTES),
    )
    store = forms.ChoiceField(
        required=False,
        label="Store",
        choices=_list_store_choices,
        widget=forms.Select(attrs={"class": "select", "data-store": ""}),
    )
    paths = forms.CharField(
        required=False,
        label="Paths",
        max_length=4096,
        help_text="Such as /web/task.yaml, in the file store also org:/task.yaml. Separate several with "
        'commas; put one that contains a comma in double quotes (").',
        widget=forms.TextInput(attrs=_MONO_ATTRIBUTES | {"list": "stored-files"}),
    )
    content = forms.CharField(required=False, strip=False, max_length=int(SPEC_BYTES), widget=forms.Textarea)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        store_fields = list(_list_store_fields())
        for field in store_fields:
            if field.name not in self.fields:
                self.fields[field.name] = _build_form_field(field)
        # Needed only where their store is chosen.
        needed = (field.name for field in store_fields if field.is_needed)
        self.conditional_fields = frozenset(needed)  # type: ignore[misc]
        self.fields["connector"].new_resource = NEW_CONNECTOR  # type: ignore[attr-defined]

    @property
    def store_inputs(self) -> list["StoreInput"]:
        """Return the inputs that only some stores have, in the order of the page, without the text."""
        names = dict.fromkeys([*(field.name for field in _list_store_fields()), "paths"])
        return [self._build_input(name) for name in names if name != "content"]

    @property
    def content_input(self) -> "StoreInput":
        """Return the input of the text."""
        return self._build_input("content")

    @property
    def is_filled(self) -> bool:
        """Return whether the row has a text, paths or a place."""
        data = self.cleaned_data
        return get_store(data.get("store", "")).is_remote or any(
            data.get(name, "").strip() for name in ("paths", *_list_content_names())
        )

    def build_spec(self, identifier: str) -> ManifestSpec:
        """Return the entered manifest; `identifier` is for a row without one."""
        data = self.cleaned_data
        store = get_store(data["store"] or INLINE)
        paths = _parse_paths(data["paths"]) if store.has_paths else []
        return ManifestSpec(
            identifier=data["identifier"] or identifier,
            kind=data["kind"] or Manifest.Kind.TASK_DEFINITION,
            store=store.name,
            paths=tuple(paths),
            content=_clean_content(data[store.content_field.name]) if store.content_field else "",
            mode=data.get("mode") or MERGE,
            place=clean_location(store.name, store.build_place(data)),
        )

    def _build_input(self, name: str) -> "StoreInput":
        chosen = self["store"].value() or _list_store_choices()[0][0]
        stores = [store.name for store in list_stores() if name in _list_names(store)]
        return StoreInput(
            self[name],
            " ".join(stores),
            is_hidden=chosen not in stores,
            is_wide=name in ("paths", *_list_content_names()),
        )


@dataclass(frozen=True)
class StoreInput:
    """Input of a manifest's form, with the names of its stores."""

    field: BoundField
    stores: str
    is_hidden: bool
    is_wide: bool


def _list_names(store: ManifestStore) -> list[str]:
    own = [store.content_field] if store.content_field else []
    return [
        *(field.name for field in (*store.list_form_fields(), *own)),
        *(["paths"] if store.has_paths else []),
    ]


def _list_content_names() -> list[str]:
    return [store.content_field.name for store in list_stores() if store.content_field]


def _list_store_fields() -> Iterator[StoreField]:
    for store in list_stores():
        yield from store.list_form_fields()
        if store.content_field:
            yield store.content_field


def _build_form_field(field: StoreField) -> forms.Field:
    if field.choices:
        return forms.ChoiceField(
            required=False,
            label=field.label,
            choices=field.choices,
            widget=forms.Select(attrs={"class": "select"}),
        )
    more = {"list": field.suggestions} if field.suggestions else {}
    more |= {"placeholder": field.placeholder} if field.placeholder else {}
    return forms.CharField(
        required=False,
        label=field.label,
        max_length=field.max_length,
        help_text=field.help,
        widget=forms.TextInput(attrs=_MONO_ATTRIBUTES | more),
    )


def _clean_content(text: str) -> str:
    return text.replace("\r\n", "\n")


class OverrideManifestForm(ManifestForm):
    """Form of a manifest that overrides the manifest of the same kind."""

    mode = forms.ChoiceField(
        required=False,
        label="Mode",
        choices=[(MERGE, "Merge with the service manifest"), (REPLACE, "Replace the service manifest")],
    )


if TYPE_CHECKING:
    _BaseManifestFormSet = BaseFormSet[ManifestForm]
else:
    _BaseManifestFormSet = BaseFormSet


class ManifestFormSet(_BaseManifestFormSet):
    """All manifests of a service or an override."""

    def build_specs(self) -> list[ManifestSpec]:
        """Build the specs of the filled rows."""
        identifiers = {form.cleaned_data["identifier"] for form in self.forms}
        specs = []
        for form in self.forms:
            if form.is_filled:
                specs.append(form.build_spec(_get_free_identifier(form.cleaned_data["kind"], identifiers)))
                identifiers.add(specs[-1].identifier)
        return specs


def _build_formset_class(form: type[ManifestForm]) -> Any:
    return formset_factory(
        form, formset=ManifestFormSet, extra=0, max_num=MOST_MANIFESTS, absolute_max=MOST_MANIFESTS + 10
    )


_ServiceManifestFormSet, _OverrideManifestFormSet = (
    _build_formset_class(ManifestForm),
    _build_formset_class(OverrideManifestForm),
)


def build_manifest_formset(data: Any = None, manifests: Sequence[ManifestSpec] = ()) -> ManifestFormSet:
    """Build the form set of a service from the posted data or the stored manifests."""
    return _build_formset(_ServiceManifestFormSet, data, manifests)


def build_override_formset(data: Any = None, manifests: Sequence[ManifestSpec] = ()) -> ManifestFormSet:
    """Build the form set of an override; each row has a mode (merge or replace)."""
    return _build_formset(_OverrideManifestFormSet, data, manifests)


def parse_stored_manifests(rows: Iterable[Any]) -> list[ManifestSpec]:
    """Parse the stored manifests of an override."""
    return [ManifestSpec(**{**row, "paths": tuple(row["paths"])}) for row in rows]


def _build_formset(rows: Any, data: Any, manifests: Sequence[ManifestSpec]) -> ManifestFormSet:
    if data is not None:
        return cast("ManifestFormSet", rows(data, prefix="manifests"))
    return cast(
        "ManifestFormSet",
        rows(initial=[_build_initial_values(manifest) for manifest in manifests], prefix="manifests"),
    )


def _build_initial_values(manifest: ManifestSpec) -> dict[str, str]:
    store = get_store(manifest.store)
    content = {store.content_field.name: manifest.content} if store.content_field else {}
    return {
        "kind": manifest.kind,
        "identifier": manifest.identifier,
        "store": manifest.store,
        "paths": _render_paths(manifest.paths),
        "mode": manifest.mode,
        **content,
        **store.build_form_values(manifest.place),
    }


def _parse_paths(text: str) -> list[str]:
    """Return the paths of a list with commas; one in quotes may contain some."""
    # Other line ends would end the row, or fail.
    paths = next(csv.reader([" ".join(text.splitlines())], skipinitialspace=True), [])
    return [path.strip() for path in paths if path.strip()]


def _render_paths(paths: Iterable[str]) -> str:
    """Return paths as `_parse_paths` reads them."""
    quoted = (path.replace('"', '""') for path in paths)
    return ", ".join(f'"{path}"' if {",", '"'} & {*path} else path for path in quoted)


def _get_free_identifier(kind: str, used_names: set[str]) -> str:
    stem = _IDENTIFIER_STEMS.get(kind, "task_definition")
    names = (stem if number == 1 else f"{stem}_{number}" for number in range(1, MOST_MANIFESTS + 20))
    return next(name for name in names if name not in used_names)
