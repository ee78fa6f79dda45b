"""Manifests and image of a service in words, for its page."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from catalog.forms.services import SOURCE_FIELDS, ServiceForm, build_service_spec
from catalog.manifests.documents import BadDocument, parse_manifest
from catalog.manifests.kinds import MANIFEST_KINDS, find_wrapper_key
from catalog.manifests.stores import INLINE, get_store, is_store
from catalog.models import Manifest, Service

LabeledValue = tuple[str, str]
# Fields of inline manifests that the page shows in words, by kind of manifest.
_SUMMARY_FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    Manifest.Kind.TASK_DEFINITION: {
        "family": "Family",
        "cpu": "CPU",
        "memory": "Memory",
        "networkMode": "Network mode",
        "requiresCompatibilities": "Launch types",
        "executionRoleArn": "Execution role",
        "taskRoleArn": "Task role",
        "containerDefinitions": "Containers",
    },
    Manifest.Kind.SERVICE_DEFINITION: {
        "serviceName": "ECS service",
        "desiredCount": "Desired tasks",
        "launchType": "Launch type",
        "capacityProviderStrategy": "Capacity providers",
        "loadBalancers": "Load balancers",
        "healthCheckGracePeriodSeconds": "Health check grace period",
    },
    Manifest.Kind.SCALABLE_TARGET: {"minCapacity": "Minimum tasks", "maxCapacity": "Maximum tasks"},
    Manifest.Kind.SCALING_POLICY: {"policyName": "Policy", "policyType": "Type"},
}
# The keys that name the entries of a list.
_ENTRY_NAMES: Final = ("name", "capacityProvider", "targetGroupArn", "loadBalancerName")
_MAX_ENTRIES: Final = 20
_MAX_CHARACTERS: Final = 300


@dataclass(frozen=True)
class ManifestDetails:
    """A manifest with its store, location and content in words; `text` is the text of an inline one."""

    manifest: Manifest
    store: str
    location: list[LabeledValue]
    summary: list[LabeledValue]
    text: str


def describe_manifests(service: Service) -> list[ManifestDetails]:
    """Return the manifests of a service in words."""
    return [_describe_manifest(manifest) for manifest in service.manifests.all()]


def describe_image_source(source: Mapping[str, Any]) -> list[LabeledValue]:
    """Return the registry of an image with the labels of its form; empty without a registry."""
    fields = ServiceForm.base_fields
    choices = dict(getattr(fields["source_type"], "choices", ()))
    return [
        (str(fields[name].label), str(choices.get(source[key], source[key])))
        for key, name in SOURCE_FIELDS.items()
        if source.get(key)
    ]


def render_service_json(service: Service) -> str:
    """Return the definition of a service as JSON."""
    spec = asdict(build_service_spec(service))
    return json.dumps(spec, indent=2, ensure_ascii=False, default=str)


def _describe_manifest(manifest: Manifest) -> ManifestDetails:
    if not is_store(manifest.store):
        return ManifestDetails(manifest, manifest.store, [], [], "")
    store = get_store(manifest.store)
    location = [
        (field.label, str(manifest.place[field.name]))
        for field in store.place_fields
        if manifest.place.get(field.name)
    ]
    text = manifest.content if manifest.store == INLINE else ""
    if manifest.content and not text:
        location.append((store.choice, manifest.content))
    return ManifestDetails(manifest, store.choice, location, _summarize_text(manifest.kind, text), text)


def _summarize_text(kind: str, text: str) -> list[LabeledValue]:
    """Return the main fields of a manifest; empty if it cannot be parsed."""
    try:
        value = parse_manifest(text, "manifest").value if text.strip() else None
    except BadDocument:
        return []
    if not isinstance(value, Mapping):
        return []
    if kind in MANIFEST_KINDS and (wrapper := find_wrapper_key(MANIFEST_KINDS[kind], value)):
        value = value[wrapper]
    if not isinstance(value, Mapping):
        return []
    # Manifests may begin keys with a capital letter, as in CloudFormation.
    values = {f"{key[:1].lower()}{key[1:]}": item for key, item in value.items() if isinstance(key, str)}
    return [
        (label, _format_value(values[key]))
        for key, label in _SUMMARY_FIELDS.get(kind, {}).items()
        if values.get(key) not in (None, "", [], {})
    ]


def _format_value(value: Any) -> str:
    items = value[:_MAX_ENTRIES] if isinstance(value, list) else [value]
    text = ", ".join(_format_entry(item) for item in items)
    more = (
        f" and {len(value) - _MAX_ENTRIES} more" if isinstance(value, list) and value[_MAX_ENTRIES:] else ""
    )
    return text[:_MAX_CHARACTERS] + ("…" if len(text) > _MAX_CHARACTERS else "") + more


def _format_entry(item: Any) -> str:
    if not isinstance(item, Mapping):
        return str(item)
    entry = {f"{key[:1].lower()}{key[1:]}": value for key, value in item.items() if isinstance(key, str)}
    name = next((str(entry[key]) for key in _ENTRY_NAMES if entry.get(key)), "one without a name")
    return f"{name} ({entry['image']})" if entry.get("image") else name
