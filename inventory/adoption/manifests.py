"""Manifests read back from running ECS services."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from aws.shapes import get_parameter_names
from catalog.manifests.checks import get_native_strategy
from catalog.models import Infrastructure, Service
from inventory.adoption.traffic.options import RuleCandidate, TrafficOption
from inventory.drift.documents.differences import ServiceDocuments
from inventory.drift.documents.field_rules import (
    DEFAULTS,
    SCALABLE_TARGET,
    SCALING_POLICY,
    SERVICE_DEFINITION,
    TASK_DEFINITION,
    is_system_tag,
)
from pipelines.pipeline_templates import render_pipeline_template
from steps.actions.blue_green.traffic import list_target_groups
from steps.actions.ecs_service.daemons import is_daemon
from steps.actions.ecs_service.snapshots import ECS, get_controller
from steps.strategies.registry import StrategySteps, add_controller_change

_CREATE_OPERATIONS: Final = {
    TASK_DEFINITION: ("ecs", "RegisterTaskDefinition"),
    SERVICE_DEFINITION: ("ecs", "CreateService"),
    SCALABLE_TARGET: ("application-autoscaling", "RegisterScalableTarget"),
    SCALING_POLICY: ("application-autoscaling", "PutScalingPolicy"),
}
# Fields that a deployment or AWS sets.
_OMITTED_FIELDS: Final = {
    TASK_DEFINITION: frozenset({"tags"}),
    SERVICE_DEFINITION: frozenset(
        {"cluster", "taskDefinition", "clientToken", "role", "deploymentController"}
    ),
    SCALABLE_TARGET: frozenset({"RoleARN", "ResourceId", "Tags"}),
    SCALING_POLICY: frozenset({"ResourceId"}),
}
_EMPTY_VALUES: Final[tuple[Any, ...]] = (None, "", {}, [])
_PAIR_SUFFIX: Final = re.compile(r"__[12]\Z")


@dataclass(frozen=True)
class ReadBackManifests:
    """The manifests of a running ECS service, with warnings for the reader."""

    documents: ServiceDocuments
    warnings: tuple[str, ...]


def build_manifests(running: ServiceDocuments) -> ReadBackManifests:
    """Build the manifests of an ECS service and its task definition; both must be known."""
    service = _build_manifest(SERVICE_DEFINITION, running.service or {})
    if service.get("capacityProviderStrategy"):
        service.pop("launchType", None)
    tags = {key: value for key, value in running.tags.items() if not is_system_tag(key)}
    service.pop("tags", None)
    if tags:
        service["tags"] = [{"key": key, "value": value} for key, value in sorted(tags.items())]
    if is_daemon(service):
        service.pop("desiredCount", None)
    else:
        service["desiredCount"] = int((running.service or {}).get("desiredCount", 0))
    task_definition = _build_manifest(TASK_DEFINITION, running.task_definition or {})
    documents = ServiceDocuments(
        task_definition=task_definition,
        service=service,
        count=None if running.target else service.get("desiredCount"),
        target=_build_manifest(SCALABLE_TARGET, running.target) if running.target else None,
        policies={name: _build_manifest(SCALING_POLICY, policy) for name, policy in running.policies.items()},
        tags=tags,
    )
    return ReadBackManifests(documents, tuple(_list_warnings(documents)))


def is_blue_green_half(name: str, service: Mapping[str, Any]) -> bool:
    """Return whether an ECS service is one half of a blue/green pair.

    Its name says so, and it has exactly one target group, which a swap of traffic needs. A service whose
    traffic ECS itself or CodeDeploy shifts, or of which each instance runs a task, is whole.
    """
    is_pair = get_controller(service) == ECS and not get_native_strategy(service) and not is_daemon(service)
    return is_pair and bool(_PAIR_SUFFIX.search(name)) and len(list_target_groups(service)) == 1


def get_partner_name(name: str) -> str:
    """Return the name of the other half of a pair."""
    return f"{name[:-1]}{'2' if name.endswith('1') else '1'}"


def get_base_name(name: str) -> str:
    """Return the manifest's name of one half of a pair."""
    return _PAIR_SUFFIX.sub("", name)


def _build_manifest(kind: str, document: Mapping[str, Any]) -> dict[str, Any]:
    fields = get_parameter_names(*_CREATE_OPERATIONS[kind]) - _OMITTED_FIELDS[kind]
    selected = {key: value for key, value in document.items() if key in fields}
    manifest = _build_structure(selected, kind)
    if kind == TASK_DEFINITION and document.get("networkMode") in ("awsvpc", "host"):
        for container in manifest.get("containerDefinitions", ()):
            for mapping in container.get("portMappings", ()):
                if mapping.get("hostPort") == mapping.get("containerPort"):
                    mapping.pop("hostPort", None)
    return manifest


def _build_structure(value: Mapping[str, Any], parent_key: str) -> dict[str, Any]:
    defaults = DEFAULTS.get(parent_key, {})
    built = {key: _build_value(inner, key) for key, inner in value.items()}
    return {
        key: inner for key, inner in built.items() if not _is_omitted(inner, defaults.get(key), parent_key)
    }


