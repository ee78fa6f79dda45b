"""The blue/green deployment, its swap and its rollback (R224-R251)."""

from dataclasses import dataclass, field

from deployments.actions.blue_green.create import CreateStageService
from deployments.actions.blue_green.downsize import DownsizeOldService, WaitBeforeDownsizing
from deployments.actions.blue_green.green import RemoveGreenService
from deployments.actions.blue_green.pair import CheckBlueGreenManifests, RememberPair
from deployments.actions.blue_green.scaling import (
    OLD_SERVICE,
    AttachAutoScalingInSwap,
    ResumeUnlessSwapped,
)
from deployments.actions.blue_green.steady import WaitForStageService
from deployments.actions.blue_green.swap import RememberTraffic, SwapTraffic, WaitForHealthyTargets
from deployments.actions.blue_green.tags import CorrectBlueTag, TagStageService, TagSwappedServices
from deployments.actions.blue_green.target_groups import FindTargetGroups, HoldBlueGreenService
from deployments.actions.fail_fast import FailFast
from deployments.actions.manifests import FetchManifests
from deployments.actions.scaling import (
    AttachAutoScaling,
    DetachAutoScaling,
    ResumeAutoScaling,
    SuspendAutoScaling,
)
from deployments.actions.task_definition import RegisterTaskDefinition
from deployments.steps.base import BadStepError, Plan, step, unit
from guards.limits import DOWNSIZE_DELAY_SECONDS


@dataclass(frozen=True)
class EcsBlueGreenCreateServiceSpec:
    """Which listeners and rules, and how the stage service comes about (R232).

    Without a rule ARN the listener's default rule is meant (T13). `loadBalancer` is a name or an ARN.
    """

    loadBalancer: str
    prodListener: str
    stageListener: str
    prodListenerRuleArn: str = ""
    stageListenerRuleArn: str = ""
    sameAsAlreadyRunningInstances: bool = False
    enableAutoScalingInSwapStep: bool = False
    updateGreenService: bool = False
    isTrafficShift: bool = False
    failFast: FailFast = field(default_factory=FailFast)

    def __post_init__(self) -> None:
        if self.isTrafficShift is True:
            raise BadStepError(
                "EcsBlueGreenCreateService cannot shift traffic by parts; remove isTrafficShift and let "
                "EcsBlueGreenSwapTargetGroups swap all of it"
            )

    @property
    def is_one_rule(self) -> bool:
        """Whether production and stage are one and the same rule of one listener (R235)."""
        prod = (self.prodListener, self.prodListenerRuleArn)
        return prod == (self.stageListener, self.stageListenerRuleArn)


@dataclass(frozen=True)
class EcsBlueGreenSwapTargetGroupsSpec:
    """What happens to the old service after the swap (R244)."""

    doNotDownsizeOldService: bool = False
    downsizeOldServiceDelayInSecs: int = 0

    def __post_init__(self) -> None:
        delay = self.downsizeOldServiceDelayInSecs
        if isinstance(delay, int) and not 0 <= delay <= DOWNSIZE_DELAY_SECONDS:
            raise BadStepError(
                "downsizeOldServiceDelayInSecs of EcsBlueGreenSwapTargetGroups is from 0 to "
                f"{DOWNSIZE_DELAY_SECONDS}, not {delay}"
            )

    @property
    def seconds_on_purpose(self) -> int:
        """The delay, unless the old service stays as it is."""
        return 0 if self.doNotDownsizeOldService else self.downsizeOldServiceDelayInSecs


@dataclass(frozen=True)
class EcsBlueGreenRollbackSpec:
    """A blue/green rollback has nothing to choose."""


@step(
    "EcsBlueGreenCreateService",
    title="ECS Blue Green Create Service",
    spec=EcsBlueGreenCreateServiceSpec,
    undone_by="EcsBlueGreenRollback",
    timeout_minutes=30,
)
def ecs_blue_green_create_service(spec: EcsBlueGreenCreateServiceSpec) -> Plan:
    """Start the new version beside the live one, where only the stage listener leads to it."""
    update = spec.updateGreenService
    yield unit(
        "Fetch manifests",
        HoldBlueGreenService(),
        FindTargetGroups(
            load_balancer=spec.loadBalancer,
            prod_listener=spec.prodListener,
            prod_rule=spec.prodListenerRuleArn,
            stage_listener=spec.stageListener,
            stage_rule=spec.stageListenerRuleArn,
        ),
        FetchManifests(),
        CheckBlueGreenManifests(),
    )
    yield unit(
        "Prepare rollback data",
        RememberPair(scaling_in_swap=spec.enableAutoScalingInSwapStep),
        CorrectBlueTag(),
    )
    yield unit(
        "Deploy",
        RegisterTaskDefinition(),
        *((DetachAutoScaling(of=OLD_SERVICE),) if spec.is_one_rule else ()),
        SuspendAutoScaling() if update else RemoveGreenService(),
        CreateStageService(update=update, keep_count=spec.sameAsAlreadyRunningInstances),
        WaitForStageService(update=update, fail_fast=spec.failFast),
        TagStageService(update=update),
        *(() if spec.enableAutoScalingInSwapStep else (AttachAutoScaling(activate=True),)),
        *((ResumeAutoScaling(),) if update else ()),
    )


@step(
    "EcsBlueGreenSwapTargetGroups",
    title="ECS Blue Green Swap Target",
    spec=EcsBlueGreenSwapTargetGroupsSpec,
    undone_by="EcsBlueGreenRollback",
    timeout_minutes=30,
)
def ecs_blue_green_swap_target_groups(spec: EcsBlueGreenSwapTargetGroupsSpec) -> Plan:
    """Send production traffic to the new version, then let the old version's tasks go."""
    yield unit("Prepare rollback data", RememberTraffic(), WaitForHealthyTargets())
    # Undone in the reverse order: traffic goes back before the old service's scaling goes on (R216).
    yield unit(
        "Swap target groups",
        DetachAutoScaling(of=OLD_SERVICE),
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
    undoes=("EcsBlueGreenSwapTargetGroups", "EcsBlueGreenCreateService"),
    timeout_minutes=30,
)
def ecs_blue_green_rollback(spec: EcsBlueGreenRollbackSpec) -> Plan:
    """Where swap and create are undone: the old tasks first, then traffic, then the new tasks."""
    yield from ()
