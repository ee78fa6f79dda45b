"""The action that reads a service's manifests and refuses bad ones before anything is written to AWS."""

from dataclasses import dataclass

from deployments.actions.base import Action, ActionFailed, Loaded, Rollout, Source, action

TASK_DEFINITION = "EcsTaskDefinition"
SERVICE_DEFINITION = "EcsServiceDefinition"


@action
@dataclass(frozen=True)
class FetchManifests(Action):
    """Fetch the task definition and the service definition, fill in expressions, check them (R192)."""

    @property
    def title(self) -> str:
        return "Fetch and check the manifests"

    def start(self, rollout: Rollout) -> None:
        task_definition = _fetch(rollout, TASK_DEFINITION)
        service_definition = _fetch(rollout, SERVICE_DEFINITION)
        stores = {
            source.store for kind in (TASK_DEFINITION, SERVICE_DEFINITION) for source in rollout.sources(kind)
        }
        rollout.log(f"Fetched all manifests from {' and '.join(sorted(stores))}")
        for warning in (*task_definition.warnings, *service_definition.warnings):
            rollout.log(warning, "warning")
        _refuse_what_others_deploy(service_definition)
        rollout.remember("task definition", task_definition.value)
        rollout.remember("service definition", service_definition.value)
        rollout.learn(serviceName=service_definition.value["serviceName"])


def _fetch(rollout: Rollout, kind: str) -> Loaded:
    sources = rollout.sources(kind)
    if not sources:
        raise ActionFailed(
            "MANIFEST_MISSING", f"The service has no {kind} manifest. Add one to the service and run again."
        )
    _announce(rollout, kind, sources[0])
    loaded = rollout.load(kind)
    rollout.log("Successfully fetched following files:")
    for path in loaded.paths:
        rollout.log(f"- {path}")
    for override in loaded.overrides:
        rollout.log(f"Laid over it: the override {override}")
    rollout.log("")
    return loaded


def _announce(rollout: Rollout, kind: str, source: Source) -> None:
    rollout.log(f"Fetching {kind} from {source.store}")
    rollout.log("")
    rollout.log(f"Fetching {kind} files with identifier: {source.identifier}")
    rollout.log("Fetching following Files :")
    for path in source.paths:
        rollout.log(f"- {path}")


def _refuse_what_others_deploy(definition: Loaded) -> None:
    """A rolling deployment can only be followed where ECS itself replaces tasks of a replica service."""
    value = definition.value
    controller = value.get("deploymentController", {}).get("type", "ECS")
    strategy = value.get("deploymentConfiguration", {}).get("strategy", "ROLLING")
    if controller != "ECS":
        raise ActionFailed(
            "CONTROLLER_NOT_SUPPORTED",
            f"The service definition asks for the {controller} deployment controller, which deploys by other "
            "means. Remove deploymentController, or deploy this ECS service with that controller.",
        )
    if strategy != "ROLLING":
        raise ActionFailed(
            "STRATEGY_NOT_SUPPORTED",
            f"The service definition asks AWS for its own {strategy} strategy. A rolling step needs "
            "deploymentConfiguration.strategy ROLLING (or none).",
        )
    if value.get("schedulingStrategy", "REPLICA") != "REPLICA":
        raise ActionFailed(
            "SCHEDULING_NOT_SUPPORTED",
            "The service definition asks for DAEMON scheduling, which has no desired count to follow. "
            "Use schedulingStrategy REPLICA.",
        )
