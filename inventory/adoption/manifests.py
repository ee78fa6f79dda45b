"""Manifests read back from running ECS services."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aws.shapes import get_parameter_names
from inventory.drift.documents.differences import ServiceDocuments
from inventory.drift.documents.field_rules import (
    DEFAULTS,
    SCALABLE_TARGET,
    SCALING_POLICY,
    SERVICE_DEFINITION,
    TASK_DEFINITION,
    is_system_tag,
)
from steps.actions.blue_green.traffic import list_target_groups

_CREATE_OPERATIONS: Final = {
    TASK_DEFINITION: ("ecs", "RegisterTaskDefinition"),
    SERVICE_DEFINITION: ("ecs", "CreateService"),
    SCALABLE_TARGET: ("application-autoscaling", "RegisterScalableTarget"),
    SCALING_POLICY: ("application-autoscaling", "PutScalingPolicy"),
}
# A deployment fills these in, or AWS does.
_OMITTED_FIELDS: Final = {
    TASK_DEFINITION: frozenset({"tags"}),
    SERVICE_DEFINITION: frozenset({"cluster", "taskDefinition", "clientToken", "role"}),
    SCALABLE_TARGET: frozenset({"RoleARN", "ResourceId", "Tags"}),
    SCALING_POLICY: frozenset({"ResourceId"}),
}
_EMPTY_VALUES: Final[tuple[Any, ...]] = (None, "", {}, [])
_PAIR_SUFFIX: Final = re.compile(r"__[12]\Z")


@dataclass(frozen=True)
class ReadBackManifests:
    """What runs, as manifests; `warnings` say what to know before they are kept."""

    documents: ServiceDocuments
    warnings: tuple[str, ...]


def build_manifests(running: ServiceDocuments) -> ReadBackManifests:
    """The manifests of an ECS service with its task definition; both must be known."""
    service = _build_manifest(SERVICE_DEFINITION, running.service or {})
    if service.get("capacityProviderStrategy"):
        service.pop("launchType", None)
    tags = {key: value for key, value in running.tags.items() if not is_system_tag(key)}
    service.pop("tags", None)
    if tags:
        service["tags"] = [{"key": key, "value": value} for key, value in sorted(tags.items())]
    service["desiredCount"] = int((running.service or {}).get("desiredCount", 0))
    task_definition = _build_manifest(TASK_DEFINITION, running.task_definition or {})
    documents = ServiceDocuments(
        task_definition=task_definition,
        service=service,
        count=None if running.target else service["desiredCount"],
        target=_build_manifest(SCALABLE_TARGET, running.target) if running.target else None,
        policies={name: _build_manifest(SCALING_POLICY, one) for name, one in running.policies.items()},
        tags=tags,
    )
    return ReadBackManifests(documents, tuple(_list_warnings(documents)))


def is_blue_green_half(name: str, service: Mapping[str, Any]) -> bool:
    """Whether an ECS service is one of the two that a blue/green deployment changes between.

    It is called so, and is in one target group: with none or several, nothing could be swapped.
    """
    return bool(_PAIR_SUFFIX.search(name)) and len(list_target_groups(service)) == 1


def get_partner_name(name: str) -> str:
    """The name of the other one of such a pair."""
    return f"{name[:-1]}{'2' if name.endswith('1') else '1'}"


def get_base_name(name: str) -> str:
    """The name of such an ECS service as a manifest has it."""
    return _PAIR_SUFFIX.sub("", name)


def _build_manifest(kind: str, document: Mapping[str, Any]) -> dict[str, Any]:
    fields = get_parameter_names(*_CREATE_OPERATIONS[kind]) - _OMITTED_FIELDS[kind]
    kept = {key: value for key, value in document.items() if key in fields}
    found = _build_structure(kept, kind)
    if kind == TASK_DEFINITION and document.get("networkMode") in ("awsvpc", "host"):
        for container in found.get("containerDefinitions", ()):
            for mapping in container.get("portMappings", ()):
                if mapping.get("hostPort") == mapping.get("containerPort"):
                    mapping.pop("hostPort", None)
    return found


def _build_structure(value: Mapping[str, Any], under: str) -> dict[str, Any]:
    defaults = DEFAULTS.get(under, {})
    found = {key: _build_value(inner, key) for key, inner in value.items()}
    return {key: inner for key, inner in found.items() if not _is_omitted(inner, defaults.get(key), under)}


def _is_omitted(value: Any, default: Any, under: str) -> bool:
    if isinstance(value, bool):
        return value == bool(default)
    if default is not None and value == default:
        return True
    # An empty value of an environment variable is one too.
    is_pair = under in ("environment", "tags", "systemControls")
    return not is_pair and not isinstance(value, int | float) and value in _EMPTY_VALUES


def _build_value(value: Any, key: str) -> Any:
    if isinstance(value, Mapping):
        return _build_structure(value, key)
    if isinstance(value, list | tuple):
        return [_build_structure(one, key) if isinstance(one, Mapping) else one for one in value]
    return value


def _list_warnings(documents: ServiceDocuments) -> Iterator[str]:
    containers = (documents.task_definition or {}).get("containerDefinitions", ())
    names = [
        f"{container.get('name')}.{one.get('name')}"
        for container in containers
        for one in container.get("environment", ())
    ]
    if names:
        shown = ", ".join(names[:10]) + (" and more" if len(names) > 10 else "")
        yield (
            f"The values of environment variables become part of the manifest, where all who may see the "
            f"service can read them: {shown}. Move what is secret to a secret first."
        )


@dataclass(frozen=True)
class ArtifactImage:
    """The image that becomes the artifact of a service; without a tag it stays in the manifest."""

    container: str = ""
    image: str = ""
    tag: str = ""


def get_main_image(task_definition: Mapping[str, Any]) -> ArtifactImage:
    """The image of the first essential container, where it names a tag and no digest."""
    for container in task_definition.get("containerDefinitions", ()):
        if container.get("essential", True):
            image, _, tag = str(container.get("image", "")).rpartition(":")
            if image and "/" not in tag and "@" not in image:
                return ArtifactImage(str(container.get("name", "")), image, tag)
            return ArtifactImage()
    return ArtifactImage()


def insert_expressions(
    documents: ServiceDocuments, image: ArtifactImage, *, is_pair: bool
) -> ServiceDocuments:
    """The manifests to keep: the image is the artifact's, the target group of a pair that of its listener."""
    task_definition = dict(documents.task_definition or {})
    service = dict(documents.service or {})
    if image.image:
        task_definition["containerDefinitions"] = [
            {**one, "image": "<+primary.artifact.image>"} if one.get("name") == image.container else one
            for one in task_definition.get("containerDefinitions", ())
        ]
    if is_pair:
        service["serviceName"] = get_base_name(str(service.get("serviceName", "")))
        service["loadBalancers"] = [
            {**one, "targetGroupArn": "<+targetGroupArn>"} for one in service.get("loadBalancers", ())
        ]
    return ServiceDocuments(
        task_definition, service, documents.count, documents.target, documents.policies, documents.tags
    )
