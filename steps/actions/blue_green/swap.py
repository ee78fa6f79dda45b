"""Actions that check the target groups and swap production traffic to the new version, and back."""

from dataclasses import dataclass

from aws.apis.ecs_types import EcsService
from steps.actions.base import Action, ActionFailed, ChangedByOthers, ChecklistEntry, action
from steps.actions.blue_green.auto_scaling import OLD_SERVICE, SWAPPED, save_scaling_before_shifts
from steps.actions.blue_green.listener_rules import (
    ListenerRoute,
    build_forward_actions,
    confirm_route_write,
    format_target_group,
    read_route,
    write_route,
)
from steps.actions.blue_green.route_restores import (
    build_route_check,
    describe_route_restore,
    has_healthy_groups_again,
    list_healthy_groups_at_start,
    list_unhealthy_groups,
    log_rule,
    mark_moved,
    require_healthy_targets,
    restore_route,
    save_healthy_groups,
)
from steps.actions.blue_green.target_owners import read_target_owners, refuse_foreign_targets
from steps.actions.blue_green.traffic import (
    CREATE_STEP_TYPE,
    BlueGreenTraffic,
    ListenerPair,
    count_healthy_targets,
    load_traffic,
)
from steps.actions.blue_green.traffic_shares import (
    list_current_forwards,
    list_written_forwards,
    save_earlier_shares,
)
from steps.actions.confirmations import (
    CallRecord,
    Confirmation,
    clear_observation,
    is_observed_twice,
)
from steps.actions.context import EarlierStep, StepContext
from steps.actions.ecs_service.snapshots import build_snapshot

_TO_PRODUCTION = "A swap would send production traffic there."
_IN_PRODUCTION = "It receives production traffic since the swap, beside the new version or instead of it."
_SWAP_BEGUN_KEY = "swap begun"
_OFF_PRODUCTION = "A swap would take production traffic from it."


@action
@dataclass(frozen=True)
class SaveTraffic(Action):
    """Save the rules and the live ECS service right before the swap."""

    @property
    def title(self) -> str:
        return "Save the listener rules and the live service"

    def start(self, context: StepContext) -> None:
        created = context.get_earlier_step(CREATE_STEP_TYPE)
        if created is None or not created.get_output("serviceArn"):
            raise ActionFailed(
                "NOTHING_TO_SWAP",
                f"No stage service to swap: an {CREATE_STEP_TYPE} step must come before this "
                "one in the "
                "same stage.",
            )
        context.save_for_rollback("traffic", created.load_for_rollback("traffic"))
        save_earlier_shares(context)
        save_scaling_before_shifts(context)
        pair = context.save_for_rollback("pair", created.load_for_rollback("pair"))
        context.set_outputs(serviceName=pair["green"], serviceArn=created.get_output("serviceArn"))
        if pair["blue"]:
            context.set_outputs(**{OLD_SERVICE: pair["blue"]})
        context.save_for_rollback("new task definition", created.get_output("taskDefinitionArn"))
        new = _get_stage_service(context)
        # Read again: auto scaling may have changed the count since the deployment began.
        live = _describe_old_service(context)
        before = context.save_for_rollback("blue before", None if live is None else build_snapshot(live))
        context.save_for_rollback("service before", before)
        context.save_for_rollback("required targets", _count_required_targets(context, new, live))


def _get_stage_service(context: StepContext) -> EcsService:
    """Return the stage service. Raises `ActionFailed` if it was changed outside this run."""
    name = context.load_for_rollback("pair")["green"]
    service = context.ecs.describe_service(context.cluster, name)
    if service is None or not service.is_active or service.primary is None:
        raise build_superseded_error(f"Stage Service {name} was deleted outside Slipway.")
    if service.primary.task_definition != context.load_for_rollback("new task definition"):
        raise build_superseded_error(
            f"Somebody else deployed Stage Service {name} since this deployment did: it runs "
            f"{service.primary.task_definition} (deployment {service.primary.id}) now."
        )
    return service


def build_superseded_error(sentence: str) -> ActionFailed:
    """Return the failure of a swap or a shift that somebody else came before."""
    return ActionFailed(
        "SUPERSEDED", f"{sentence} Nothing was swapped; run the pipeline again.", outcome="SUPERSEDED"
    )


def _describe_old_service(context: StepContext) -> EcsService | None:
    blue = context.load_for_rollback("pair")["blue"]
    return context.ecs.describe_service(context.cluster, blue) if blue else None


def _read_required_targets(context: StepContext) -> int:
    """Read the services and return the required targets. Raises `ActionFailed` if the new one was changed."""
    is_shared = load_traffic(context).is_shared
    return _count_required_targets(
        context, _get_stage_service(context), _describe_old_service(context) if is_shared else None
    )


def _count_required_targets(context: StepContext, new: EcsService, old: EcsService | None) -> int:
    """Return the required healthy targets of the new group; a shared group needs those of the old service as
    well.
    """
    return new.desired + (old.running if load_traffic(context).is_shared and old is not None else 0)


