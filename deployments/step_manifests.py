"""Manifests that a step brings itself: read from its spec, checked when saved, frozen when a run starts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from connectors.files import FileMissing, owner_of
from deployments.expressions import has_expression, resolve
from deployments.late import filled_in, is_late
from deployments.manifests.check import check_manifest
from deployments.manifests.document import BadDocument, Document
from deployments.manifests.places import REMOTE
from deployments.manifests.stores import TASK_DEFINITION_ARN, StoreError, fetch, store_names
from deployments.steps.base import BadStepError, StepKind, step_kind
from rbac.models import Scope
from rbac.policy import Principal, can

INLINE = "Inline"
_FROZEN = "frozen"


@dataclass(frozen=True)
class Fault:
    """Something wrong with a step's manifest: the field of the spec that names it, and a sentence."""

    field: str
    message: str


def step_stores() -> list[str]:
    """The stores that a step's own manifest can lie in; a registered definition has a field of its own."""
    return [name for name in store_names() if name != TASK_DEFINITION_ARN and name not in REMOTE]


def files_of(type_: str, spec: Mapping[str, Any]) -> list[str]:
    """The references to files in the manifests of a step."""
    return [path for _, source in _sources(step_kind(type_), spec) for path in source["paths"]]


def shape_faults(kind: StepKind, spec: Mapping[str, Any]) -> Iterator[Fault]:
    """What is wrong with the way in which a step names its manifests, whatever they hold."""
    for field in kind.manifests:
        if field in spec:
            try:
                _source(kind, field, spec[field])
            except BadStepError as bad:
                yield Fault(field, str(bad))


def faults(
    type_: str, spec: Mapping[str, Any], scope: Scope, reader: Principal | None = None
) -> Iterator[Fault]:
    """What is wrong with the manifests of a step as they are now, as far as a run need not begin for it.

    A `reader` is told nothing of files that they may not see.
    """
    kind = step_kind(type_)
    for field, source in _sources(kind, spec):
        if any(has_expression(path) for path in source["paths"]):
            continue
        unseen = _unseen(source, scope, reader) if reader else ""
        yield from [Fault(field, unseen)] if unseen else _text_faults(field, source, scope)


def frozen(type_: str, spec: Mapping[str, Any], values: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    """The spec of a step as a run keeps it: expressions filled in, the texts of its manifests written down.

    The expressions inside a manifest stay, as do those that name what is only known when the step begins.
    Raises `BadStepError` for a manifest that is not there or not readable, `BadExpressionError` for an
    expression of the spec.
    """
    kind = step_kind(type_)
    return {
        **filled_in(kind, spec, values, later=is_late),
        **{field: _freeze(source, values, scope) for field, source in _sources(kind, spec)},
    }


def frozen_sources(type_: str, spec: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """The manifests that a step of an execution brings itself, as the sources of a stage are written."""
    kind = step_kind(type_)
    return tuple(spec[field][_FROZEN] for field in kind.manifests if _FROZEN in spec.get(field, {}))


def _freeze(source: dict[str, Any], values: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    settled = {**source, "paths": resolve(source["paths"], values)}
    try:
        texts = [{"name": one.name, "text": one.text} for one in fetch(settled, scope)]
    except (StoreError, BadDocument) as gone:
        raise BadStepError(str(gone)) from gone
    return {_FROZEN: {**settled, "content": "", "texts": texts[:1]}}


def _unseen(source: Mapping[str, Any], scope: Scope, reader: Principal) -> str:
    """Why somebody may not use a file; nothing if they may."""
    for path in source["paths"]:
        try:
            if not can(reader, "core_file_view", owner_of(scope, path)):
                return f"You may not see the file {path}: ask for a role with core_file_view where it lies."
        except FileMissing as missing:
            return missing.detail
    return ""


def _text_faults(field: str, source: Mapping[str, Any], scope: Scope) -> Iterator[Fault]:
    try:
        document: Document = fetch(source, scope)[0]
    except (StoreError, BadDocument) as gone:
        yield Fault(field, str(gone))
        return
    for problem in check_manifest(source["kind"], document).problems:
        yield Fault(
            field,
            f"{problem.file}, line {problem.line}, column {problem.column}: {problem.path}: "
            f"{problem.message}",
        )


def _sources(kind: StepKind, spec: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for field in kind.manifests:
        if field in spec:
            yield field, _source(kind, field, spec[field])


def _source(kind: StepKind, field: str, value: Any) -> dict[str, Any]:
    """A manifest as a service keeps it. Raises `BadStepError`."""
    stores = step_stores()
    known = ", ".join(stores)
    if not isinstance(value, Mapping) or set(value) != {"type", "spec"}:
        raise BadStepError(f"{field} names a store: type ({known}) and spec")
    if value["type"] not in stores:
        raise BadStepError(f"{field}: there is no store {value['type']}; there are {known}")
    wanted = "content" if value["type"] == INLINE else "files"
    spec = value["spec"]
    if not isinstance(spec, Mapping) or set(spec) != {wanted}:
        raise BadStepError(f"{field}: the spec of a manifest in {value['type']} has one key, {wanted}")
    return {
        "identifier": field,
        "kind": kind.manifests[field],
        "store": value["type"],
        "paths": _files(field, spec["files"]) if wanted == "files" else [],
        "content": _content(field, spec["content"]) if wanted == "content" else "",
    }


def _files(field: str, files: Any) -> list[str]:
    listed = [files] if isinstance(files, str) else files
    if not isinstance(listed, list) or len(listed) != 1 or not isinstance(listed[0], str) or not listed[0]:
        raise BadStepError(f"{field}: files names one file, such as /folder/file.yaml")
    return listed


def _content(field: str, content: Any) -> str:
    if not isinstance(content, str) or not content.strip():
        raise BadStepError(f"{field}: content is the text of the manifest, after content: |")
    return content
