"""Actions that send production traffic to the new version by parts, with time to watch each part."""

from dataclasses import dataclass

from aws.apis.elb import MAX_TARGET_GROUPS, get_target_group_weights
from steps.actions.base import Action, ActionFailed, ChangedByOthers, ChecklistEntry, action
from steps.actions.blue_green.listener_rules import (
    ListenerRoute,
    confirm_route_write,
    format_target_group,
    get_stickiness_seconds,
    read_route,
    write_route,
)
from steps.actions.blue_green.route_restores import (
    build_route_check,
    describe_route_restore,
    has_healthy_groups_again,
    list_healthy_groups_at_start,
    list_unhealthy_groups,
    mark_moved,
    require_healthy_targets,
    restore_route,
    save_healthy_groups,
)
from steps.actions.blue_green.swap import SaveTraffic, build_superseded_error
from steps.actions.blue_green.traffic import (
    BlueGreenTraffic,
    ListenerPair,
    count_healthy_targets,
    load_traffic,
)
from steps.actions.blue_green.traffic_shares import (
    build_share_actions,
    get_first_planned_share,
    list_current_forwards,
    list_written_forwards,
    load_shares,
    mark_begun,
    mark_written,
    save_planned_shares,
)
from steps.actions.confirmations import (
    CallRecord,
    Confirmation,
    clear_observation,
    is_observed_twice,
)
from steps.actions.context import EarlierStep, StepContext
from steps.actions.waits import (
    ALARM_READ_INTERVAL,
    ALARM_STATE,
    WatchAlarms,
    format_duration,
    read_alarms,
)

_FOREIGN_RULE, _NO_TARGET = "foreign prod rule", "no healthy target of the new version"


def shares_traffic(context: StepContext) -> bool:
    """Return whether an old version receives traffic that can be shared; else the swap moves all at once."""
    return bool(list_healthy_groups_at_start(context))


@action
@dataclass(frozen=True)
class SaveTrafficBeforeShift(SaveTraffic):
    """Save the rules, and refuse what cannot be shared, before any traffic moves.

    `percents` are the shares of the new version that this step goes through.
    """

    percents: list[int]

    def start(self, context: StepContext) -> None:
        super().start(context)
        traffic = load_traffic(context)
        save_planned_shares(context, self.percents)
        _refuse_unshareable(traffic)
        if self.percents[0] <= (last := load_shares(context).current[-1]):
            raise ActionFailed(
                "WEIGHT_NOT_RISING",
                f"An earlier step shifted {last} % of the traffic to the new version, and this one begins "
                f"with {self.percents[0]} %. Let the weights rise from step to step.",
            )
        save_healthy_groups(context, traffic.prod_groups)
        if not shares_traffic(context):
            _log_nothing_to_share(context, traffic)
        for pair in traffic.prod_pairs:
            if seconds := get_stickiness_seconds(pair.prod.actions):
                context.log(
                    f"The {pair.prod.describe()} keeps clients at their target group for "
                    f"{format_duration(seconds)}: the shares hold for new clients",
                    "warning",
                )


def _log_nothing_to_share(context: StepContext, traffic: BlueGreenTraffic) -> None:
    """Log that no traffic is shared, and add a note if there is an old version that should serve it."""
    text = (
        f"No target in {', '.join(map(format_target_group, traffic.prod_groups))} is healthy: there is "
        "nothing to share, and the swap step sends all traffic to the new version at once"
    )
    if context.load_for_rollback("pair")["blue"]:
        context.add_note(text)
    else:
        context.log(text)


