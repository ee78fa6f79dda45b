"""Actions that identify and save the blue/green pair, and validate its manifests."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws.apis.ecs_types import EcsService
from aws.errors import Denied
from steps.actions.base import Action, ActionFailed, action
from steps.actions.blue_green.auto_scaling import ATTACH_IN_SWAP, OLD_SERVICE, read_scaling_if_allowed
from steps.actions.blue_green.identity import BlueGreenCandidate, BlueGreenPair, ServiceFamily, identify_pair
from steps.actions.blue_green.listener_rules import format_target_group
from steps.actions.blue_green.target_groups import get_expression_name
from steps.actions.blue_green.target_owners import (
    TargetOwners,
    read_target_owners,
    refuse_foreign_services,
    refuse_foreign_targets,
)
from steps.actions.blue_green.traffic import (
    BlueGreenTraffic,
    find_live_groups,
    list_target_groups,
    load_traffic,
)
from steps.actions.context import StepContext
from steps.actions.ecs_service.snapshots import build_snapshot, refuse_foreign_controller
from steps.actions.scaling_state import ScalingState, get_manifest_scaling


@action
@dataclass(frozen=True)
class CheckBlueGreenManifests(Action):
    """Refuse manifests that do not fit the target groups, before any change (R226, R264).

    With `may_differ` the port of a target group may differ from the container's.
    """

    may_differ: bool = False

    @property
    def title(self) -> str:
        return "Check the manifests against the target group"

    def start(self, context: StepContext) -> None:
        definition = context.load_for_rollback("service definition")
        breaker = definition.get("deploymentConfiguration", {}).get("deploymentCircuitBreaker", {})
        if breaker.get("enable"):
            raise ActionFailed(
                "CIRCUIT_BREAKER_NOT_SUPPORTED",
                "The service definition enables deploymentCircuitBreaker, which is for rolling and canary "
                "deployments: in blue/green the version from before keeps running, and Slipway brings it "
                "back. Remove deploymentCircuitBreaker from the service definition.",
            )
        task_definition = context.load_for_rollback("task definition")
        traffic = load_traffic(context)
        for number, pair in enumerate(traffic.pairs, start=1):
            if pair.stage_group not in list_target_groups(definition):
                raise _build_missing_group_error(pair.stage_group, number)
            if not self.may_differ:
                _refuse_other_port(task_definition, pair.stage_group, pair.port)
        fixed_groups = [
            group for group in list_target_groups(definition) if group not in traffic.stage_groups
        ]
        live = find_live_groups(context, traffic) if fixed_groups else {}
        for group in fixed_groups:
            if group in live:
                raise ActionFailed(
                    "TARGET_GROUP_NOT_SWAPPED",
                    f"The service definition refers to target group {format_target_group(group)} directly, "
                    f"and the "
                    f"{live[group]} forwards to it: the new version would receive that traffic before the "
                    "swap. Add the rule to moreListeners of the step, and name its target group with "
                    f"<+{get_expression_name(len(traffic.pairs) + 1)}>.",
                )
            context.log(
                f"The service definition refers to target group {format_target_group(group)} directly, and "
                f"no pair of "
                "listeners swaps it: the new version receives its traffic as soon as it is healthy, "
                "before the swap",
                "warning",
            )


def _build_missing_group_error(group: str, number: int) -> ActionFailed:
    return ActionFailed(
        "TARGET_GROUP_EXPRESSION_MISSING",
        f"The service definition does not name the target group of listener pair {number}, {group}. Write "
        f"`targetGroupArn: <+{get_expression_name(number)}>` under loadBalancers, with containerName and "
        "containerPort.",
    )


def _refuse_other_port(task_definition: Mapping[str, Any], group: str, port: int) -> None:
    ports = [
        mapping.get("containerPort")
        for container in task_definition.get("containerDefinitions", ())
        for mapping in container.get("portMappings", ())
    ]
    if port not in ports:
        port_names = ", ".join(str(port) for port in ports) or "none"
        raise ActionFailed(
            "PORT_MISMATCH",
            "Error: No container definition has port mapping that matches the target port: "
            f"{port} for target group: {group}\n"
            f"Container ports of the task definition: {port_names}. Give both target groups the container's "
            "port, or the container the port of the target groups, or allow the difference with "
            "allowDifferentTargetGroupPort of the step, and run the pipeline again.",
        )


@action
@dataclass(frozen=True)
class SaveBlueGreenPair(Action):
    """Identify blue and green and save both, before any change (R193, R246)."""

    scaling_in_swap: bool = False

    @property
    def title(self) -> str:
        return "Identify and save the blue and green services"

    def start(self, context: StepContext) -> None:
        base = context.load_for_rollback("service definition")["serviceName"]
        family = ServiceFamily.from_base_name(base)
        traffic = load_traffic(context)
        groups = [*traffic.prod_groups, *traffic.stage_groups]
        services = {
            service.name: service for service in context.ecs.describe_services(context.cluster, family.names)
        }
        active = {name: service for name, service in services.items() if service.is_active}
        consequence = (
            f"A swap would take production traffic from it, or give it some that is meant for {base}."
        )
        refuse_foreign_services(context, groups, family.names, consequence)
        owners = read_target_owners(context, groups, list(active))
        refuse_foreign_targets(context, owners, groups, family.names, consequence)
        tags = {name: _read_tags(context, service) for name, service in active.items()}
        candidates = [
            _build_candidate(service, tags[name], owners.list_groups(name))
            for name, service in sorted(active.items())
        ]
        pair = identify_pair(candidates, family, prod=traffic.prod_groups, stage=traffic.stage_groups)
        green = pair.green or next(name for name in family.pair if name != pair.blue)
        _save_pair(context, pair, green, services, tags, family)
        context.save_for_rollback(ATTACH_IN_SWAP, self.scaling_in_swap)
        if pair.blue:
            context.set_outputs(**{OLD_SERVICE: pair.blue})
            scaling = read_scaling_if_allowed(context, pair.blue)
            context.save_for_rollback("scaling of blue", scaling.to_record())
            _warn_of_unknown_scaling(context, pair.blue, scaling)
        _log_pair(context, pair, green, services, owners, traffic)

    def is_done(self, context: StepContext) -> bool:
        """Wait until a draining service of green's name is inactive, as CreateService requires (T20)."""
        before = context.load_for_rollback("service before")
        if before is None or before["status"] != "DRAINING":
            return True
        return is_service_inactive(context, before["name"])


