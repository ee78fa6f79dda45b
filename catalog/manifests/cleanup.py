"""Cleanup of manifests copied from AWS or another tool: removes keys that no request accepts."""

import copy
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from aws.shapes import get_input_shape, get_parameter_names, get_response_shape, is_document_shape
from aws.validation.parameters import convert_value
from aws.validation.problems import ParameterPath
from catalog.manifests.documents import BadDocument, Document, parse_manifest
from catalog.manifests.kinds import MANIFEST_KINDS, SERVICE_DEFINITION, ManifestKind, find_wrapper_key
from catalog.manifests.yaml_drafts import IndentedDumper, NotEditable, YamlDraft

_INDENT_PATTERN = re.compile(r"^[\[{]\s*\n([ \t]+)\S")
# AWS shows these on the deployment that has them, not on the ECS service.
_DEPLOYMENT_KEYS = ("serviceConnectConfiguration", "volumeConfigurations", "vpcLatticeConfigurations")


@dataclass(frozen=True)
class CleanedText:
    """A text after cleanup, and a sentence for each change; none if it is unchanged."""

    text: str
    changes: tuple[str, ...]


def clean_up_manifest(kind: str, text: str, service_name: str = "") -> CleanedText:
    """Return a manifest in the format of AWS requests without wrapper and response keys, with types fixed.

    A service definition without a serviceName gets `service_name`, if given. Comments stay where possible.
    Raises `BadDocument` for an unreadable text, or one with several definitions.
    """
    document = parse_manifest(text, "manifest")
    draft = _parse_draft(text)
    value = copy.deepcopy(document.value) if draft is None else draft.value
    if not isinstance(value, dict):
        raise BadDocument("manifest", 1, 1, "a manifest is a mapping of keys to values")
    changes = _ManifestCleanup(MANIFEST_KINDS[kind], document).clean(value)
    if kind == SERVICE_DEFINITION and service_name and not value.get("serviceName"):
        value["serviceName"] = service_name
        changes.append(f"serviceName is {service_name}, the name of the service in Slipway.")
    if not changes:
        return CleanedText(text, ())
    return CleanedText(_render_text(text, value, draft), tuple(changes))