def _refuse_no_tasks(context: StepContext, required_targets: int) -> None:
    if required_targets < 1:
        raise ActionFailed(
            "NO_HEALTHY_TARGET",
            f"Service {context.get_output('serviceName')} has desired count 0, so no task would receive "
            f"production traffic. Set desiredCount in the service definition and run the pipeline again.",
        )


@action
@dataclass(frozen=True)
class WaitForHealthyTargets(Action):
    """Wait until every task of the new version is a healthy target, before production moves."""

    @property
    def title(self) -> str:
        return "Wait for healthy targets of the new version"

    def start(self, context: StepContext) -> None:
        _refuse_no_tasks(context, context.load_for_rollback("required targets"))

    def is_done(self, context: StepContext) -> bool:
        required = context.load_for_rollback("required targets")
        healthy = min(count_healthy_targets(context, group) for group in load_traffic(context).stage_groups)
        if healthy < required:
            # Auto scaling may have lowered a count since.
            required = _read_required_targets(context)
            _refuse_no_tasks(context, required)
        counts = f"{healthy}/{required} healthy"
        if healthy < required and context.progress.get("logged counts") != counts:
            context.progress["logged counts"] = counts
            context.log(f"Waiting for targets of the new version. {counts} ...")
        return bool(healthy >= required)


@action
@dataclass(frozen=True)
class CheckTargetsBeforeSwap(Action):
    """Check the owners of the targets right before the swap: the first check may be hours old.

    A separate action, because its reads depend on their results.
    """

    @property
    def title(self) -> str:
        return "Verify production traffic before the swap"

    def start(self, context: StepContext) -> None:
        traffic = load_traffic(context)
        if traffic.is_shared:
            return
        new, blue = _get_stage_service(context).name, context.load_for_rollback("pair")["blue"]
        groups = [*traffic.prod_groups, *traffic.stage_groups]
        owners = read_target_owners(context, groups, [name for name in (new, blue) if name])
        refuse_foreign_targets(context, owners, traffic.stage_groups, [new], _TO_PRODUCTION)
        refuse_foreign_targets(context, owners, traffic.prod_groups, [blue, new], _OFF_PRODUCTION)


@action
@dataclass(frozen=True)
class SwapTraffic(Action):
    """Let the prod rule forward to the new version and the stage rule to the old one (R242, R243)."""

    has_undo = True
    moves_traffic = True
    repeated_with = ("CheckTargetsBeforeSwap",)

    @property
    def title(self) -> str:
        return "Swap the target groups"

    def start(self, context: StepContext) -> None:
        traffic = load_traffic(context)
        if traffic.is_shared:
            context.log(
                f"Prod and Stage Listener Rules both forward to {', '.join(traffic.stage_groups)}: "
                "no target groups to swap"
            )
            context.set_outputs(**{SWAPPED: True})
            return
        self._refuse_changed(context, traffic)
        context.save_for_rollback(_SWAP_BEGUN_KEY, True)
        context.log("")
        save_healthy_groups(context, traffic.prod_groups)
        require_healthy_targets(context, traffic.stage_groups, "Nothing was swapped.")
        for role, route, groups in traffic.list_moves():
            _move_route(context, role, route, groups)
            mark_moved(context, route)
            context.log("")
        context.set_outputs(**{SWAPPED: True})

    def _refuse_changed(self, context: StepContext, traffic: BlueGreenTraffic) -> None:
        for role, route, groups in traffic.list_moves():
            expected = list_current_forwards(context, route)
            if context.load_for_rollback(_SWAP_BEGUN_KEY):
                # An earlier attempt may have written the rule already.
                expected.append(build_forward_actions(route.actions, groups))
            now = read_route(context, route)
            if not any(now.forwards_like(actions) for actions in expected):
                raise build_superseded_error(
                    f"Somebody else changed the {role} Listener Rule {route.name} since this deployment "
                    f"began: it forwards to {now.describe_groups()} now."
                )

    def is_done(self, context: StepContext) -> bool:
        """Return whether production goes only to the new version, and its targets are healthy."""
        traffic = load_traffic(context)
        if traffic.is_shared:
            return True
        if not _is_swapped(context, traffic):
            return False
        new = context.load_for_rollback("pair")["green"]
        groups = traffic.stage_groups
        owners = read_target_owners(context, groups, [new], reads_cluster=False)
        if any(owners.unowned.get(group) for group in groups):
            if is_observed_twice(context, "others behind the prod rule", context.now()):
                refuse_foreign_targets(
                    context, read_target_owners(context, groups, [new]), groups, [new], _IN_PRODUCTION
                )
            return False
        clear_observation(context, "others behind the prod rule")
        healthy = {group: owners.count_healthy(new, group) for group in groups}
        if groups_without_target := [group for group, count in healthy.items() if not count]:
            if is_observed_twice(context, "nobody behind the prod rule", context.now()):
                raise ActionFailed(
                    "NO_HEALTHY_TARGET",
                    f"Production traffic goes to {', '.join(groups_without_target)} since the swap, and no "
                    f"target of Service {new} is healthy there.",
                )
            return False
        definition = context.load_for_rollback("new task definition")
        context.log(
            f"Production traffic of {_format_rule_count(len(traffic.prod_pairs))} goes to Service {new} "
            f"alone: healthy targets {min(healthy.values())}, task definition {definition}",
            "success",
        )
        return True

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_route_write(context, call, [route for _, route in load_traffic(context).list_routes()])

    def prepare_undo(self, context: StepContext) -> None:
        """Restart health checks of the old group if no rule forwards to it.

        Between the two writes of a swap neither rule forwards to the old target group, and AWS stops its
        health checks. Its targets must be healthy again before production is moved back.
        """
        for pair in load_traffic(context).prod_pairs:
            _register_old_groups(context, pair)

    def may_undo(self, context: StepContext) -> bool:
        """Return whether the previous target groups are healthy, and the rules were not changed by others."""
        for pair in load_traffic(context).prod_pairs:
            prod = read_route(context, pair.prod)
            if set(prod.groups) in ({pair.stage_group}, set(pair.prod.groups)):
                continue
            if any(prod.forwards_like(actions) for actions in list_written_forwards(context, pair.prod)):
                continue
            if not is_observed_twice(context, "foreign rule", context.now()):
                return False
            raise ChangedByOthers(
                f"Somebody else changed the Prod Listener Rule {pair.prod.name} meanwhile: it forwards to "
                f"{', '.join(prod.groups) or 'nothing'}. The rollback changes nothing."
            )
        clear_observation(context, "foreign rule")
        return has_healthy_groups_again(context)

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        traffic = load_traffic(saved)
        if traffic.is_shared:
            return ()
        return tuple(describe_route_restore(role, route) for role, route in traffic.list_routes())

    def undo(self, context: StepContext) -> None:
        for role, route in load_traffic(context).list_routes():
            if not restore_route(context, role, route):
                context.log(f"{role} Listener already forwards as before")

    def is_undone(self, context: StepContext) -> bool:
        prods = [pair.prod for pair in load_traffic(context).prod_pairs]
        is_restored = all(read_route(context, prod).forwards_like(prod.actions) for prod in prods)
        return is_restored and not list_unhealthy_groups(context)

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        checks = [
            build_route_check(context, role, route) for role, route in load_traffic(context).list_routes()
        ]
        for group in list_healthy_groups_at_start(context):
            healthy = count_healthy_targets(context, group)
            subject = f"Healthy targets in {format_target_group(group)}"
            checks.append(ChecklistEntry(subject, "1 or more", str(healthy), healthy > 0))
        return checks