def _refuse_unshareable(traffic: BlueGreenTraffic) -> None:
    """Raise `ActionFailed` for rules that cannot forward by weights."""
    if traffic.is_shared:
        raise ActionFailed(
            "NO_TRAFFIC_TO_SHIFT",
            f"Prod and Stage Listener Rules forward to the same target group "
            f"{', '.join(map(format_target_group, traffic.stage_groups))}, which has no weights for two "
            "versions. Give the stage rule a target group of its own, or remove the shift step.",
        )
    for pair in traffic.prod_pairs:
        if not pair.has_weights:
            raise ActionFailed(
                "NO_WEIGHTS",
                f"Listener {pair.prod.listener} belongs to a network load balancer, whose traffic Slipway "
                "moves at once only. Use an application load balancer, or remove the shift step.",
            )
        if len(pair.prod.groups) >= MAX_TARGET_GROUPS:
            raise ActionFailed(
                "TOO_MANY_TARGET_GROUPS",
                f"The Prod Listener Rule {pair.prod.name} forwards to {len(pair.prod.groups)} target groups, "
                f"and AWS allows {MAX_TARGET_GROUPS} for one rule: none is left for the new version.",
            )


@action
@dataclass(frozen=True)
class CheckAlarmsBeforeShift(Action):
    """Check that no alarm rings already: it would end the first bake, after traffic has moved."""

    repeats = True

    alarms: list[str]

    @property
    def title(self) -> str:
        return "Verify alarms before the shift"

    def start(self, context: StepContext) -> None:
        for name, alarm in read_alarms(context, self.alarms).items():
            if alarm.state == ALARM_STATE:
                raise ActionFailed(
                    "ALARM",
                    f"Alarm {name} is in ALARM before any traffic is shifted: "
                    f"{alarm.reason or 'no reason given'}",
                )


@action
@dataclass(frozen=True)
class ShiftTraffic(Action):
    """Let the prod rules give the new version `percent` of the traffic; the stage rules stay.

    The undo restores the rules from when the deployment began, whatever the share.
    """

    has_undo = True
    moves_traffic = True
    repeated_with = ("CheckTargetsBeforeSwap",)

    percent: int

    @property
    def title(self) -> str:
        return f"Shift {self.percent} % of traffic to the new version"

    def start(self, context: StepContext) -> None:
        if not shares_traffic(context):
            return
        traffic = load_traffic(context)
        mark_begun(context, self.percent)
        for pair in traffic.prod_pairs:
            _refuse_changed(context, pair.prod)
        require_healthy_targets(context, traffic.stage_groups, "The traffic stays as it is.")
        for pair in traffic.prod_pairs:
            _write_share(context, pair, self.percent)
            mark_moved(context, pair.prod)
        mark_written(context, self.percent)
        context.set_outputs(trafficPercent=self.percent)

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_route_write(context, call, _list_prod_routes(context))

    def is_done(self, context: StepContext) -> bool:
        """Return whether every prod rule forwards as written."""
        if not shares_traffic(context):
            return True
        if not _forward_as_written(context):
            return False
        name = context.load_for_rollback("pair")["green"]
        context.log(f"Service {name} receives {self.percent} % of production traffic", "success")
        return True

    def may_undo(self, context: StepContext) -> bool:
        """Return whether the previous target groups are healthy, and the rules were not changed by others."""
        for pair in load_traffic(context).prod_pairs:
            now = read_route(context, pair.prod)
            is_known = any(
                now.forwards_like(actions) for actions in list_written_forwards(context, pair.prod)
            )
            if is_known or now.groups == [pair.stage_group]:
                continue
            if not is_observed_twice(context, _FOREIGN_RULE, context.now()):
                return False
            raise ChangedByOthers(
                f"Somebody else changed the Prod Listener Rule {pair.prod.name} meanwhile: it forwards to "
                f"{now.describe_groups()}. The rollback changes nothing."
            )
        clear_observation(context, _FOREIGN_RULE)
        return has_healthy_groups_again(context)

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        if get_first_planned_share(saved) != self.percent:
            return ()
        return tuple(describe_route_restore("Prod", pair.prod) for pair in load_traffic(saved).prod_pairs)

    def undo(self, context: StepContext) -> None:
        is_last = load_shares(context).written[-1] == self.percent
        for route in _list_prod_routes(context):
            # The undo of the last share has restored the rule, and has seen it so.
            if is_last or not read_route(context, route).forwards_like(route.actions):
                restore_route(context, "Prod", route)

    def is_undone(self, context: StepContext) -> bool:
        routes = _list_prod_routes(context)
        is_restored = all(read_route(context, route).forwards_like(route.actions) for route in routes)
        return is_restored and not list_unhealthy_groups(context)

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        """Return the rules once for all shares of the step."""
        if get_first_planned_share(context) != self.percent:
            return []
        return [build_route_check(context, "Prod", route) for route in _list_prod_routes(context)]


