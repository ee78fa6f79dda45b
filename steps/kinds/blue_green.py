"""Blue/green steps: create the stage service, shift traffic, swap the listeners, roll back (R224-R251)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from guards.limits import DOWNSIZE_DELAY_SECONDS, LISTENER_PAIRS, TRAFFIC_SHARES
from steps.actions.auto_scaling import (
    AttachAutoScaling,
    DetachAutoScaling,
    ResumeAutoScaling,
    SuspendAutoScaling,
)
from steps.actions.blue_green.auto_scaling import (
    OLD_SERVICE,
    AttachAutoScalingInSwap,
    HoldScaleIn,
    ResumeUnlessSwapped,
)
from steps.actions.blue_green.pair import CheckBlueGreenManifests, SaveBlueGreenPair
from steps.actions.blue_green.scale_down import DownsizeOldService, WaitBeforeDownsizing
from steps.actions.blue_green.stage_service import CreateStageService, RemoveGreenService, WaitForStageService
from steps.actions.blue_green.swap import (
    CheckTargetsBeforeSwap,
    SaveTraffic,
    SwapTraffic,
    WaitForHealthyTargets,
)
from steps.actions.blue_green.tags import CorrectBlueTag, TagStageService, TagSwappedServices
from steps.actions.blue_green.target_groups import FindTargetGroups, LockBlueGreenService
from steps.actions.blue_green.traffic_shares import SHIFT_STEP_TYPE, WHOLE
from steps.actions.blue_green.traffic_shift import (
    BakeTraffic,
    CheckAlarmsBeforeShift,
    SaveTrafficBeforeShift,
    ShiftTraffic,
)
from steps.actions.ecs_service.deployment_health import FailFast
from steps.actions.manifests import FetchManifests
from steps.actions.task_definitions import RegisterTaskDefinition
from steps.kinds.outputs import REVISION_OUTPUTS, SERVICE_OUTPUTS
from steps.kinds.registry import BadStepError, Plan, SpecColumn, describe_field, step, unit
from steps.kinds.verify import METRIC_COLUMNS, complete_metrics, list_source_problems
from steps.kinds.wait import describe_duration_problem, parse_wait_duration


@dataclass(frozen=True)
class EcsBlueGreenCreateServiceSpec:
    """Settings of the listeners, their rules, and the stage service (R232).

    Without a rule ARN the listener's default rule is used (T13). `loadBalancer` is a name or an ARN.
    `moreListeners` are further pairs that are swapped together, such as those of HTTPS; each has the same
    five keys, with the step's load balancer as default.
    """

    loadBalancer: str
    """The name or the ARN of the load balancer."""
    prodListener: str
    """The ARN of the listener for production traffic."""
    stageListener: str
    """The ARN of the listener behind which the new version starts."""
    prodListenerRuleArn: str = ""
    """The rule of the production listener; empty for its default rule."""
    stageListenerRuleArn: str = ""
    """The rule of the stage listener; empty for its default rule."""
    moreListeners: list[dict[str, Any]] = field(default_factory=list)
    """Further pairs that swap at the same time, each with the listener fields of the step."""
    allowDifferentTargetGroupPort: bool = False
    """Accept target groups with another port than the container."""
    sameAsAlreadyRunningInstances: bool = False
    """Deploy as many tasks as run now, instead of the desired count of the service definition."""
    enableAutoScalingInSwapStep: bool = False
    """Attach auto scaling in the swap step instead of this one."""
    updateGreenService: bool = False
    """Update an existing green service; otherwise it is deleted and created again."""
    isTrafficShift: bool = False
    """Not supported: the step EcsBlueGreenTrafficShift moves traffic by parts."""
    failFast: FailFast = field(default_factory=FailFast)

    def __post_init__(self) -> None:
        if self.isTrafficShift is True:
            raise BadStepError(
                "EcsBlueGreenCreateService shifts no traffic; remove isTrafficShift and put an "
                "EcsBlueGreenTrafficShift step before EcsBlueGreenSwapTargetGroups"
            )
        if not isinstance(self.moreListeners, list):
            return  # An unresolved expression.
        if len(self.moreListeners) >= LISTENER_PAIRS:
            raise BadStepError(
                f"EcsBlueGreenCreateService swaps at most {LISTENER_PAIRS} pairs of listeners: ECS registers "
                f"a service in no more; moreListeners has {len(self.moreListeners)} beside the first"
            )
        for number, pair in enumerate(self.moreListeners, start=1):
            if problem := _describe_pair_problem(pair):
                raise BadStepError(f"EcsBlueGreenCreateService: moreListeners {number} {problem}")

    @property
    def is_one_rule(self) -> bool:
        """Return whether production and stage use the same rule of one listener (R235)."""
        prod = (self.prodListener, self.prodListenerRuleArn)
        return prod == (self.stageListener, self.stageListenerRuleArn)

    @property
    def pairs(self) -> list[dict[str, str]]:
        """Return every pair of listeners, the step's own first, as parameters of the action."""
        own = {key: getattr(self, key) for key in _LISTENER_KEYS}
        pairs = [own, *({"loadBalancer": self.loadBalancer, **pair} for pair in self.moreListeners)]
        return [
            {parameter: str(pair.get(key, "")) for key, parameter in _LISTENER_KEYS.items()} for pair in pairs
        ]


