"""Manifests in step specs: checked on save, frozen when a run starts."""

from collections.abc import Iterator, Mapping
from typing import Any

from catalog.manifests.checks import check_manifest
from catalog.manifests.cloudformation_templates import STACK_TEMPLATE
from catalog.manifests.documents import BadDocument, Document
from catalog.manifests.locations import find_store_connector, is_remote, resolve_connectors
from catalog.manifests.stores import INLINE, StoreError, fetch_documents, get_store
from connectors.file_store import FileNotInStore, split_reference
from connectors.required_access import get_file_requirements, require_access
from pipelines.definition.deferred_expressions import build_deferred_check, resolve_spec
from pipelines.definition.parser import PipelineSpec
from pipelines.definition.stage_targets import ReferenceProblem, build_step_path
from pipelines.definition.step_manifest_sources import ManifestFieldProblem, list_sources_by_field
from rbac.models import Scope
from rbac.policy import Principal, can
from steps.actions.terraform import TERRAFORM_CONFIGURATION
from steps.expressions import has_expression, resolve_expressions
from steps.kinds.registry import BadStepError, get_step_kind, get_step_kinds

# Kinds of step sources that are program files instead of manifests.
PROGRAM_KINDS = (TERRAFORM_CONFIGURATION,)


def is_program(source: Mapping[str, Any]) -> bool:
    """Return whether a source holds files of a program instead of a manifest."""
    return source["kind"] in PROGRAM_KINDS


def read_program_files(source: Mapping[str, Any], scope: Scope) -> list[dict[str, str]]:
    """Return the program's files, inline or from a store that Slipway reads, each {name, text}.

    Raises `StoreError` if a file is missing.
    """
    if source["store"] == INLINE:
        return [{"name": "", "text": source["content"]}]
    files = get_store(source["store"]).read_files(source, scope)
    return [{"name": split_reference(file.ref)[1].lstrip("/"), "text": file.text} for file in files]


FROZEN_KEY = "frozen"


def find_manifest_problems(
    type_: str, spec: Mapping[str, Any], scope: Scope, reader: Principal | None = None
) -> Iterator[ManifestFieldProblem]:
    """Yield the problems with a step's manifests that can be found without a run.

    Files and connectors that `reader` may not see are not disclosed.
    """
    kind = get_step_kind(type_)
    for field, source in list_sources_by_field(kind, spec):
        if is_remote(source):
            yield from _find_location_problems(field, source, scope, reader)
        elif not any(has_expression(path) for path in source["paths"]):
            unseen = _describe_denied_file(source, scope, reader) if reader else ""
            yield from (
                [ManifestFieldProblem(field, unseen)] if unseen else _find_text_problems(field, source, scope)
            )


def freeze_spec(
    type_: str,
    spec: Mapping[str, Any],
    values: Mapping[str, Any],
    scope: Scope,
    then: Mapping[str, Mapping[str, Any]],
    reader: Principal | None,
) -> dict[str, Any]:
    """Return the spec of a step as a run stores it: expressions resolved, manifest texts included.

    Expressions inside a manifest and deferred ones stay. Files in Git or S3 are fetched when the step begins;
    `then` holds, by field, texts that an earlier run fetched. Raises `BadStepError` for a manifest that is
    missing or unreadable, `BadExpressionError` for an expression of the spec, `MissingAccess` for a file that
    an expression names and `reader` may not use.
    """
    kind = get_step_kind(type_)
    return {
        **resolve_spec(kind, spec, values, is_deferred=build_deferred_check(values)),
        **{
            field: {FROZEN_KEY: then[field]}
            if field in then
            else _freeze_source(source, values, scope, reader)
            for field, source in list_sources_by_field(kind, spec)
        },
    }


