"""Fields of an ECS service that an update may change, and the update that restores them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aws.apis.ecs import EcsClient, select_update_fields
from aws.apis.ecs_types import EcsService

# AWS shows these on the deployment that has them, not on the ECS service.
DEPLOYMENT_FIELDS = ("serviceConnectConfiguration", "volumeConfigurations", "vpcLatticeConfigurations")
# AWS shows these on service revisions alone.
REVISION_FIELDS = ("gatewayConnectors", "monitoring")
# A change of any starts a deployment (UpdateService API).
_DEPLOYING_FIELDS = {
    *DEPLOYMENT_FIELDS,
    *REVISION_FIELDS,
    "forceNewDeployment",
    "loadBalancers",
    "networkConfiguration",
    "platformVersion",
    "serviceRegistries",
}
_MANAGED_FIELDS = {"taskDefinition", "desiredCount", "deploymentController"}
# Values that reset a field; an update that omits a field keeps its current value (UpdateService API).
_RESET_VALUES: dict[str, Any] = {
    "healthCheckGracePeriodSeconds": 0,
    "serviceConnectConfiguration": {"enabled": False},
    "enableExecuteCommand": False,
    "enableECSManagedTags": False,
    "propagateTags": "NONE",
    "platformVersion": "LATEST",
    "monitoring": {"metricConfigurations": []},
    # AWS treats services without a value as disabled.
    "availabilityZoneRebalancing": "DISABLED",
}
_CONFIGURATION_RESET_VALUES: dict[str, Any] = {
    "alarms": {"alarmNames": [], "enable": False, "rollback": False},
    "earlySuccessCriteria": {"enable": False},
    "lifecycleHooks": [],
}
_IMMUTABLE_FIELDS = {
    "launchType": "launchType",
    "schedulingStrategy": "schedulingStrategy",
    "role": "roleArn",
}


def merge_deployment_fields(service: EcsService) -> dict[str, Any]:
    """Return the response fields of an ECS service together with those of its PRIMARY deployment."""
    raw = {key: value for key, value in service.raw.items() if key not in ("events", "deployments")}
    for deployment in service.raw.get("deployments", []):
        if deployment.get("status") == "PRIMARY":
            raw |= {key: deployment[key] for key in DEPLOYMENT_FIELDS if deployment.get(key)}
    return raw


def read_revision_fields(
    ecs: EcsClient, definition: Mapping[str, Any], service: EcsService
) -> dict[str, Any]:
    """Return REVISION_FIELDS of the newest current revision; empty, without a call, if not to be changed."""
    arns = [revision["arn"] for revision in service.raw.get("currentServiceRevisions") or ()]
    if not arns or not any(key in definition for key in REVISION_FIELDS):
        return {}
    newest = max(ecs.describe_service_revisions(arns), key=lambda item: str(item.created_at), default=None)
    return {} if newest is None else {key: newest.raw.get(key) for key in REVISION_FIELDS}


def select_changeable_fields(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a service definition that an update sends, without counts and task definition."""
    return {
        key: value for key, value in select_update_fields(definition).items() if key not in _MANAGED_FIELDS
    }


def requires_new_deployment(definition: Mapping[str, Any], live: EcsService | None) -> bool:
    """Return whether AWS accepts these fields only together with forceNewDeployment (UpdateService API)."""
    strategy = definition.get("capacityProviderStrategy")
    if strategy is None or live is None:
        return strategy is not None
    return _fill_in_strategy(strategy) != _fill_in_strategy(live.raw.get("capacityProviderStrategy") or ())


def _fill_in_strategy(strategy: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a capacity provider strategy with the defaults that AWS adds to it, in one order."""
    filled_in = [{"weight": 0, "base": 0, **item} for item in strategy]
    return sorted(filled_in, key=lambda item: str(item.get("capacityProvider")))


def select_restored_fields(
    definition: Mapping[str, Any], before: Mapping[str, Any], live: EcsService | None
) -> dict[str, Any]:
    """Return the fields of the definition that an undo has to restore to their values in `before`.

    `live` is None if no read can be trusted: then all fields.
    """
    now = None if live is None else merge_deployment_fields(live)
    changes = {}
    for key, definition_value in sorted(select_changeable_fields(definition).items()):
        if key in REVISION_FIELDS and key not in before:
            continue
        earlier = _convert_to_parameter(key, before.get(key), definition_value)
        if earlier is None:
            continue
        is_hidden = now is None or key in REVISION_FIELDS
        current = None if now is None else _convert_to_parameter(key, now.get(key), definition_value)
        if is_hidden or earlier != current:
            changes[key] = earlier
    if requires_new_deployment(changes, live):
        changes["forceNewDeployment"] = True
    return changes


def build_restoring_update(
    definition: Mapping[str, Any],
    before: Mapping[str, Any],
    live: EcsService | None,
    *,
    count: int | None,
    task_definition: str,
) -> dict[str, Any]:
    """Return the smallest update that restores an ECS service.

    `before` is the result of `build_snapshot`, `count` None leaves the desired count unchanged, and `live` is
    None if no read can be trusted.
    """
    changes = select_restored_fields(definition, before["raw"], live)
    if count is not None and (live is None or live.desired != count):
        changes["desiredCount"] = count
    has_task_definition = (
        live is not None and live.primary is not None and live.primary.task_definition == task_definition
    )
    # Without its answer, an update that starts a deployment is recognized by the task definition.
    if not has_task_definition or changes.keys() & _DEPLOYING_FIELDS:
        changes["taskDefinition"] = task_definition
    return changes


def _convert_to_parameter(key: str, returned_value: Any, definition_value: Any) -> Any:
    """Return the update parameter that results in `returned_value`; None if there is none."""
    if key == "deploymentConfiguration" and returned_value:
        absent = {
            name: value for name, value in _CONFIGURATION_RESET_VALUES.items() if name in definition_value
        }
        return {**absent, **returned_value}
    if returned_value not in (None, [], {}):
        return returned_value
    return _RESET_VALUES.get(key, [] if isinstance(definition_value, list) else None)


def list_ignored_fields(definition: Mapping[str, Any], live: EcsService) -> Iterator[str]:
    """Yield a sentence for each differing field that AWS accepts only at creation of a service (R241)."""
    for key, returned_key in _IMMUTABLE_FIELDS.items():
        current = live.raw.get(returned_key)
        if (
            key in definition
            and current
            and str(current).rsplit("/", 1)[-1] != str(definition[key]).rsplit("/", 1)[-1]
        ):
            yield (
                f"{key} stays {current}: AWS takes it only when a service is created. "
                f"Delete Service {live.name} first to have {definition[key]}."
            )