_LISTENER_KEYS = {
    "loadBalancer": "load_balancer",
    "prodListener": "prod_listener",
    "prodListenerRuleArn": "prod_rule",
    "stageListener": "stage_listener",
    "stageListenerRuleArn": "stage_rule",
}


def _describe_pair_problem(pair: Any) -> str:
    """Return the problem of one further pair of listeners; empty if it is valid."""
    if not isinstance(pair, Mapping):
        return "is not a mapping with prodListener and stageListener"
    if unknown := sorted(set(pair) - set(_LISTENER_KEYS)):
        return f"has {', '.join(map(repr, unknown))}, and may have {', '.join(_LISTENER_KEYS)}"
    missing = [key for key in ("prodListener", "stageListener") if not pair.get(key)]
    if missing:
        return f"lacks {' and '.join(missing)}"
    invalid_key = next((key for key, value in pair.items() if not isinstance(value, str)), "")
    return f"has a {invalid_key} that is no text" if invalid_key else ""


@dataclass(frozen=True)
class EcsBlueGreenTrafficShiftSpec:
    """Rising shares of production traffic for the new version, with the time to watch each of them."""

    steps: list[dict[str, Any]] = field(
        metadata=describe_field(
            "The weights rise. The swap step moves what is left.",
            columns=(
                SpecColumn("weight", "number", "Percent of traffic for the new version.", is_needed=True),
                SpecColumn("bakeTime", "text", "How long to keep it, such as 5m; optional for the last."),
            ),
        )
    )
    alarms: list[str] = field(
        default_factory=list,
        metadata=describe_field("The names of CloudWatch alarms that end the step while it bakes."),
    )
    metrics: list[dict[str, Any]] = field(
        default_factory=list,
        metadata=describe_field("Watched like those of a Verify step.", columns=METRIC_COLUMNS),
    )

    def __post_init__(self) -> None:
        if problem := next(self._list_problems(), ""):
            raise BadStepError(f"EcsBlueGreenTrafficShift: {problem}")

    def _list_problems(self) -> Iterator[str]:
        if not isinstance(self.steps, list) or not 1 <= len(self.steps) <= TRAFFIC_SHARES:
            yield f"steps is a list of 1 to {TRAFFIC_SHARES} weights"
            return
        weight = 0
        for number, entry in enumerate(self.steps, start=1):
            is_last = number == len(self.steps)
            if problem := _describe_share_problem(entry, weight, is_last=is_last):
                yield f"step {number}: {problem}"
                return
            weight = entry["weight"]
        yield from list_source_problems(self.alarms, self.metrics)
        if (self.alarms or self.metrics) and not any(entry.get("bakeTime") for entry in self.steps):
            yield "alarms and metrics are watched for the bakeTime of a step, and none has one"

    @property
    def planned_wait_seconds(self) -> int:
        """Return the length of all bakes; an expression is resolved when the step starts."""
        return sum(_get_bake_seconds(entry) for entry in self.steps)