def _is_omitted(value: Any, default: Any, parent_key: str) -> bool:
    if isinstance(value, bool):
        return value == bool(default)
    if default is not None and value == default:
        return True
    # An empty environment variable is a value.
    is_pair = parent_key in ("environment", "tags", "systemControls")
    return not is_pair and not isinstance(value, int | float) and value in _EMPTY_VALUES


def _build_value(value: Any, key: str) -> Any:
    if isinstance(value, Mapping):
        return _build_structure(value, key)
    if isinstance(value, list | tuple):
        return [_build_structure(item, key) if isinstance(item, Mapping) else item for item in value]
    return value


def _list_warnings(documents: ServiceDocuments) -> Iterator[str]:
    containers = (documents.task_definition or {}).get("containerDefinitions", ())
    names = [
        f"{container.get('name')}.{variable.get('name')}"
        for container in containers
        for variable in container.get("environment", ())
    ]
    if names:
        listed = ", ".join(names[:10]) + (" and more" if len(names) > 10 else "")
        yield (
            "The manifest contains the values of these environment variables, readable by everyone who can "
            f"view the service: {listed}. Move sensitive values to secrets first."
        )


@dataclass(frozen=True)
class ArtifactImage:
    """The image that becomes a service's artifact; without a tag it stays in the manifest."""

    container: str = ""
    image: str = ""
    tag: str = ""


def get_main_image(task_definition: Mapping[str, Any]) -> ArtifactImage:
    """Return the image of the first essential container if it has a tag and no digest."""
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
    """Replace the artifact's image, and the target group of a pair, by expressions."""
    task_definition = dict(documents.task_definition or {})
    service = dict(documents.service or {})
    if image.image:
        task_definition["containerDefinitions"] = [
            {**item, "image": "<+primary.artifact.image>"} if item.get("name") == image.container else item
            for item in task_definition.get("containerDefinitions", ())
        ]
    if is_pair:
        service["serviceName"] = get_base_name(str(service.get("serviceName", "")))
        service["loadBalancers"] = [
            {**item, "targetGroupArn": "<+targetGroupArn>"} for item in service.get("loadBalancers", ())
        ]
    return ServiceDocuments(
        task_definition, service, documents.count, documents.target, documents.policies, documents.tags
    )


_CREATE_STEP: Final = "EcsBlueGreenCreateService"
_RUNTIME_INPUT: Final = "<+input>"
# Empty means the default rule of the listener.
_RUNTIME_INPUT_WITH_DEFAULT: Final = "<+input>.default()"
_LISTENER_INPUTS: Final = {
    "loadBalancer": _RUNTIME_INPUT,
    "prodListener": _RUNTIME_INPUT,
    "prodListenerRuleArn": _RUNTIME_INPUT_WITH_DEFAULT,
    "stageListener": _RUNTIME_INPUT,
    "stageListenerRuleArn": _RUNTIME_INPUT_WITH_DEFAULT,
}


def render_pipeline(
    strategy: str,
    infrastructure: Infrastructure,
    service: Service,
    choice: TrafficOption | None = None,
    *,
    handed_over: str = "",
) -> str:
    """Render a pipeline with one stage; unknown listeners become runtime variables.

    `handed_over` names an ECS service that another controller deploys: ECS takes it over first.
    """
    text = render_pipeline_template(
        strategy,
        service=service.identifier,
        environment=infrastructure.environment.identifier,
        infrastructure=infrastructure.identifier,
        title=service.name,
    )
    document = yaml.safe_load(text)
    pipeline = document["pipeline"]
    for stage in pipeline["stages"]:
        execution = stage["stage"]["spec"]["execution"]
        if handed_over:
            own_steps = StrategySteps(tuple(execution["steps"]), tuple(execution["rollbackSteps"]))
            steps = add_controller_change(own_steps, handed_over)
            execution |= {"steps": list(steps.steps), "rollbackSteps": list(steps.rollback_steps)}
        for step in execution["steps"]:
            if step["step"]["type"] == _CREATE_STEP:
                settings = _build_listener_settings(choice)
                inputs = {name: value for name, value in _LISTENER_INPUTS.items() if name not in settings}
                expressions = {name: f"<+pipeline.variables.{name}>" for name in inputs}
                step["step"]["spec"] = {name: {**settings, **expressions}[name] for name in _LISTENER_INPUTS}
                pipeline |= {"variables": inputs} if inputs else {}
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))


def _build_listener_settings(choice: TrafficOption | None) -> dict[str, str]:
    """Return the step settings that were read back."""
    if choice is None:
        return {}
    production, stage = choice.production, choice.stage
    settings = {"loadBalancer": production.balancer, **_build_rule_settings("prod", production)}
    return {**settings, **_build_rule_settings("stage", stage)} if stage else settings


def _build_rule_settings(prefix: str, rule: RuleCandidate) -> dict[str, str]:
    return {f"{prefix}Listener": rule.listener, f"{prefix}ListenerRuleArn": rule.rule}
