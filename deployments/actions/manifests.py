"""The action that reads a service's manifests and refuses bad ones before anything is written to AWS."""

from dataclasses import dataclass

from deployments.actions.base import Action, ActionFailed, Loaded, Rollout, Source, action
from deployments.actions.scaling.state import POLICIES, TARGETS

TASK_DEFINITION = "EcsTaskDefinition"
SERVICE_DEFINITION = "EcsServiceDefinition"
SCALABLE_TARGET = "EcsScalableTargetDefinition"
SCALING_POLICY = "EcsScalingPolicyDefinition"
_KINDS = (TASK_DEFINITION, SERVICE_DEFINITION, SCALABLE_TARGET, SCALING_POLICY)


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
        targets = _fetch_all(rollout, SCALABLE_TARGET)
        policies = _fetch_all(rollout, SCALING_POLICY)
        stores = {source.store for kind in _KINDS for source in rollout.sources(kind)}
        rollout.log(f"Fetched all manifests from {' and '.join(sorted(stores))}")
        for loaded in (task_definition, service_definition, *targets, *policies):
            for warning in loaded.warnings:
                rollout.log(warning, "warning")
        _refuse_what_others_deploy(service_definition)
        rollout.remember("task definition", task_definition.value)
        rollout.remember("service definition", service_definition.value)
        rollout.learn(serviceName=service_definition.value["serviceName"])
        _keep_scaling(rollout, targets, policies)


def _fetch(rollout: Rollout, kind: str) -> Loaded:
    sources = rollout.sources(kind)
    if not sources:
        raise ActionFailed(
            "MANIFEST_MISSING", f"The service has no {kind} manifest. Add one to the service and run again."
        )
    _announce(rollout, kind, sources[0])
    loaded = rollout.load(kind)
    _tell_files(rollout, loaded)
    return loaded


def _tell_files(rollout: Rollout, loaded: Loaded) -> None:
    rollout.log("Successfully fetched following files:")
    for path in loaded.paths:
        rollout.log(f"- {path}")
    for override in loaded.overrides:
        rollout.log(f"Laid over it: the override {override}")
    rollout.log("")


def _fetch_all(rollout: Rollout, kind: str) -> tuple[Loaded, ...]:
    """Every manifest of a kind of which a service may have none, or several."""
    sources = rollout.sources(kind)
    found = rollout.load_all(kind) if sources else ()
    for source, loaded in zip(sources, found, strict=True):
        _announce(rollout, kind, source)
        _tell_files(rollout, loaded)
    return found


def _keep_scaling(rollout: Rollout, targets: tuple[Loaded, ...], policies: tuple[Loaded, ...]) -> None:
    if len(targets) > 1:
        rollout.log(
            f"The service has {len(targets)} scalable targets, but an ECS service has one: "
            f"the last one counts ({', '.join(targets[-1].paths)})",
            "warning",
        )
    names = [loaded.value["PolicyName"] for loaded in policies]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ActionFailed(
            "BAD_MANIFEST",
            f"Two scaling policies of the service are called {twice[0]}: AWS tells them apart by PolicyName.",
        )
    rollout.remember(TARGETS, [loaded.value for loaded in targets])
    rollout.remember(POLICIES, [loaded.value for loaded in policies])


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