def _describe_share_problem(entry: Any, former: int, *, is_last: bool) -> str:
    """Return the problem of one share of traffic after one of `former` percent; empty if it is valid."""
    if not isinstance(entry, Mapping) or not {"weight"} <= set(entry) <= {"weight", "bakeTime"}:
        return "it has weight and bakeTime"
    weight, bake_time = entry["weight"], entry.get("bakeTime")
    if not isinstance(weight, int) or isinstance(weight, bool) or not 1 <= weight <= WHOLE:
        return f"weight is a whole number from 1 to {WHOLE}"
    if weight <= former:
        return f"weight rises from step to step, and {weight} follows {former}"
    if bake_time is None:
        return "" if is_last else "only the last may be without bakeTime"
    if not isinstance(bake_time, str):
        return "bakeTime is a text"
    return describe_duration_problem(bake_time).replace("duration", "bakeTime", 1)


def _get_bake_seconds(entry: Mapping[str, Any]) -> int:
    return parse_wait_duration(entry.get("bakeTime") or "0s")


@dataclass(frozen=True)
class EcsBlueGreenSwapTargetGroupsSpec:
    """Settings for the old service after the swap (R244)."""

    doNotDownsizeOldService: bool = False
    """Keep the old service running."""
    downsizeOldServiceDelayInSecs: int = 0
    """Seconds until the old service is scaled to 0, in addition to the timeout of the step."""

    def __post_init__(self) -> None:
        delay = self.downsizeOldServiceDelayInSecs
        if isinstance(delay, int) and not 0 <= delay <= DOWNSIZE_DELAY_SECONDS:
            raise BadStepError(
                "downsizeOldServiceDelayInSecs of EcsBlueGreenSwapTargetGroups is from 0 to "
                f"{DOWNSIZE_DELAY_SECONDS}, not {delay}"
            )

    @property
    def planned_wait_seconds(self) -> int:
        """Return the delay, unless the old service stays as it is."""
        return 0 if self.doNotDownsizeOldService else self.downsizeOldServiceDelayInSecs


@dataclass(frozen=True)
class EcsBlueGreenRollbackSpec:
    """Settings of a blue/green rollback: none."""


_CREATE_OUTPUTS = {
    **REVISION_OUTPUTS,
    **SERVICE_OUTPUTS,
    "targetGroupArn": "The ARN of the target group that receives the stage traffic.",
    **{
        f"targetGroupArn{number}": f"The same for pair {number} of listeners, where the step has as many."
        for number in range(2, LISTENER_PAIRS + 1)
    },
    "oldServiceName": "The ECS service that was live when the deployment began, where there was one.",
}


@step(
    "EcsBlueGreenCreateService",
    title="ECS Blue Green Create Service",
    spec=EcsBlueGreenCreateServiceSpec,
    outputs=_CREATE_OUTPUTS,
    needs_cluster=True,
    undone_by="EcsBlueGreenRollback",
    timeout_minutes=30,
)
def ecs_blue_green_create_service(spec: EcsBlueGreenCreateServiceSpec) -> Plan:
    """Start the new version beside the live one, where only the stage listener leads to it."""
    update = spec.updateGreenService
    yield unit(
        "Fetch manifests",
        LockBlueGreenService(pairs=len(spec.pairs)),
        FindTargetGroups(pairs=spec.pairs),
        FetchManifests(),
        CheckBlueGreenManifests(may_differ=spec.allowDifferentTargetGroupPort),
    )
    yield unit(
        "Prepare rollback data",
        SaveBlueGreenPair(scaling_in_swap=spec.enableAutoScalingInSwapStep),
        CorrectBlueTag(),
    )
    yield unit(
        "Deploy",
        RegisterTaskDefinition(live="" if update else "blue before"),
        *((DetachAutoScaling(service_output=OLD_SERVICE),) if spec.is_one_rule else ()),
        SuspendAutoScaling() if update else RemoveGreenService(),
        CreateStageService(update=update, keep_count=spec.sameAsAlreadyRunningInstances),
        WaitForStageService(update=update, fail_fast=spec.failFast),
        TagStageService(update=update),
        *(() if spec.enableAutoScalingInSwapStep else (AttachAutoScaling(activate=True),)),
        *((ResumeAutoScaling(),) if update else ()),
    )