class _ManifestCleanup:
    """One cleanup; modifies the value in place."""

    def __init__(self, kind: ManifestKind, document: Document) -> None:
        self.kind = kind
        self.document = document
        self.definition_path: ParameterPath = ()
        """Where the definition is in the document."""
        self.response_keys: list[str] = []
        self.converted_keys: list[str] = []

    def clean(self, value: dict[str, Any]) -> list[str]:
        """Clean up a definition, and return the changes."""
        changes = [*self._unwrap(value), *self._copy_from_deployment(value)]
        shape = get_input_shape(self.kind.service, self.kind.operation)
        answer = get_response_shape(self.kind.service, *self.kind.answer)
        if ignored := [key for key in value if {key, _capitalize(key)} & set(self.kind.ignored)]:
            changes.append(f"Removed {_join_names(ignored)}: set by the deployment.")
            for key in ignored:
                del value[key]
        self._clean_value(value, shape, answer, ())
        if self.response_keys:
            changes.append(f"Removed {_join_names(self.response_keys)}: set only by AWS.")
        if self.converted_keys:
            changes.append(f"Wrote {_join_names(self.converted_keys)} in the type that AWS requires.")
        return changes

    def _unwrap(self, value: dict[str, Any]) -> Iterator[str]:
        key = find_wrapper_key(self.kind, value)
        if not key:
            return
        wrapped = value.pop(key)
        if isinstance(wrapped, list) and len(wrapped) > 1:
            line = self.document.get_line((key,)) or 1
            message = f'"{key}" holds {len(wrapped)} definitions: keep one'
            raise BadDocument("manifest", line, 1, message)
        inner = wrapped[0] if isinstance(wrapped, list) and wrapped else wrapped
        # DescribeTaskDefinition returns tags next to the definition.
        names = get_parameter_names(self.kind.service, self.kind.operation) - {"tags"}
        if not isinstance(inner, dict) or not inner or names & {*value, *map(_capitalize, value)}:
            yield f'Removed "{key}", which is part of the AWS response.'
            return
        self.definition_path = (key, 0) if isinstance(wrapped, list) else (key,)
        tags = value.get("tags")
        value.clear()
        value.update(inner)
        if tags and not value.get("tags"):
            value["tags"] = tags
        yield f'Took the definition out of "{key}", which is part of the AWS response.'

    def _copy_from_deployment(self, value: dict[str, Any]) -> Iterator[str]:
        """Copy the settings that a service response contains only in its deployments."""
        deployments = value.get("deployments")
        for deployment in deployments if isinstance(deployments, list) else ():
            if not isinstance(deployment, Mapping) or deployment.get("status") != "PRIMARY":
                continue
            keys = [key for key in _DEPLOYMENT_KEYS if deployment.get(key) and key not in value]
            value.update({key: deployment[key] for key in keys})
            if keys:
                yield f"Took {_join_names(keys)} from the primary deployment."

    def _clean_value(self, value: Any, shape: Any, answer: Any, path: ParameterPath) -> None:
        if is_document_shape(shape):
            return
        if shape.type_name == "structure" and isinstance(value, dict):
            for key in list(value):
                self._clean_member(value, key, shape, answer, path)
        elif shape.type_name in ("list", "map"):
            inner = shape.member if shape.type_name == "list" else shape.value
            members = getattr(answer, "member", None) or getattr(answer, "value", None)
            for key in _list_keys(value):
                self._convert_scalar(value, key, inner, members, (*path, key))

    def _clean_member(
        self, value: dict[str, Any], key: str, shape: Any, answer: Any, path: ParameterPath
    ) -> None:
        response_members = getattr(answer, "members", {})
        name = key if key in shape.members or key in response_members else _capitalize(key)
        if name in shape.members:
            self._convert_scalar(value, key, shape.members[name], response_members.get(name), (*path, key))
        elif name in response_members:
            del value[key]
            self.response_keys.append(key)

    def _convert_scalar(self, value: Any, key: Any, shape: Any, answer: Any, path: ParameterPath) -> None:
        inner = value[key]
        if isinstance(inner, dict | list):
            self._clean_value(inner, shape, answer, path)
            return
        spelling = self.document.number_texts.get((*self.definition_path, *path))
        # The intended spelling of True and False as text is unknown.
        fitted = inner if isinstance(inner, bool) else convert_value(shape, inner)
        if fitted is not inner and fitted != inner:
            value[key] = spelling or fitted
            self.converted_keys.append(str(path[-1]))


def _capitalize(key: str) -> str:
    return key[:1].upper() + key[1:]


def _list_keys(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value)
    return list(range(len(value))) if isinstance(value, list) else []


def _join_names(names: list[str]) -> str:
    unique = list(dict.fromkeys(names))
    return f"{', '.join(unique[:-1])} and {unique[-1]}" if len(unique) > 1 else unique[0]


def _parse_draft(text: str) -> YamlDraft | None:
    """Return the text as editable YAML; None for JSON, and for YAML that needs a rewrite."""
    if text.lstrip().startswith(("{", "[")):
        return None
    try:
        return YamlDraft(text)
    except NotEditable:
        return None


def _render_text(text: str, value: dict[str, Any], draft: YamlDraft | None) -> str:
    if text.lstrip().startswith(("{", "[")):
        indent = _INDENT_PATTERN.match(text.lstrip())
        return json.dumps(value, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"
    try:
        if draft is not None:
            return draft.render()
    except NotEditable:
        pass
    dumped = yaml.dump(value, Dumper=IndentedDumper, sort_keys=False, allow_unicode=True, width=4096)
    if parse_manifest(dumped, "manifest").value == value:
        return str(dumped)
    # Other YAML parsers may read the library's plain scalars as numbers; JSON is unambiguous YAML.
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
