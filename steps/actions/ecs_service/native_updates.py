"""Action that updates a service which ECS deploys by its own strategy, and gives its traffic back on undo."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aws.apis.ecs_types import EcsService, Json, ServiceDeployment, get_arn_name
from aws.apis.elb import get_target_group_weights
from aws.errors import Invalid
from steps.actions.base import ActionFailed, ChecklistEntry, InterventionRequired, action
from steps.actions.confirmations import (
    Applied,
    CallRecord,
    Confirmation,
    NotApplied,
    Unconfirmed,
    is_past_read_lag,
)
from steps.actions.context import EarlierStep, StepContext
from steps.actions.ecs_service.check_intervals import OPEN_STATUSES, SHORT_INTERVAL
from steps.actions.ecs_service.native_strategies import describe_strategy
from steps.actions.ecs_service.service_deployments import (
    ENDED_STATUSES,
    SERVICE_DEPLOYMENT,
    describe_failed_rollback,
    find_own_deployment,
    format_percent,
    get_reason,
    has_revision,
    log_deployment_changes,
    sleep_until_next_check,
)
from steps.actions.ecs_service.snapshots import has_existed_before
from steps.actions.ecs_service.updates import CreateOrUpdateService, get_restored_task_definition


@action
@dataclass(frozen=True)
class UpdateNativeService(CreateOrUpdateService):
    """Create or update a service that ECS deploys by its own strategy.

    The undo stops an open service deployment, so that ECS gives the traffic back. A completed one is undone
    by an update to the earlier revision, which ECS deploys by the same strategy. A new service is deleted.
    """

    moves_traffic = True

    def start(self, context: StepContext) -> None:
        definition = context.load_for_rollback(self.definition)
        if strategy := describe_strategy(definition):
            context.log(strategy)
        elif has_existed_before(context):
            live = context.load_for_rollback("service before")["raw"]
            if group := _find_lost_group(context, live, definition):
                raise ActionFailed(
                    "TRAFFIC_WOULD_BE_LOST",
                    f"Production traffic goes to target group {group}, which a rolling deployment by this "
                    "service definition leaves without targets. Set targetGroupArn of loadBalancers to this "
                    "target group, and run again.",
                )
        super().start(context)

    def save_outputs(self, context: StepContext, service: EcsService) -> None:
        super().save_outputs(context, service)
        context.set_outputs(**{SERVICE_DEPLOYMENT: service.raw.get("currentServiceDeployment") or ""})

    def prepare_undo(self, context: StepContext) -> None:
        if not has_existed_before(context):
            # ECS stops no deployment without an earlier revision; the undo deletes the service.
            return
        deployment = find_own_deployment(context)
        if deployment is None or deployment.status not in OPEN_STATUSES:
            return
        name = get_arn_name(deployment.arn)
        context.log(f"Stopping service deployment {name}: ECS gives the traffic back")
        try:
            context.ecs.stop_service_deployment(deployment.arn)
        except Invalid as refused:
            # It ended meanwhile; the next read shows how.
            context.log(f"ECS did not stop it: {refused.display_message}", "warning")

    def undo(self, context: StepContext) -> None:
        if has_existed_before(context):
            _require_traffic_kept(context, context.load_for_rollback("service before")["raw"])
        super().undo(context)

    def confirm_undo(self, context: StepContext, call: CallRecord) -> Confirmation:
        if call.operation != "StopServiceDeployment":
            return super().confirm_undo(context, call)
        late = is_past_read_lag(context, call)
        deployment = find_own_deployment(context)
        if deployment is not None and deployment.status not in OPEN_STATUSES:
            return Applied({"serviceDeploymentArn": deployment.arn})
        return NotApplied() if late else Unconfirmed()

    def may_undo(self, context: StepContext) -> bool:
        deployment = find_own_deployment(context) if has_existed_before(context) else None
        if deployment is not None:
            log_deployment_changes(context, deployment)
            if deployment.status == "ROLLBACK_FAILED":
                raise InterventionRequired("ROLLBACK_FAILED", describe_failed_rollback(deployment))
            if deployment.status not in ENDED_STATUSES:
                context.sleep(context.now() + SHORT_INTERVAL)
                return False
        return super().may_undo(context)

    def is_undone(self, context: StepContext) -> bool:
        deployment = _find_undoing_deployment(context) if has_existed_before(context) else None
        if deployment is not None:
            log_deployment_changes(context, deployment)
            if deployment.status in OPEN_STATUSES:
                sleep_until_next_check(context, deployment)
                return False
            if deployment.status != "SUCCESSFUL":
                raise InterventionRequired(
                    "NOT_RESTORED",
                    f"Service deployment {get_arn_name(deployment.arn)} of the earlier revision is "
                    f"{deployment.status}. {get_reason(deployment)} Retry to deploy the earlier revision "
                    "again, or ignore to leave the service as it is.",
                )
        return super().is_undone(context)

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        if not has_existed_before(saved):
            return super().describe_undo(saved)
        sentence = "Stop the service deployment if ECS has not completed it: ECS gives the traffic back"
        return (sentence, *super().describe_undo(saved))

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        return [*super().checklist(context), *self._list_traffic(context)]

    def _list_traffic(self, context: StepContext) -> Iterator[ChecklistEntry]:
        deployment = find_own_deployment(context)
        weight = deployment.target.production_weight if deployment else None
        if deployment is not None and weight is not None and deployment.status.startswith("ROLLBACK"):
            subject = "Production traffic of the new revision"
            yield ChecklistEntry(subject, "0 %", format_percent(weight), weight == 0)


def _find_undoing_deployment(context: StepContext) -> ServiceDeployment | None:
    """Return the service deployment that the undo started; None if reads do not show it, or it needs none."""
    undoing_id = context.get_output("rollbackDeploymentId")
    known_ids = {context.get_output("deploymentId"), context.load_for_rollback("service before")["primary"]}
    if not undoing_id or undoing_id in known_ids:
        return None
    if arn := context.progress.get(undoing_id):
        return context.ecs.describe_service_deployment(arn)
    service = context.observe_service(context.get_output("serviceName")).service
    arn = str((service.raw if service else {}).get("currentServiceDeployment") or "")
    deployment = context.ecs.describe_service_deployment(arn) if arn else None
    if deployment is None or arn == context.get_output(SERVICE_DEPLOYMENT):
        return None
    if not has_revision(context, deployment, undoing_id, get_restored_task_definition(context)):
        return None
    # The notes so far are those of the deployment that is undone.
    context.progress.clear()
    context.progress[undoing_id] = arn
    context.log(
        f"ECS deploys the earlier revision, the new one of the lines below: service deployment "
        f"{get_arn_name(arn)}"
    )
    return deployment


def _require_traffic_kept(context: StepContext, before: Json) -> None:
    """Ask a person if the earlier settings, of a rolling deployment, would leave the production traffic."""
    name = context.get_output("serviceName")
    live = None if describe_strategy(before) else context.ecs.describe_service(context.cluster, name)
    if live is not None and (group := _find_lost_group(context, live.raw, before)):
        raise InterventionRequired(
            "TRAFFIC_WOULD_BE_LOST",
            f"Production traffic goes to target group {group}, which the earlier settings of Service {name} "
            "leave without targets. Ignore to leave the service as it is, then deploy the earlier version "
            "with targetGroupArn of this target group.",
        )


def _find_lost_group(context: StepContext, live: Json, definition: Json) -> str:
    """Return the target group with production traffic that a rolling deployment would leave; mostly "".

    A service of a strategy with two target groups ends on either of them.
    """
    balancers = live.get("loadBalancers") or ()
    kept = {balancer.get("targetGroupArn") for balancer in definition.get("loadBalancers", balancers)}
    for balancer in balancers:
        advanced = balancer.get("advancedConfiguration") or {}
        if not (rule := advanced.get("productionListenerRule")):
            continue
        weights = get_target_group_weights(_read_actions(context, rule))
        own_groups = {balancer.get("targetGroupArn"), advanced.get("alternateTargetGroupArn")}
        lost = [group for group, weight in weights.items() if weight and group in own_groups - kept]
        if lost:
            return lost[0]
    return ""


def _read_actions(context: StepContext, rule: str) -> Sequence[Json]:
    """Return the actions of a listener rule, or of the listener of a network load balancer."""
    if ":listener-rule/" in rule:
        return context.elb.get_rule(rule).actions
    return context.elb.get_listener(rule).actions