def _is_swapped(context: StepContext, traffic: BlueGreenTraffic) -> bool:
    """Return whether every prod rule forwards to the new version; raises once it is certain that one does
    not.
    """
    for pair in traffic.prod_pairs:
        now = read_route(context, pair.prod)
        if now.groups == [pair.stage_group]:
            continue
        if not is_observed_twice(context, "prod rule", context.now()):
            return False
        raise ActionFailed(
            "SUPERSEDED",
            f"Somebody else changed the Prod Listener Rule {pair.prod.name} right after the swap: it "
            f"forwards to {', '.join(now.groups) or 'nothing'}, not to {pair.stage_group}.",
            outcome="SUPERSEDED",
        )
    clear_observation(context, "prod rule")
    return True


def _register_old_groups(context: StepContext, pair: ListenerPair) -> None:
    """Add the old groups of a pair to a rule with weight 0, so that AWS checks their targets."""
    prod, stage = read_route(context, pair.prod), read_route(context, pair.stage)
    if prod.groups != [pair.stage_group]:
        # Not swapped, or changed by others since: writing the rule would take traffic from their groups.
        return
    named_groups = {*prod.named_groups, *stage.named_groups}
    unchecked_groups = [
        group
        for group in list_healthy_groups_at_start(context)
        if group in pair.prod.groups and group not in named_groups
    ]
    if not unchecked_groups:
        return
    context.log(f"Health checks of {', '.join(unchecked_groups)} restart before traffic is moved back")
    if pair.has_weights:
        weights = {pair.stage_group: 1, **dict.fromkeys(unchecked_groups, 0)}
        write_route(context, pair.prod, build_forward_actions(prod.actions, weights))
    else:
        write_route(
            context, pair.stage, build_forward_actions(stage.actions, dict.fromkeys(unchecked_groups, 1))
        )


def _format_rule_count(count: int) -> str:
    return "the prod rule" if count == 1 else f"{count} prod rules"


def _move_route(context: StepContext, role: str, route: ListenerRoute, groups: dict[str, int]) -> None:
    """Write one rule of the swap and log it (R243)."""
    version = "new" if role == "Prod" else "old"
    context.log(
        f"Modifying ELB {role} Listener to Forward requests to Target group associated with {version} Service"
    )
    log_rule(context, route, list(groups))
    write_route(context, route, build_forward_actions(route.actions, groups))
    context.log(f"Successfully updated {role} Listener")
