"""Manifests that a step brings itself: checked when saved, frozen when a run starts."""

from collections.abc import Iterator, Mapping
from typing import Any

from catalog.manifests.check import check_manifest
from catalog.manifests.document import BadDocument, Document
from catalog.manifests.places import is_remote
from catalog.manifests.store_connectors import connector_of, settled
from catalog.manifests.stores import StoreError, fetch
from catalog.manifests.templates import STACK_TEMPLATE
from connectors.files import FileMissing, owner_of
from pipelines.completion.deferred_expressions import filled_in, late_in
from pipelines.definition.parser import PipelineSpec
from pipelines.definition.program_files import is_program, texts_of
from pipelines.definition.step_sources import Fault, named_sources
from pipelines.definition.targets import Missing
from rbac.models import Scope
from rbac.policy import Principal, can
from steps.expressions import has_expression, resolve
from steps.kinds.base import BadStepError, step_kind

FROZEN = "frozen"


def faults(
    type_: str, spec: Mapping[str, Any], scope: Scope, reader: Principal | None = None
) -> Iterator[Fault]:
    """What is wrong with the manifests of a step as they are now, as far as a run need not begin for it.

    A `reader` is told nothing of files and connectors that they may not see.
    """
    kind = step_kind(type_)
    for field, source in named_sources(kind, spec):
        if is_remote(source):
            yield from _place_faults(field, source, scope, reader)
        elif not any(has_expression(path) for path in source["paths"]):
            unseen = _unseen(source, scope, reader) if reader else ""
            yield from [Fault(field, unseen)] if unseen else _text_faults(field, source, scope)


def frozen(
    type_: str,
    spec: Mapping[str, Any],
    values: Mapping[str, Any],
    scope: Scope,
    then: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """The spec of a step as a run keeps it: expressions filled in, the texts of its manifests written down.

    The expressions inside a manifest stay, as do those that name what is only known when the step begins.
    What lies in Git or S3 is fetched when the step comes to it; what stands in `then`, by field, is taken as
    an earlier run had it. Raises `BadStepError` for a manifest that
    is not there or not readable, `BadExpressionError` for an expression of the spec.
    """
    kind = step_kind(type_)
    return {
        **filled_in(kind, spec, values, later=late_in(values)),
        **{
            field: {FROZEN: then[field]} if field in then else _freeze(source, values, scope)
            for field, source in named_sources(kind, spec)
        },
    }


def frozen_sources(type_: str, spec: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """The manifests that a step of an execution brings itself, as the sources of a stage are written."""
    kind = step_kind(type_)
    return tuple(spec[field][FROZEN] for field in kind.manifests if FROZEN in spec.get(field, {}))


def _freeze(source: dict[str, Any], values: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    if is_remote(source):
        said = {"paths": source["paths"], "place": source["place"]}
        (row,) = settled([{**source, **resolve(said, values, later=late_in(values))}], scope)
        return {FROZEN: row}
    found = {**source, "paths": resolve(source["paths"], values)}
    try:
        if is_program(found):
            return {FROZEN: {**found, "content": "", "texts": texts_of(found, scope)}}
        texts = [{"name": one.name, "text": one.text} for one in fetch(found, scope)]
    except (StoreError, BadDocument) as gone:
        raise BadStepError(str(gone)) from gone
    return {FROZEN: {**found, "content": "", "texts": texts[:1]}}


def _place_faults(
    field: str, source: Mapping[str, Any], scope: Scope, reader: Principal | None
) -> Iterator[Fault]:
    """What lies in Git or S3 is looked at by a run or its preview; the connector must be there now."""
    named = source["place"]["connector"]
    found = connector_of(scope, source["store"], named)
    if found is None or (reader is not None and not can(reader, "core_connector_view", found)):
        yield Fault(field, f"there is no connector {named} for {source['store']} here or above")


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
        if is_program(source):
            texts_of(source, scope)
            return
        document: Document = fetch(source, scope)[0]
    except (StoreError, BadDocument) as gone:
        yield Fault(field, str(gone))
        return
    if source["kind"] == STACK_TEMPLATE:
        return
    for problem in check_manifest(source["kind"], document).problems:
        yield Fault(
            field,
            f"{problem.file}, line {problem.line}, column {problem.column}: {problem.path}: "
            f"{problem.message}",
        )


def bad_manifests(pipeline: PipelineSpec, scope: Scope, reader: Principal | None = None) -> list[Missing]:
    """What is wrong with the manifests that steps bring themselves, as far as a `reader` may know."""
    return [
        Missing(
            ".".join(
                map(str, ("pipeline", "stages", number, "stage", "spec", *step.place, "spec", fault.field))
            ),
            f"step {step.identifier}: {fault.message}",
        )
        for number, stage in enumerate(pipeline.stages)
        for step in (*stage.steps, *stage.rollback_steps)
        for fault in faults(step.type, step.spec, scope, reader)
    ]
