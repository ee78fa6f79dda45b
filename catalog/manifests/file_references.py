"""What manifests mean for the file store: who refers to a file, and as what its text is checked."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.db.models import Q, TextField
from django.db.models.functions import Cast
from django.urls import reverse

from aws.rules.base import NAME
from catalog.effective.resolution import deeper
from catalog.manifests.check import ManifestProblem, check_manifest
from catalog.manifests.cleaning import clean_up_manifest
from catalog.manifests.document import BadDocument, Document, parse_manifest
from catalog.manifests.guide import manifest_guide
from catalog.manifests.kinds import (
    RUN_TASK_REQUEST,
    SCALABLE_TARGET,
    SCALING_POLICY,
    SERVICE_DEFINITION,
    TASK_DEFINITION,
    kind_of_wrapped,
)
from catalog.models import Infrastructure, Manifest, Service, ServiceOverride
from catalog.usage import by_overrides, by_services, refuse_undeployable
from connectors.file_checks import (
    CleanedFile,
    FileCheck,
    FileKind,
    FileProblem,
    FileText,
    file_kind,
    language_of,
)
from connectors.files import means, split_reference
from connectors.models import Connector, FileNode
from connectors.uses import Thing, Use, Uses, uses
from rbac.models import Scope, User
from rbac.policy import Principal, at_or_below, can, visible_to
from web.problems import BadInput

_FILE_STORE = "FileStore"
_SPOKEN = {
    TASK_DEFINITION: "a task definition",
    SERVICE_DEFINITION: "a service definition",
    SCALABLE_TARGET: "a scalable target",
    SCALING_POLICY: "a scaling policy",
    RUN_TASK_REQUEST: "a RunTask request",
}
# What only one kind of manifest has; asked in this order.
_TELLING_KEYS = (
    (TASK_DEFINITION, {"containerdefinitions"}),
    (SCALING_POLICY, {"policyname", "policytype"}),
    (SCALABLE_TARGET, {"mincapacity", "maxcapacity"}),
    (SERVICE_DEFINITION, {"servicename", "desiredcount", "deploymentconfiguration"}),
    (RUN_TASK_REQUEST, {"count", "overrides"}),
    (SERVICE_DEFINITION, {"networkconfiguration"}),
)


@uses
def services_with(thing: Thing, principal: Principal) -> Uses:
    """The services whose manifests are this file, lie in this folder, or come from the folder it is in."""
    if not isinstance(thing, FileNode):
        return Uses()
    found = {one.service_id for one in _manifests_of(thing)}
    return by_services(found, principal)


@uses
def overrides_with(thing: Thing, principal: Principal) -> Uses:
    """The overrides whose manifests are this file, lie in this folder, or come from the folder it is in."""
    if not isinstance(thing, FileNode):
        return Uses()
    found = {one.pk for one in _overrides_of(thing)}
    return by_overrides(found, principal)


@uses
def infrastructures_with(thing: Thing, principal: Principal) -> Uses:
    """The infrastructures that are reached by a connector, or by one that enters with a secret."""
    if isinstance(thing, FileNode):
        return Uses()
    by = {"connector": thing} if isinstance(thing, Connector) else {"connector__secret": thing}
    found = Infrastructure.objects.filter(**by).select_related("environment")
    seen = visible_to(principal, "core_environment_view", found).order_by("environment__identifier", "name")
    shown = tuple(
        Use(
            f"infrastructure {one.name} of {one.environment.name}",
            reverse("environment", args=[one.environment_id]),
        )
        for one in seen
    )
    return Uses(shown, hidden=found.count() - len(shown))


def check_text(text: FileText) -> FileCheck | None:
    """Check YAML and JSON, and what is a manifest as AWS would: by who refers to it, else by its keys."""
    if language_of(text.path) == "text":
        return None
    document = _read(text.content, text.path.rsplit("/", 1)[-1], empty="The file is empty.")
    if isinstance(document, FileCheck):
        return document
    wanted = sorted(_kinds_wanted(text))
    if not wanted and any(_overrides_of(FileNode(scope=text.scope, path=text.path))):
        return FileCheck(note="It can be read. It is checked where it overrides a manifest.")
    kinds = wanted or _kinds_guessed(document.value)
    return _check_as(kinds, document) if kinds else FileCheck(note="It can be read.")


def check_kind(kind: str, text: str) -> FileCheck:
    """Check the text of an inline manifest as the kind that it is."""
    document = _read(text, "manifest", empty="Nothing is written yet.")
    return document if isinstance(document, FileCheck) else _check_as([kind], document)


def _read(text: str, name: str, *, empty: str) -> Document | FileCheck:
    """The document, or what to say of a text that is none."""
    if not text.strip():
        return FileCheck(note=empty)
    try:
        return parse_manifest(text, name)
    except BadDocument as bad:
        return FileCheck((FileProblem(_sentence(bad.message), bad.line, bad.column),))


def guide_text(text: FileText) -> dict[str, Any] | None:
    """What may be written in a manifest; None for what is none."""
    if language_of(text.path) == "text":
        return None
    kinds = sorted(_kinds_wanted(text)) or _kinds_guessed(_value_of(text.content))
    if not kinds:
        return None
    node = FileNode(scope=text.scope, path=text.path)
    users = [one.service for one in _manifests_of(node)]
    return manifest_guide(kinds[0], {str(name) for service in users for name in service.variables})


def clean_text(text: FileText, reader: Principal, service: str) -> CleanedFile | None:
    """Clean a manifest up; None for what is none. Raises `BadInput` for what cannot be read.

    Without the name of a `service` it is that of the only one whose manifest the file is, where the reader
    may see it.
    """
    if language_of(text.path) == "text":
        return None
    kinds = sorted(_kinds_wanted(text)) or _kinds_guessed(_value_of(text.content))
    if not kinds:
        return None
    users = {one.service for one in _manifests_of(FileNode(scope=text.scope, path=text.path))}
    if not service and len(users) == 1 and can(reader, "core_service_view", only := users.pop()):
        service = ecs_name_of(only)
    return clean_kind(kinds[0], text.content, service)


def clean_kind(kind: str, text: str, service: str) -> CleanedFile:
    """Clean up the text of a manifest of a kind. Raises `BadInput` with the place for what cannot be read."""
    try:
        cleaned = clean_up_manifest(kind, text, service)
    except BadDocument as bad:
        message = f"Line {bad.line}, column {bad.column}: {bad.message}."
        error = {"path": "content", "message": bad.message, "line": bad.line, "column": bad.column}
        raise BadInput(message, errors=[error]) from bad
    return CleanedFile(text, cleaned.text, cleaned.changes)


def ecs_name_of(service: Service) -> str:
    """The name of a service, or its identifier where ECS would not take the name."""
    return service.name if NAME.match(service.name) else service.identifier


def refuse_undeployable_file(node: FileNode, actor: User) -> None:
    """Raise `BadInput` where a service whose definition is this file could never be deployed with it."""
    found = {one.service for one in _manifests_of(node) if one.kind == SERVICE_DEFINITION}
    found |= {
        one.service
        for one in _overrides_of(node)
        if any(row["kind"] == SERVICE_DEFINITION for row in one.manifests)
    }
    for service in sorted(found, key=lambda one: one.pk):
        refuse_undeployable(service, actor)


file_kind(FileKind(check_text, guide_text, refuse_undeployable_file, clean_text))


def _value_of(content: str) -> Any:
    try:
        return parse_manifest(content, "a file").value
    except BadDocument:
        return None


def _check_as(kinds: Iterable[str], document: Document) -> FileCheck:
    checked = [check_manifest(kind, document) for kind in kinds]
    spoken = " and ".join(_SPOKEN[kind] for kind in kinds)
    return FileCheck(
        tuple(_problem(one) for each in checked for one in each.problems),
        tuple(_problem(one) for each in checked for one in each.warnings),
        f"Checked as {spoken}.",
    )


def _problem(found: ManifestProblem) -> FileProblem:
    return FileProblem(_sentence(found.message), found.line, found.column, found.path)


def _sentence(message: str) -> str:
    return message[:1].upper() + message[1:]


def _kinds_wanted(text: FileText) -> set[str]:
    node = FileNode(scope=text.scope, path=text.path)
    return {one.kind for one in _manifests_of(node)} & set(_SPOKEN)


def _kinds_guessed(value: object) -> list[str]:
    if not isinstance(value, Mapping):
        return []
    keys = {str(key).casefold() for key in value}
    if found := next(([kind] for kind, telling in _TELLING_KEYS if keys & telling), []):
        return found
    wrapped = kind_of_wrapped(value)
    return [wrapped] if wrapped else []


def _manifests_of(node: FileNode) -> Iterator[Manifest]:
    """The manifests at a file's scope or below it that refer to the file, its folder, or what it holds."""
    rows = Manifest.objects.filter(store=_FILE_STORE).select_related("service__scope")
    here = rows.filter(at_or_below(node.scope, "service__scope"))
    # Whoever touches a path names the folder that it begins with: the database leaves out the rest.
    begin = "/" + node.path.split("/")[1]
    if json.dumps(begin) == f'"{begin}"':
        here = here.annotate(written=Cast("paths", TextField())).filter(written__contains=begin)
    found = here.only(
        "kind", "paths", "service__variables", "service__scope", "service__name", "service__identifier"
    )
    return (one for one in found if _touches(one, node))


def _overrides_of(node: FileNode) -> Iterator[ServiceOverride]:
    """The overrides at a file's scope or below it that refer to the file, its folder, or what it holds."""
    rows = ServiceOverride.objects.exclude(manifests=[]).filter(
        Q(at_or_below(node.scope, "service__scope")) | Q(at_or_below(node.scope, "environment__scope"))
    )
    for one in rows.select_related("service__scope", "environment__scope"):
        scope = deeper(one.service.scope, one.environment.scope)
        refs = (ref for row in one.manifests if row["store"] == _FILE_STORE for ref in row["paths"])
        if any(is_touched(str(ref), scope, node) for ref in refs):
            yield one


def _touches(manifest: Manifest, node: FileNode) -> bool:
    return any(is_touched(str(ref), manifest.service.scope, node) for ref in manifest.paths)


def is_touched(ref: str, scope: Scope, node: FileNode) -> bool:
    """Whether a reference, written in a scope, means the file, its folder, or what it holds."""
    path = split_reference(ref)[1]
    is_same = path == node.path or node.path.startswith(f"{path}/")
    is_held = node.is_folder and path.startswith(f"{node.path}/")
    return (is_same or is_held) and means(ref, scope, node.scope)