_SHIFT_OUTPUTS = {
    "serviceName": "The name of the ECS service of the new version.",
    "serviceArn": "The ARN of that ECS service.",
    "oldServiceName": "The ECS service that shares the traffic, where there is one.",
    "autoScalingOfOldServiceName": "Whether the scale-in of the old ECS service is suspended.",
    "trafficPercent": "The percent of production traffic that the new version receives.",
    "watchedSince": "When the last bake began.",
    "waitsUntil": "When the last bake ends.",
}


@step(
    SHIFT_STEP_TYPE,
    title="ECS Blue Green Traffic Shift",
    spec=EcsBlueGreenTrafficShiftSpec,
    outputs=_SHIFT_OUTPUTS,
    needs_cluster=True,
    undone_by="EcsBlueGreenRollback",
    comes_between=("EcsBlueGreenCreateService", "EcsBlueGreenSwapTargetGroups"),
    timeout_minutes=30,
    starter={"steps": [{"weight": 10, "bakeTime": "5m"}, {"weight": 50, "bakeTime": "5m"}]},
)
def ecs_blue_green_traffic_shift(spec: EcsBlueGreenTrafficShiftSpec) -> Plan:
    """Send production traffic to the new version by parts, and watch each part before the next."""
    alarms, metrics = list(spec.alarms), complete_metrics(spec.metrics)
    yield unit(
        "Prepare rollback data",
        SaveTrafficBeforeShift(percents=[entry["weight"] for entry in spec.steps]),
        *((CheckAlarmsBeforeShift(alarms),) if alarms else ()),
        WaitForHealthyTargets(),
        HoldScaleIn(),
    )
    for entry in spec.steps:
        percent, seconds = entry["weight"], _get_bake_seconds(entry)
        yield unit(
            f"Shift {percent} % of traffic",
            CheckTargetsBeforeSwap(),
            ShiftTraffic(percent),
            *((BakeTraffic(alarms, metrics, seconds, percent=percent),) if entry.get("bakeTime") else ()),
        )


_SWAP_OUTPUTS = {
    "serviceName": "The name of the ECS service that receives production traffic now.",
    "serviceArn": "The ARN of that ECS service.",
    "oldServiceName": "The ECS service that was live before, where there was one.",
    "swapped": "Whether the listeners were swapped.",
    "autoScalingOfOldServiceName": "What became of the auto scaling of the old ECS service.",
}


@step(
    "EcsBlueGreenSwapTargetGroups",
    title="ECS Blue Green Swap Target",
    spec=EcsBlueGreenSwapTargetGroupsSpec,
    outputs=_SWAP_OUTPUTS,
    needs_cluster=True,
    undone_by="EcsBlueGreenRollback",
    timeout_minutes=30,
)
def ecs_blue_green_swap_target_groups(spec: EcsBlueGreenSwapTargetGroupsSpec) -> Plan:
    """Send production traffic to the new version, then let the old version's tasks go."""
    yield unit("Prepare rollback data", SaveTraffic(), WaitForHealthyTargets())
    # Undone in the reverse order: traffic goes back before the old service's scaling goes on (R216).
    yield unit(
        "Swap target groups",
        DetachAutoScaling(service_output=OLD_SERVICE),
        CheckTargetsBeforeSwap(),
        SwapTraffic(),
        ResumeUnlessSwapped(),
        TagSwappedServices(),
        AttachAutoScalingInSwap(),
    )
    if spec.doNotDownsizeOldService:
        return
    delay = spec.downsizeOldServiceDelayInSecs
    yield unit(
        "Downsize old service",
        *((WaitBeforeDownsizing(seconds=delay),) if delay else ()),
        DownsizeOldService(),
    )


@step(
    "EcsBlueGreenRollback",
    title="ECS Blue Green Rollback",
    spec=EcsBlueGreenRollbackSpec,
    needs_cluster=True,
    undoes=("EcsBlueGreenSwapTargetGroups", SHIFT_STEP_TYPE, "EcsBlueGreenCreateService"),
    timeout_minutes=30,
)
def ecs_blue_green_rollback(spec: EcsBlueGreenRollbackSpec) -> Plan:
    """Undo swap, shifts and create: start the old tasks, then move traffic, then stop the new tasks."""
    yield from ()
