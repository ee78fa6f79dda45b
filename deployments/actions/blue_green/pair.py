"""The actions that find blue and green, remember both, and refuse what cannot be deployed this way."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws.errors import Denied
from aws.types import EcsService
from deployments.actions.base import Action, ActionFailed, Rollout, action
from deployments.actions.blue_green.identity import Candidate, Pair, identify
from deployments.actions.blue_green.scaling import IN_SWAP, OLD_SERVICE, state_of
from deployments.actions.blue_green.traffic import groups_of, traffic_of
from deployments.actions.known_service import refuse_foreign_controller, snapshot_of
from deployments.actions.scaling.state import ScalingState, wanted_by


@action
@dataclass(frozen=True)
class CheckBlueGreenManifests(Action):
    """Refuse manifests that cannot work with the target group, before anything is changed (R226, R264)."""

    @property
    def title(self) -> str:
        return "Check the manifests against the target group"

    def start(self, rollout: Rollout) -> None:
        definition = rollout.recall("service definition")
        breaker = definition.get("deploymentConfiguration", {}).get("deploymentCircuitBreaker", {})
        if breaker.get("enable"):
            raise ActionFailed(
                "CIRCUIT_BREAKER_NOT_SUPPORTED",
                "The service definition enables deploymentCircuitBreaker, which is for rolling and canary "
                "deployments: in blue/green the version from before keeps running, and Slipway brings it "
                "back. Remove deploymentCircuitBreaker from the service definition.",
            )
        _refuse_other_port(rollout, rollout.recall("task definition"))


def _refuse_other_port(rollout: Rollout, task_definition: Mapping[str, Any]) -> None:
    traffic = traffic_of(rollout)
    ports = [
        mapping.get("containerPort")
        for container in task_definition.get("containerDefinitions", ())
        for mapping in container.get("portMappings", ())
    ]
    if traffic.port not in ports:
        found = ", ".join(str(port) for port in ports) or "none"
        raise ActionFailed(
            "PORT_MISMATCH",
            "Error: No container definition has port mapping that matches the target port: "
            f"{traffic.port} for target group: {traffic.stage_group}\n"
            f"Container ports of the task definition: {found}. Give both target groups the container's port, "
            "or the container the port of the target groups, and run the pipeline again.",
        )


@action
@dataclass(frozen=True)
class RememberPair(Action):
    """Tell blue from green and keep both as they are, before anything is changed (R193, R246)."""

    scaling_in_swap: bool = False

    @property
    def title(self) -> str:
        return "Find blue and green and remember them as they are"

    def start(self, rollout: Rollout) -> None:
        base = rollout.recall("service definition")["serviceName"]
        names = [f"{base}__1", f"{base}__2"]
        traffic = traffic_of(rollout)
        services = {one.name: one for one in rollout.ecs.describe_services(rollout.cluster, names)}
        active = {name: one for name, one in services.items() if one.is_active}
        tags = {name: _tags_of(rollout, one) for name, one in active.items()}
        found = [_candidate(one, tags[name]) for name, one in sorted(active.items())]
        pair = identify(found, prod=traffic.prod_groups, stage=traffic.stage_group)
        green = pair.green or next(name for name in names if name != pair.blue)
        _keep(rollout, pair, green, services, tags, names)
        rollout.remember(IN_SWAP, self.scaling_in_swap)
        if pair.blue:
            rollout.learn(**{OLD_SERVICE: pair.blue})
            scaling = state_of(rollout, pair.blue)
            rollout.remember("scaling of blue", scaling.to_memory())
            _warn_of_unknown_scaling(rollout, pair.blue, scaling)
        _tell(rollout, pair, green, services)

    def is_done(self, rollout: Rollout) -> bool:
        """A service of green's name that still drains would make CreateService fail (T20)."""
        before = rollout.recall("service before")
        if before is None or before["status"] != "DRAINING":
            return True
        return is_inactive(rollout, before["name"])


def _warn_of_unknown_scaling(rollout: Rollout, blue: str, scaling: ScalingState) -> None:
    """What somebody attached by hand stays with the old service: the new one must not lose it unnoticed."""
    if scaling.target is not None and not wanted_by(rollout):
        rollout.log(
            f"Service {blue} has auto scaling that is in no manifest, so the new version will have none. Add "
            "scalable target and scaling policy manifests to the service to carry it over.",
            "warning",
        )


def is_inactive(rollout: Rollout, name: str) -> bool:
    """One look at whether an ECS service that was deleted has gone (R223)."""
    if not rollout.progress.get("announced"):
        rollout.log(f"Waiting for existing Service {name} to reach inactive state")
        rollout.progress["announced"] = True
    service = rollout.see_service(name).service
    if service is not None and service.status != "INACTIVE":
        rollout.rest()
        return False
    rollout.log(f"Existing Service {name} reached inactive state")
    return True


def _tags_of(rollout: Rollout, service: EcsService) -> dict[str, str] | None:
    try:
        return rollout.ecs.tags(service.arn)
    except Denied as denied:
        rollout.log(
            f"{denied.sentence} Slipway tells blue from green without the tags of {service.name}.", "warning"
        )
        return None


def _candidate(service: EcsService, tags: dict[str, str] | None) -> Candidate:
    groups = tuple(groups_of(service.raw))
    return Candidate(service.name, groups, service.desired, service.running, tags or {})


def _keep(
    rollout: Rollout,
    pair: Pair,
    green: str,
    services: Mapping[str, EcsService],
    tags: Mapping[str, dict[str, str] | None],
    names: list[str],
) -> None:
    existing = services.get(green)
    blue = services.get(pair.blue)
    before = None if existing is None else snapshot_of(existing)
    rollout.remember("pair", {"names": names, "blue": pair.blue, "green": green, "tags": dict(tags)})
    rollout.remember("blue before", None if blue is None else snapshot_of(blue))
    rollout.remember("service before", before)
    for one in (existing, blue):
        if one is not None and one.is_active:
            refuse_foreign_controller(snapshot_of(one))
    rollout.learn(serviceName=green)


def _tell(rollout: Rollout, pair: Pair, green: str, services: Mapping[str, EcsService]) -> None:
    if pair.blue:
        blue = services[pair.blue]
        rollout.log(
            f"Service {pair.blue} receives production traffic ({blue.running}/{blue.desired} tasks of "
            f"{blue.task_definition}); it is not touched before the swap"
        )
    else:
        rollout.log("No Service receives production traffic yet")
    if pair.green:
        one = services[green]
        rollout.log(
            f"Service {green} receives none ({one.running}/{one.desired} tasks of {one.task_definition}); "
            "the new version takes its place"
        )
    else:
        rollout.log(f"Service {green} does not exist yet, it will be created; a rollback deletes it again")
    rollout.log("")