def _warn_of_unknown_scaling(context: StepContext, blue: str, scaling: ScalingState) -> None:
    """Warn that auto scaling attached by hand stays with the old service."""
    if scaling.target is not None and not get_manifest_scaling(context):
        context.log(
            f"Service {blue} has auto scaling that is in no manifest, so the new version will have none. Add "
            "scalable target and scaling policy manifests to the service to carry it over.",
            "warning",
        )


def is_service_inactive(context: StepContext, name: str) -> bool:
    """Check once whether a deleted ECS service is inactive (R223)."""
    if not context.progress.get("announced"):
        context.log(f"Waiting for existing Service {name} to reach inactive state")
        context.progress["announced"] = True
    service = context.observe_service(name).service
    if service is not None and service.status != "INACTIVE":
        context.wait_for_change()
        return False
    context.log(f"Existing Service {name} reached inactive state")
    return True


def _read_tags(context: StepContext, service: EcsService) -> dict[str, str] | None:
    try:
        return context.ecs.list_tags(service.arn)
    except Denied as denied:
        context.log(
            f"{denied.display_message} Slipway identifies blue and green without the tags of {service.name}.",
            "warning",
        )
        return None


def _build_candidate(
    service: EcsService, tags: dict[str, str] | None, target_groups: list[str]
) -> BlueGreenCandidate:
    groups = tuple(dict.fromkeys([*list_target_groups(service.raw), *target_groups]))
    return BlueGreenCandidate(service.name, groups, service.desired, service.running, tags or {})


def _save_pair(
    context: StepContext,
    pair: BlueGreenPair,
    green: str,
    services: Mapping[str, EcsService],
    tags: Mapping[str, dict[str, str] | None],
    family: ServiceFamily,
) -> None:
    existing = services.get(green)
    blue = services.get(pair.blue)
    before = None if existing is None else build_snapshot(existing)
    names = [*family.pair, *(name for name in services if name not in family.pair)]
    context.save_for_rollback("pair", {"names": names, "blue": pair.blue, "green": green, "tags": dict(tags)})
    context.save_for_rollback("blue before", None if blue is None else build_snapshot(blue))
    context.save_for_rollback("service before", before)
    for service in (existing, blue):
        if service is not None and service.is_active:
            refuse_foreign_controller(build_snapshot(service))
    context.set_outputs(serviceName=green)


def _log_pair(
    context: StepContext,
    pair: BlueGreenPair,
    green: str,
    services: Mapping[str, EcsService],
    owners: TargetOwners,
    traffic: BlueGreenTraffic,
) -> None:
    if pair.blue:
        blue = services[pair.blue]
        context.log(
            f"Service {pair.blue} receives production traffic ({blue.running}/{blue.desired} tasks of "
            f"{blue.task_definition}, registered in {_join_groups(traffic.prod_groups)}: "
            f"{owners.count(pair.blue, traffic.prod_groups)}); it is not changed before the swap"
        )
        if pair.blue not in (names := context.load_for_rollback("pair")["names"])[:2]:
            context.log(
                f"It was deployed with another strategy. From now on {names[0]} and {names[1]} take turns; "
                f"{pair.blue} is scaled down after the swap, and scaled up again by a rollback"
            )
    else:
        context.log(
            f"No Service receives production traffic yet: {_join_groups(traffic.prod_groups)} has no target"
        )
    if pair.green:
        green_service = services[green]
        context.log(
            f"Service {green} receives no production traffic "
            f"({green_service.running}/{green_service.desired} tasks of {green_service.task_definition}); "
            "the new version takes its place"
        )
    else:
        context.log(f"Service {green} does not exist yet and will be created; a rollback deletes it")
    context.log("")


def _join_groups(groups: list[str]) -> str:
    return " and ".join(format_target_group(arn) for arn in groups)
