"""Manifest sources in step specs: store, and location in the store."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.manifests.locations import clean_location, describe_store_problem
from catalog.manifests.stores import FILE_STORE, get_store, list_stores
from steps.actions.terraform import TERRAFORM_CONFIGURATION
from steps.kinds.registry import BadStepError, StepKind, get_step_kind


@dataclass(frozen=True)
class ManifestFieldProblem:
    """A problem with a step's manifest: its field in the spec, and a message."""

    field: str
    message: str


def list_step_stores() -> list[str]:
    """Return the names of the stores that step manifests can use."""
    return [store.name for store in list_stores() if store.serves_steps]


def list_sources(type_: str, spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the manifest sources of a step, as a service stores them. Raises `BadStepError`."""
    return [source for _, source in list_sources_by_field(get_step_kind(type_), spec)]


def list_files(type_: str, spec: Mapping[str, Any]) -> list[str]:
    """Return the file store references in the manifests of a step."""
    return [
        path
        for source in list_sources(type_, spec)
        if source["store"] == FILE_STORE
        for path in source["paths"]
    ]


def find_source_problems(kind: StepKind, spec: Mapping[str, Any]) -> Iterator[ManifestFieldProblem]:
    """Yield the problems with the manifest sources of a step, without reading their content."""
    for field in kind.manifests:
        if field in spec:
            try:
                _parse_source(kind, field, spec[field])
            except BadStepError as bad:
                yield ManifestFieldProblem(field, str(bad))


def list_sources_by_field(kind: StepKind, spec: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the manifest sources of a step by field. Raises `BadStepError`."""
    for field in kind.manifests:
        if field in spec:
            yield field, _parse_source(kind, field, spec[field])


def _parse_source(kind: StepKind, field: str, value: Any) -> dict[str, Any]:
    stores = list_step_stores()
    names = ", ".join(stores)
    if not isinstance(value, Mapping) or set(value) != {"type", "spec"}:
        raise BadStepError(f"{field} must have the keys type ({names}) and spec")
    if value["type"] not in stores:
        raise BadStepError(f"{field}: unknown store {value['type']}; use one of {names}")
    # A program has several files, a manifest is one.
    may_be_many = kind.manifests[field] == TERRAFORM_CONFIGURATION
    return {
        "identifier": field,
        "kind": kind.manifests[field],
        "store": value["type"],
        **_parse_store_spec(field, value["type"], value["spec"], may_be_many),
    }


def _parse_store_spec(field: str, name: str, spec: Any, may_be_many: bool) -> dict[str, Any]:
    """Parse the content, or the files and their place. Raises `BadStepError`."""
    store = get_store(name)
    key = "files" if store.has_paths else "content"
    if not isinstance(spec, Mapping) or key not in spec or (not store.place_fields and set(spec) != {key}):
        keys = "must have files and their location" if store.place_fields else f"must have only the key {key}"
        raise BadStepError(f"{field}: the spec of a manifest in {name} {keys}")
    place = {str(key_): value for key_, value in spec.items() if key_ != key}
    if not store.has_paths:
        content = _parse_content(field, spec[key])
        return {"paths": [], "content": content, **_build_place(name, place)}
    example = "folder/file.yaml" if store.is_remote else "/folder/file.yaml"
    paths = _parse_files(field, spec[key], example, may_be_many)
    if problem := describe_store_problem(name, kind="", content="", paths=paths, place=place):
        raise BadStepError(f"{field}: {problem}")
    return {"paths": paths, "content": "", **_build_place(name, place)}


def _build_place(store: str, place: Mapping[str, Any]) -> dict[str, Any]:
    return {"place": clean_location(store, place)} if get_store(store).place_fields else {}


def _parse_files(field: str, files: Any, example: str, may_be_many: bool) -> list[str]:
    listed = [files] if isinstance(files, str) else files
    if (
        not isinstance(listed, list)
        or not listed
        or not all(path and isinstance(path, str) for path in listed)
    ):
        raise BadStepError(f"{field}: files must be one file path, such as {example}")
    if len(listed) > 1 and not may_be_many:
        raise BadStepError(f"{field}: files must be one file path, such as {example}")
    return listed


def _parse_content(field: str, content: Any) -> str:
    if not isinstance(content, str) or not content.strip():
        raise BadStepError(f"{field}: content must be the manifest as text, after content: |")
    return content