def list_frozen_sources(type_: str, spec: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return a step's frozen manifest sources, in the format of stage sources; none for an unknown kind."""
    kind = get_step_kinds().get(type_)
    fields = () if kind is None else kind.manifests
    return tuple(spec[field][FROZEN_KEY] for field in fields if FROZEN_KEY in spec.get(field, {}))


def _freeze_source(
    source: dict[str, Any], values: Mapping[str, Any], scope: Scope, reader: Principal | None
) -> dict[str, Any]:
    if is_remote(source):
        location = {"paths": source["paths"], "place": source["place"]}
        (row,) = resolve_connectors(
            [{**source, **resolve_expressions(location, values, is_deferred=build_deferred_check(values))}],
            scope,
        )
        return {FROZEN_KEY: row}
    resolved_source = {**source, "paths": [*map(str, resolve_expressions(source["paths"], values))]}
    if reader is not None and resolved_source["paths"] != source["paths"]:
        _require_file_access(resolved_source, scope, reader)
    try:
        if is_program(resolved_source):
            return {
                FROZEN_KEY: {
                    **resolved_source,
                    "content": "",
                    "texts": read_program_files(resolved_source, scope),
                }
            }
        texts = [
            {"name": document.name, "text": document.text}
            for document in fetch_documents(resolved_source, scope)
        ]
    except (StoreError, BadDocument) as error:
        raise BadStepError(str(error)) from error
    return {FROZEN_KEY: {**resolved_source, "content": "", "texts": texts[:1]}}


def _require_file_access(source: Mapping[str, Any], scope: Scope, reader: Principal) -> None:
    """Check files whose names only a run knows, as saving does for the others (R082)."""
    if denied := _describe_denied_file(source, scope, reader):
        raise BadStepError(denied)
    require_access(reader, get_file_requirements(source["paths"], scope))


def _find_location_problems(
    field: str, source: Mapping[str, Any], scope: Scope, reader: Principal | None
) -> Iterator[ManifestFieldProblem]:
    """Yield missing connectors; files in Git or S3 are checked by a run or its preview."""
    named = source["place"]["connector"]
    connector = find_store_connector(scope, source["store"], named)
    if connector is None or (reader is not None and not can(reader, "core_connector_view", connector)):
        yield ManifestFieldProblem(
            field, f"no connector {named} for {source['store']} in this scope or above"
        )


def _describe_denied_file(source: Mapping[str, Any], scope: Scope, reader: Principal) -> str:
    """Return the reason why a user may not use a file; empty if they may."""
    for path in source["paths"]:
        try:
            if denied := get_store(source["store"]).describe_denied_path(path, scope, reader):
                return f"{denied}: ask for a role with core_file_view in the scope of the file."
        except FileNotInStore as missing:
            return missing.detail
    return ""


def _find_text_problems(
    field: str, source: Mapping[str, Any], scope: Scope
) -> Iterator[ManifestFieldProblem]:
    try:
        if is_program(source):
            read_program_files(source, scope)
            return
        document: Document = fetch_documents(source, scope)[0]
    except (StoreError, BadDocument) as error:
        yield ManifestFieldProblem(field, str(error))
        return
    if source["kind"] == STACK_TEMPLATE:
        return
    for problem in check_manifest(source["kind"], document).problems:
        yield ManifestFieldProblem(
            field,
            f"{problem.file}, line {problem.line}, column {problem.column}: {problem.path}: "
            f"{problem.message}",
        )


def check_own_manifests(
    pipeline: PipelineSpec, scope: Scope, reader: Principal | None = None
) -> list[ReferenceProblem]:
    """Return the problems with manifests in step specs; hidden files and connectors stay undisclosed."""
    return [
        ReferenceProblem(
            f"{build_step_path(number, step)}.spec.{fault.field}",
            f"step {step.identifier}: {fault.message}",
        )
        for number, stage in enumerate(pipeline.stages)
        for step in (*stage.steps, *stage.rollback_steps)
        for fault in find_manifest_problems(step.type, step.spec, scope, reader)
    ]
