"""Manifest texts in editor and file store: usages of a file, checks, completion and cleanup."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.db.models import Q, TextField
from django.db.models.functions import Cast

from aws.shapes import build_input_schema
from aws.validation.rules.common import NAME_PATTERN
from catalog.manifests.checks import ManifestProblem, check_manifest
from catalog.manifests.cleanup import clean_up_manifest
from catalog.manifests.documents import BadDocument, Document, parse_manifest
from catalog.manifests.kinds import (
    MANIFEST_KINDS,
    RUN_TASK_REQUEST,
    SCALABLE_TARGET,
    SCALING_POLICY,
    SERVICE_DEFINITION,
    TASK_DEFINITION,
    detect_wrapped_kind,
)
from catalog.manifests.stores import FILE_STORE
from catalog.models import Manifest, Service, ServiceOverride
from catalog.overrides.override_sets import get_deeper_scope
from catalog.usages import build_override_uses, build_service_uses, require_deployable
from connectors.file_kinds import (
    CleanedFile,
    FileCheck,
    FileKind,
    FileProblem,
    FileText,
    get_editor_language,
    register_file_kind,
)
from connectors.file_store import is_reference_to, split_reference
from connectors.models import FileNode
from connectors.usages import UsableResource, register_usage_finder
from rbac.models import Scope, User
from rbac.policy import Principal, build_below_filter, can
from steps.expression_names import DIGEST, FIXED, IN_MANIFEST
from web.http.problems import BadInput
from web.usages import ResourceUsages


def build_manifest_guide(kind: str, variables: Iterable[str] = ()) -> dict[str, Any]:
    """Build the editor's completion guide for a kind of manifest; `variables` are those of its service."""
    definition = MANIFEST_KINDS[kind]
    left_out = frozenset(definition.ignored) | frozenset(definition.filled_in)
    words = {**FIXED, **DIGEST, **IN_MANIFEST.get(kind, {})}
    suggestions = [{"value": path, "detail": about} for path, about in sorted(words.items())]
    own = [{"value": f"serviceVariables.{name}", "detail": "A variable."} for name in sorted(variables)]
    return {
        "schema": build_input_schema(definition.service, definition.operation, left_out),
        "expressions": [*suggestions, *own],
    }


_KIND_TITLES = {
    TASK_DEFINITION: "a task definition",
    SERVICE_DEFINITION: "a service definition",
    SCALABLE_TARGET: "a scalable target",
    SCALING_POLICY: "a scaling policy",
    RUN_TASK_REQUEST: "a RunTask request",
}
# Keys that identify a kind of manifest, in the order of the checks.
_DISTINCTIVE_KEYS = (
    (TASK_DEFINITION, {"containerdefinitions"}),
    (SCALING_POLICY, {"policyname", "policytype"}),
    (SCALABLE_TARGET, {"mincapacity", "maxcapacity"}),
    (SERVICE_DEFINITION, {"servicename", "desiredcount", "deploymentconfiguration"}),
    (RUN_TASK_REQUEST, {"count", "overrides"}),
    (SERVICE_DEFINITION, {"networkconfiguration"}),
)


@register_usage_finder
def find_services_using(thing: UsableResource, principal: Principal) -> ResourceUsages:
    """Return the services with manifests from this file, from this folder, or from a folder above it."""
    if not isinstance(thing, FileNode):
        return ResourceUsages()
    service_ids = {manifest.service_id for manifest in _list_referring_manifests(thing)}
    return build_service_uses(service_ids, principal)


@register_usage_finder
def find_overrides_using(thing: UsableResource, principal: Principal) -> ResourceUsages:
    """Return the overrides with manifests from this file, from this folder, or from a folder above it."""
    if not isinstance(thing, FileNode):
        return ResourceUsages()
    override_ids = {override.pk for override in _list_referring_overrides(thing)}
    return build_override_uses(override_ids, principal)


def check_file_text(text: FileText) -> FileCheck | None:
    """Check YAML and JSON; manifests also against AWS, with the kind taken from references or keys."""
    if get_editor_language(text.path) == "text":
        return None
    document = _parse_text(text.content, text.path.rsplit("/", 1)[-1], empty="The file is empty.")
    if isinstance(document, FileCheck):
        return document
    referring_kinds = sorted(_list_referring_kinds(text))
    if not referring_kinds and any(_list_referring_overrides(FileNode(scope=text.scope, path=text.path))):
        return FileCheck(note="Valid syntax. It is validated with the manifest that it overrides.")
    kinds = referring_kinds or _guess_kinds(document.value)
    return _check_kinds(kinds, document) if kinds else FileCheck(note="Valid syntax.")


def check_manifest_text(kind: str, text: str) -> FileCheck:
    """Check the text of an inline manifest of a given kind."""
    document = _parse_text(text, "manifest", empty="The manifest is empty.")
    return document if isinstance(document, FileCheck) else _check_kinds([kind], document)


def _parse_text(text: str, name: str, *, empty: str) -> Document | FileCheck:
    """Return the parsed document, or the problem."""
    if not text.strip():
        return FileCheck(note=empty)
    try:
        return parse_manifest(text, name)
    except BadDocument as error:
        return FileCheck((FileProblem(_capitalize(error.message), error.line, error.column),))


def build_file_guide(text: FileText) -> dict[str, Any] | None:
    """Build the completion guide of a manifest file; None for other files."""
    if get_editor_language(text.path) == "text":
        return None
    kinds = sorted(_list_referring_kinds(text)) or _guess_kinds(_parse_value(text.content))
    if not kinds:
        return None
    node = FileNode(scope=text.scope, path=text.path)
    users = [manifest.service for manifest in _list_referring_manifests(node)]
    return build_manifest_guide(kinds[0], {str(name) for service in users for name in service.variables})


