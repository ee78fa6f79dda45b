"""Fields of an ECS service that an update may change, and the update that restores them."""

from collections.abc import Iterator, Mapping
from typing import Any

from aws.apis.ecs import select_update_fields
from aws.apis.ecs_types import EcsService

# AWS shows these on the deployment that has them, not on the ECS service.
DEPLOYMENT_FIELDS = ("serviceConnectConfiguration", "volumeConfigurations", "vpcLatticeConfigurations")
_MANAGED_FIELDS = {"taskDefinition", "desiredCount", "deploymentController"}
# What an update says where a field was not there before: leaving it out would keep ours (UpdateService API).
_RESET_VALUES: dict[str, Any] = {
    "healthCheckGracePeriodSeconds": 0,
    "serviceConnectConfiguration": {"enabled": False},
    "enableExecuteCommand": False,
    "enableECSManagedTags": False,
    "propagateTags": "NONE",
    "platformVersion": "LATEST",
}
_IMMUTABLE_FIELDS = {
    "launchType": "launchType",
    "schedulingStrategy": "schedulingStrategy",
    "role": "roleArn",
}


def merge_deployment_fields(service: EcsService) -> dict[str, Any]:
    """Return an ECS service as AWS answered it, with what it shows on its PRIMARY deployment only."""
    raw = {key: value for key, value in service.raw.items() if key not in ("events", "deployments")}
    for one in service.raw.get("deployments", []):
        if one.get("status") == "PRIMARY":
            raw |= {key: one[key] for key in DEPLOYMENT_FIELDS if one.get(key)}
    return raw


def select_changeable_fields(definition: Mapping[str, Any]) -> dict[str, Any]:
    """What of a service definition an update sends; counts and the task definition are decided elsewhere."""
    return {
        key: value for key, value in select_update_fields(definition).items() if key not in _MANAGED_FIELDS
    }


def requires_new_deployment(definition: Mapping[str, Any], live: EcsService | None) -> bool:
    """Return whether AWS takes these fields only together with forceNewDeployment (UpdateService API)."""
    asked = definition.get("capacityProviderStrategy")
    return asked is not None and (live is None or asked != live.raw.get("capacityProviderStrategy", []))


def select_restored_fields(
    definition: Mapping[str, Any], before: Mapping[str, Any], live: EcsService | None
) -> dict[str, Any]:
    """Return the fields of the definition that an undo has to put back to what they were `before`.

    `live` is None where no read can be trusted: all of them.
    """
    now = None if live is None else merge_deployment_fields(live)
    changes = {}
    for key, given in sorted(select_changeable_fields(definition).items()):
        was = _convert_to_parameter(key, before.get(key), given)
        if was is not None and (now is None or was != _convert_to_parameter(key, now.get(key), given)):
            changes[key] = was
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
    """Return the update that makes an ECS service what it was, as small as `live` shows that it can be.

    `before` is what `build_snapshot` gave, `count` None where the desired count is left alone, and `live`
    None where no read can be trusted.
    """
    changes = select_restored_fields(definition, before["raw"], live)
    if count is not None and (live is None or live.desired != count):
        changes["desiredCount"] = count
    if live is None or live.primary is None or live.primary.task_definition != task_definition:
        changes["taskDefinition"] = task_definition
    return changes


def _convert_to_parameter(key: str, shown: Any, given: Any) -> Any:
    """What an update asks for to have a field as AWS shows it; None where that cannot be asked for."""
    if shown not in (None, [], {}):
        return shown
    return _RESET_VALUES.get(key, [] if isinstance(given, list) else None)


def list_ignored_fields(definition: Mapping[str, Any], live: EcsService) -> Iterator[str]:
    """A sentence for each field that AWS takes only when it creates a service, and that differs (R241)."""
    for key, shown in _IMMUTABLE_FIELDS.items():
        was = live.raw.get(shown)
        if (
            key in definition
            and was
            and str(was).rsplit("/", 1)[-1] != str(definition[key]).rsplit("/", 1)[-1]
        ):
            yield (
                f"{key} stays {was}: AWS takes it only when a service is created. "
                f"Delete Service {live.name} first to have {definition[key]}."
            )
