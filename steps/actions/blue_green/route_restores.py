"""Restores of listener rules: writes, checks, and the health of the target groups from before."""

from collections.abc import Sequence

from steps.actions.base import ActionFailed, ChecklistEntry
from steps.actions.blue_green.listener_rules import ListenerRoute, read_route, write_route
from steps.actions.blue_green.traffic import count_healthy_targets
from steps.actions.confirmations import is_read_stale
from steps.actions.context import StepContext

_HEALTHY_BEFORE_KEY = "healthy before"


def save_healthy_groups(context: StepContext, groups: Sequence[str]) -> None:
    """Save the number of healthy targets of the groups that production leaves."""
    context.save_for_rollback(
        _HEALTHY_BEFORE_KEY, {group: count_healthy_targets(context, group) for group in groups}
    )


def list_healthy_groups_at_start(context: StepContext) -> list[str]:
    """Return the groups of production that had healthy targets when traffic began to move."""
    before = context.load_for_rollback(_HEALTHY_BEFORE_KEY) or {}
    return [group for group, healthy in before.items() if healthy]


def list_unhealthy_groups(context: StepContext) -> list[str]:
    """Return the groups that had healthy targets before and have none now."""
    return [
        group for group in list_healthy_groups_at_start(context) if not count_healthy_targets(context, group)
    ]


def has_healthy_groups_again(context: StepContext) -> bool:
    """Return whether production can be moved back; log once what it waits for."""
    unhealthy_groups = list_unhealthy_groups(context)
    if unhealthy_groups and not context.progress.get("waits"):
        context.progress["waits"] = True
        context.log(
            f"Waiting for a healthy target in {unhealthy_groups[0]} before production traffic is moved back"
        )
    return not unhealthy_groups


def require_healthy_targets(context: StepContext, groups: Sequence[str], consequence: str) -> None:
    """Raise `ActionFailed` if one of the groups has no healthy target."""
    for group in groups:
        if not count_healthy_targets(context, group):
            raise ActionFailed(
                "NO_HEALTHY_TARGET",
                f"No target in {group} is healthy, so no task would receive production traffic. "
                f"{consequence}",
            )


def mark_moved(context: StepContext, route: ListenerRoute) -> None:
    """Save that a write of the rule was answered: reads that show the old state are stale."""
    context.save_for_rollback(_get_moved_key(route), True)


def restore_route(context: StepContext, role: str, route: ListenerRoute) -> bool:
    """Let a rule forward as saved; return False if it does already."""
    now = read_route(context, route)
    is_hidden = bool(context.load_for_rollback(_get_moved_key(route))) and is_read_stale(context)
    if now.forwards_like(route.actions) and not is_hidden:
        return False
    context.log(f"Modifying ELB {role} Listener to Forward requests as before the deployment")
    log_rule(context, route, route.groups)
    write_route(context, route, route.actions)
    context.log(f"Successfully updated {role} Listener")
    return True


def log_rule(context: StepContext, route: ListenerRoute, groups: Sequence[str]) -> None:
    """Log a rule and the target groups that it is about to forward to."""
    group = ", ".join(groups)
    context.log(f",TargetGroup: {group}")
    context.log(f"Modifying the default Listener: {route.listener}")
    context.log(f" with listener rule: {route.name} ")
    context.log(f" to forward traffic to TargetGroup: {group}")


def describe_route_restore(role: str, route: ListenerRoute) -> str:
    """Return a sentence about the restore of a rule."""
    names = ", ".join(arn.split(":targetgroup/")[-1].split("/")[0] for arn in route.groups) or "none"
    return f"{role} listener, {route.describe()}: back to target group {names}"


def build_route_check(context: StepContext, role: str, route: ListenerRoute) -> ChecklistEntry:
    """Return the checklist entry of a rule."""
    now = read_route(context, route)
    subject = f"{role} Listener, {route.describe()}"
    return ChecklistEntry(
        subject, route.describe_groups(), now.describe_groups(), now.forwards_like(route.actions)
    )


def _get_moved_key(route: ListenerRoute) -> str:
    """Return the rollback key of a listener rule that was written."""
    return f"moved {route.listener} {route.rule}"