@action
@dataclass(frozen=True)
class BakeTraffic(WatchAlarms):
    """Keep a share of the traffic for a time, and watch alarms, metrics, targets and rules meanwhile."""

    percent: int = 0

    @property
    def title(self) -> str:
        return f"Bake {self.percent} % of traffic for {format_duration(self.seconds)}"

    def list_sources(self) -> list[str]:
        return ["targets of the new version", *super().list_sources()]

    def start(self, context: StepContext) -> None:
        if shares_traffic(context):
            super().start(context)

    def is_done(self, context: StepContext) -> bool:
        if not shares_traffic(context):
            return True
        if not (_forward_as_written(context) and _has_healthy_targets(context)):
            context.wait_for_change(context.now() + ALARM_READ_INTERVAL)
            return False
        if not super().is_done(context):
            return False
        context.log("Bake finished")
        return True


def _list_prod_routes(context: StepContext) -> list[ListenerRoute]:
    return [pair.prod for pair in load_traffic(context).prod_pairs]


def _refuse_changed(context: StepContext, route: ListenerRoute) -> None:
    now = read_route(context, route)
    if not any(now.forwards_like(actions) for actions in list_current_forwards(context, route)):
        raise _build_changed_error(now)


def _build_changed_error(now: ListenerRoute) -> ActionFailed:
    return build_superseded_error(
        f"Somebody else changed the Prod Listener Rule {now.name} since this deployment wrote it: it "
        f"forwards to {now.describe_groups()} now."
    )


def _forward_as_written(context: StepContext) -> bool:
    """Return whether every prod rule has the last share. Raises once it is certain that one has not."""
    for route in _list_prod_routes(context):
        now = read_route(context, route)
        if any(now.forwards_like(actions) for actions in list_current_forwards(context, route)):
            continue
        if is_observed_twice(context, _FOREIGN_RULE, context.now()):
            raise _build_changed_error(now)
        return False
    clear_observation(context, _FOREIGN_RULE)
    return True


def _has_healthy_targets(context: StepContext) -> bool:
    """Return whether the new version can serve its share. Raises once it is certain that it cannot."""
    groups = load_traffic(context).stage_groups
    empty_groups = [group for group in groups if not count_healthy_targets(context, group)]
    if not empty_groups:
        clear_observation(context, _NO_TARGET)
        return True
    if is_observed_twice(context, _NO_TARGET, context.now()):
        raise ActionFailed(
            "NO_HEALTHY_TARGET",
            f"No target of the new version is healthy any more in {', '.join(empty_groups)}, while it "
            "receives production traffic.",
        )
    return False


def _write_share(context: StepContext, pair: ListenerPair, percent: int) -> None:
    actions = build_share_actions(pair, percent)
    context.log(f"Modifying ELB Prod Listener to forward {percent} % of requests to the new Service")
    context.log(f"Modifying Listener: {pair.prod.listener}")
    context.log(f" with listener rule: {pair.prod.name} ")
    for group, weight in get_target_group_weights(actions).items():
        context.log(f" to forward traffic to TargetGroup: {group} with weight {weight}")
    write_route(context, pair.prod, actions)
    context.log("Successfully updated Prod Listener")