def clean_file_text(text: FileText, reader: Principal, service: str) -> CleanedFile | None:
    """Clean up a manifest file; None for other files. Raises `BadInput` if it cannot be parsed.

    `service` defaults to the only visible service that uses the file as its manifest.
    """
    if get_editor_language(text.path) == "text":
        return None
    kinds = sorted(_list_referring_kinds(text)) or _guess_kinds(_parse_value(text.content))
    if not kinds:
        return None
    users = {
        manifest.service for manifest in _list_referring_manifests(FileNode(scope=text.scope, path=text.path))
    }
    if not service and len(users) == 1 and can(reader, "core_service_view", only := users.pop()):
        service = get_ecs_service_name(only)
    return clean_manifest_text(kinds[0], text.content, service)


def clean_manifest_text(kind: str, text: str, service: str) -> CleanedFile:
    """Clean up the text of a manifest of a kind.

    Raises `BadInput` with the position if it cannot be parsed.
    """
    try:
        cleaned = clean_up_manifest(kind, text, service)
    except BadDocument as error:
        message = f"Line {error.line}, column {error.column}: {error.message}."
        entry = {"path": "content", "message": error.message, "line": error.line, "column": error.column}
        raise BadInput(message, errors=[entry]) from error
    return CleanedFile(text, cleaned.text, cleaned.changes)


def get_ecs_service_name(service: Service) -> str:
    """Return the name of a service, or its identifier if ECS does not accept the name."""
    return service.name if NAME_PATTERN.match(service.name) else service.identifier


def require_deployable_file(node: FileNode, actor: User) -> None:
    """Raise `BadInput` if a service that uses this file as its definition could never be deployed."""
    services = {
        manifest.service
        for manifest in _list_referring_manifests(node)
        if manifest.kind == SERVICE_DEFINITION
    }
    services |= {
        override.service
        for override in _list_referring_overrides(node)
        if any(row["kind"] == SERVICE_DEFINITION for row in override.manifests)
    }
    for service in sorted(services, key=lambda service: service.pk):
        require_deployable(service, actor)


register_file_kind(FileKind(check_file_text, build_file_guide, require_deployable_file, clean_file_text))


def _parse_value(content: str) -> Any:
    try:
        return parse_manifest(content, "a file").value
    except BadDocument:
        return None


def _check_kinds(kinds: Iterable[str], document: Document) -> FileCheck:
    checked = [check_manifest(kind, document) for kind in kinds]
    titles = " and ".join(_KIND_TITLES[kind] for kind in kinds)
    return FileCheck(
        tuple(_build_file_problem(problem) for check in checked for problem in check.problems),
        tuple(_build_file_problem(problem) for check in checked for problem in check.warnings),
        f"Checked as {titles}.",
    )


def _build_file_problem(problem: ManifestProblem) -> FileProblem:
    return FileProblem(_capitalize(problem.message), problem.line, problem.column, problem.path)


def _capitalize(message: str) -> str:
    return message[:1].upper() + message[1:]


def _list_referring_kinds(text: FileText) -> set[str]:
    node = FileNode(scope=text.scope, path=text.path)
    return {manifest.kind for manifest in _list_referring_manifests(node)} & set(_KIND_TITLES)


def _guess_kinds(value: object) -> list[str]:
    if not isinstance(value, Mapping):
        return []
    keys = {str(key).casefold() for key in value}
    if kinds := next(([kind] for kind, kind_keys in _DISTINCTIVE_KEYS if keys & kind_keys), []):
        return kinds
    wrapped = detect_wrapped_kind(value)
    return [wrapped] if wrapped else []


def _list_referring_manifests(node: FileNode) -> Iterator[Manifest]:
    """Return the manifests at or below a file's scope that reference the file, its folder or its contents."""
    rows = Manifest.objects.filter(store=FILE_STORE).select_related("service__scope")
    candidates = rows.filter(build_below_filter(node.scope, "service__scope"))
    # A reference to a path contains the first folder of the path, so the database can filter by it.
    begin = "/" + node.path.split("/")[1]
    if json.dumps(begin) == f'"{begin}"':
        candidates = candidates.annotate(paths_text=Cast("paths", TextField())).filter(
            paths_text__contains=begin
        )
    manifests = candidates.only(
        "kind", "paths", "service__variables", "service__scope", "service__name", "service__identifier"
    )
    return (manifest for manifest in manifests if _refers_to(manifest, node))


def _list_referring_overrides(node: FileNode) -> Iterator[ServiceOverride]:
    """Return the overrides at or below a file's scope that reference the file, its folder or its contents."""
    rows = ServiceOverride.objects.exclude(manifests=[]).filter(
        Q(build_below_filter(node.scope, "service__scope"))
        | Q(build_below_filter(node.scope, "environment__scope"))
    )
    for override in rows.select_related("service__scope", "environment__scope"):
        scope = get_deeper_scope(override.service.scope, override.environment.scope)
        refs = (ref for row in override.manifests if row["store"] == FILE_STORE for ref in row["paths"])
        if any(is_referred_to(str(ref), scope, node) for ref in refs):
            yield override


def _refers_to(manifest: Manifest, node: FileNode) -> bool:
    return any(is_referred_to(str(ref), manifest.service.scope, node) for ref in manifest.paths)


def is_referred_to(ref: str, scope: Scope, node: FileNode) -> bool:
    """Return whether a reference, written in a scope, names the file, its folder or its contents."""
    path = split_reference(ref)[1]
    is_same = path == node.path or node.path.startswith(f"{path}/")
    is_held = node.is_folder and path.startswith(f"{node.path}/")
    return (is_same or is_held) and is_reference_to(ref, scope, node.scope)
