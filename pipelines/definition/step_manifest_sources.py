"""Manifest sources in step specs: store, and location in the store."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.manifests.locations import REMOTE_STORES, clean_location, describe_location_problem
from catalog.manifests.stores import TASK_DEFINITION_ARN, list_store_names
from steps.actions.terraform import TERRAFORM_CONFIGURATION
from steps.kinds.registry import BadStepError, StepKind, get_step_kind

INLINE = "Inline"


@dataclass(frozen=True)
class ManifestFieldProblem:
    """Something wrong with a step's manifest: the field of the spec that names it, and a sentence."""

    field: str
    message: str


def list_step_stores() -> list[str]:
    """The stores that a step's own manifest can lie in; a registered definition has a field of its own."""
    return [name for name in list_store_names() if name != TASK_DEFINITION_ARN]


def list_sources(type_: str, spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The manifests of a step, as a service keeps its own. Raises `BadStepError`."""
    return [source for _, source in list_sources_by_field(get_step_kind(type_), spec)]


def list_files(type_: str, spec: Mapping[str, Any]) -> list[str]:
    """The references to the file store in the manifests of a step."""
    return [
        path
        for one in list_sources(type_, spec)
        if one["store"] not in REMOTE_STORES
        for path in one["paths"]
    ]


def find_source_problems(kind: StepKind, spec: Mapping[str, Any]) -> Iterator[ManifestFieldProblem]:
    """What is wrong with the way in which a step names its manifests, whatever they hold."""
    for field in kind.manifests:
        if field in spec:
            try:
                _parse_source(kind, field, spec[field])
            except BadStepError as bad:
                yield ManifestFieldProblem(field, str(bad))


def list_sources_by_field(kind: StepKind, spec: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The manifests of a step with the fields that name them. Raises `BadStepError`."""
    for field in kind.manifests:
        if field in spec:
            yield field, _parse_source(kind, field, spec[field])


def _parse_source(kind: StepKind, field: str, value: Any) -> dict[str, Any]:
    stores = list_step_stores()
    known = ", ".join(stores)
    if not isinstance(value, Mapping) or set(value) != {"type", "spec"}:
        raise BadStepError(f"{field} names a store: type ({known}) and spec")
    if value["type"] not in stores:
        raise BadStepError(f"{field}: there is no store {value['type']}; there are {known}")
    read = _parse_remote_source if value["type"] in REMOTE_STORES else _parse_local_source
    # A program has several files, a manifest is one.
    may_be_many = kind.manifests[field] == TERRAFORM_CONFIGURATION
    return {
        "identifier": field,
        "kind": kind.manifests[field],
        "store": value["type"],
        **read(field, value["type"], value["spec"], may_be_many),
    }


def _parse_local_source(field: str, store: str, spec: Any, may_be_many: bool) -> dict[str, Any]:
    wanted = "content" if store == INLINE else "files"
    if not isinstance(spec, Mapping) or set(spec) != {wanted}:
        raise BadStepError(f"{field}: the spec of a manifest in {store} has one key, {wanted}")
    return {
        "paths": _parse_files(field, spec["files"], "/folder/file.yaml", may_be_many)
        if wanted == "files"
        else [],
        "content": _parse_content(field, spec["content"]) if wanted == "content" else "",
    }


def _parse_remote_source(field: str, store: str, spec: Any, may_be_many: bool) -> dict[str, Any]:
    if not isinstance(spec, Mapping) or "files" not in spec:
        raise BadStepError(f"{field}: the spec of a manifest in {store} says files, and where they lie")
    paths = _parse_files(field, spec["files"], "folder/file.yaml", may_be_many)
    place = {str(name): value for name, value in spec.items() if name != "files"}
    if why := describe_location_problem(store, place, paths):
        raise BadStepError(f"{field}: {why}")
    return {"paths": paths, "content": "", "place": clean_location(store, place)}


def _parse_files(field: str, files: Any, example: str, may_be_many: bool) -> list[str]:
    listed = [files] if isinstance(files, str) else files
    if not isinstance(listed, list) or not listed or not all(one and isinstance(one, str) for one in listed):
        raise BadStepError(f"{field}: files names one file, such as {example}")
    if len(listed) > 1 and not may_be_many:
        raise BadStepError(f"{field}: files names one file, such as {example}")
    return listed


def _parse_content(field: str, content: Any) -> str:
    if not isinstance(content, str) or not content.strip():
        raise BadStepError(f"{field}: content is the text of the manifest, after content: |")
    return content
