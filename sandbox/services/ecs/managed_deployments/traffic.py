"""Blue/green, linear and canary deployments: lifecycle stages, and traffic that ECS shifts itself.

Sources: ECS developer guide, blue/green, linear and canary deployments; ECS API, ServiceDeployment. AWS does
not say how long a stage without work takes, nor the weights for fractions of a percent: both are ours.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sandbox.clock import CLOCK
from sandbox.services import elb
from sandbox.services.ecs.errors import InvalidEcsParameter
from sandbox.services.ecs.managed_deployments import lifecycle_hooks
from sandbox.services.ecs.records import SandboxDeployment, SandboxService, ServiceDeployment

if TYPE_CHECKING:
    from sandbox.services.ecs.backend import SandboxEcs

STRATEGIES: Final = ("BLUE_GREEN", "LINEAR", "CANARY")
PRE_SHIFT, SHIFT = "PRE_PRODUCTION_TRAFFIC_SHIFT", "PRODUCTION_TRAFFIC_SHIFT"
CLEAN_UP: Final = "CLEAN_UP"
STAGES: Final = (
    "RECONCILE_SERVICE",
    "PRE_SCALE_UP",
    "SCALE_UP",
    "POST_SCALE_UP",
    "TEST_TRAFFIC_SHIFT",
    "POST_TEST_TRAFFIC_SHIFT",
    PRE_SHIFT,
    SHIFT,
    "POST_PRODUCTION_TRAFFIC_SHIFT",
    "BAKE_TIME",
    CLEAN_UP,
)
STAGE_SECONDS: Final = 2.0
MAX_MINUTES: Final = 1440
DEFAULT_CANARY: Final = (5.0, 10)
DEFAULT_LINEAR: Final = (10.0, 6)
ALL: Final = 100.0


def get_managed_record(service: SandboxService) -> ServiceDeployment | None:
    """Return the newest service deployment if ECS shifts its traffic."""
    record = service.history[0] if service.history else None
    return record if record is not None and record.lifecycle_stage is not None else None


def holds_source(service: SandboxService) -> bool:
    """Return whether ECS keeps the source revision running beside the target one."""
    record = get_managed_record(service)
    return record is not None and record.status == "IN_PROGRESS" and record.lifecycle_stage != CLEAN_UP


def find_source(service: SandboxService) -> SandboxDeployment | None:
    """Return the deployment with the production traffic, None for the first one of a service."""
    return service.last_completed if service.last_completed is not service.primary else None


def may_run_target(service: SandboxService) -> bool:
    record = get_managed_record(service)
    return record is None or STAGES.index(record.lifecycle_stage or CLEAN_UP) >= STAGES.index("SCALE_UP")


def prepare_deployment(service: SandboxService, made: SandboxDeployment) -> None:
    """Choose the target groups of a new deployment: the ones that its source does not use."""
    made.strategy = service.deployment_configuration.get("strategy", "ROLLING")
    source = service.last_completed
    if source is None or made.strategy not in STRATEGIES:
        made.uses_alternate = source is not None and source.uses_alternate
        return
    made.uses_alternate = any(source.get_group(b) == b["targetGroupArn"] for b in source.load_balancers)


def start_stages(service: SandboxService, record: ServiceDeployment) -> None:
    """Enter the first stage; the reconciliation is only for a service with more than one active revision."""
    first = "RECONCILE_SERVICE" if len(service.deployments) > 2 else "PRE_SCALE_UP"
    _enter_stage(record, first)


def _enter_stage(record: ServiceDeployment, stage: str) -> None:
    record.lifecycle_stage = stage
    record.stage_since = CLOCK.elapsed
    record.updated_at = CLOCK.now()
    lifecycle_hooks.start_hooks(record, stage)


def advance_stages(
    backend: "SandboxEcs", service: SandboxService, primary: SandboxDeployment, *, is_scaled: bool
) -> str:
    """Advance the open deployment by at most one stage or traffic shift.

    `is_scaled`: whether the target revision's tasks are all healthy. Returns why a hook ends the deployment,
    "" if none does.
    """
    record = service.history[0]
    lifecycle_hooks.advance_hooks(record)
    if reason := lifecycle_hooks.find_rollback_reason(record):
        return reason
    stage = record.lifecycle_stage or ""
    if stage == "PRE_SCALE_UP":
        # Both groups belong to the rule from now on, so that the new tasks are checked.
        _set_weights(backend, service, record, primary)
    if stage == "TEST_TRAFFIC_SHIFT" and record.test_weight != ALL:
        record.test_weight = ALL
        _set_weights(backend, service, record, primary)
    if stage == SHIFT and _is_shift_due(record):
        record.production_weight, record.shifted_at = _get_next_weight(record), CLOCK.elapsed
        _set_weights(backend, service, record, primary)
    if _is_done(service, record, is_scaled=is_scaled):
        _enter_stage(record, _get_next_stage(record, stage))
    return ""


def _get_next_stage(record: ServiceDeployment, stage: str) -> str:
    if stage == SHIFT and record.production_weight < ALL:
        # Hooks run at every step.
        return PRE_SHIFT if lifecycle_hooks.has_hooks(record, PRE_SHIFT) else SHIFT
    following = STAGES[STAGES.index(stage) + 1]
    if following == PRE_SHIFT and not lifecycle_hooks.has_hooks(record, PRE_SHIFT):
        return SHIFT
    return following


def _is_shift_due(record: ServiceDeployment) -> bool:
    """Return whether the stage was entered after the last shift."""
    return record.production_weight < ALL and record.shifted_at < record.stage_since


def _get_next_weight(record: ServiceDeployment) -> float:
    percent, _ = _get_step(record)
    if record.deployment_configuration["strategy"] == "CANARY" and record.production_weight:
        return ALL
    return min(record.production_weight + percent, ALL)


def _get_step(record: ServiceDeployment) -> tuple[float, int]:
    """Return the percentage of one shift, and the minutes after it."""
    configuration = record.deployment_configuration
    if configuration["strategy"] == "CANARY":
        canary, (percent, minutes) = configuration.get("canaryConfiguration") or {}, DEFAULT_CANARY
        return canary.get("canaryPercent", percent), canary.get("canaryBakeTimeInMinutes", minutes)
    if configuration["strategy"] == "LINEAR":
        linear, (percent, minutes) = configuration.get("linearConfiguration") or {}, DEFAULT_LINEAR
        return linear.get("stepPercent", percent), linear.get("stepBakeTimeInMinutes", minutes)
    return ALL, 0


def _is_done(service: SandboxService, record: ServiceDeployment, *, is_scaled: bool) -> bool:
    stage, age = record.lifecycle_stage, CLOCK.elapsed - record.stage_since
    if age < STAGE_SECONDS or any(run.is_open for run in record.hooks):
        return False
    if stage == "RECONCILE_SERVICE":
        return len(service.deployments) <= 2
    if stage == "SCALE_UP":
        return is_scaled
    if stage == SHIFT and record.production_weight < ALL:
        return age >= 60.0 * _get_step(record)[1]
    if stage == "BAKE_TIME":
        return age >= 60.0 * int(record.deployment_configuration.get("bakeTimeInMinutes") or 0)
    return True


def return_traffic(backend: "SandboxEcs", service: SandboxService) -> None:
    """Give all traffic back to the primary deployment of a rollback, once."""
    record, primary = get_managed_record(service), service.primary
    if record is None or primary is None or record.status != "ROLLBACK_IN_PROGRESS":
        return
    if record.lifecycle_stage == CLEAN_UP and not record.production_weight + record.test_weight:
        return
    record.production_weight = record.test_weight = 0.0
    record.lifecycle_stage, record.updated_at = CLEAN_UP, CLOCK.now()
    for balancer in primary.load_balancers:
        _set_rules(backend, balancer, group=primary.get_group(balancer), production=ALL, test=ALL)


def _set_weights(
    backend: "SandboxEcs", service: SandboxService, record: ServiceDeployment, primary: SandboxDeployment
) -> None:
    for balancer in service.load_balancers:
        group = primary.get_group(balancer)
        _set_rules(
            backend, balancer, group=group, production=record.production_weight, test=record.test_weight
        )


def _set_rules(
    backend: "SandboxEcs", balancer: Mapping[str, Any], *, group: str, production: float, test: float
) -> None:
    """Set the weights of a balancer's rules; `group` gets these percentages, its pair the rest."""
    advanced = balancer.get("advancedConfiguration") or {}
    pair = {balancer["targetGroupArn"], advanced.get("alternateTargetGroupArn")} - {group, None}
    for name, percent in (("productionListenerRule", production), ("testListenerRule", test)):
        if (arn := advanced.get(name)) and pair:
            share = percent if percent == int(percent) else percent * 9.99
            whole = 100 if percent == int(percent) else 999
            weights = {group: round(share), pair.copy().pop(): whole - round(share)}
            elb.set_forward_weights(backend.account_id, backend.region_name, arn, weights)


def check_strategy(backend: "SandboxEcs", service: SandboxService) -> None:
    """Check the strategy of a service as it would be. Raises InvalidParameterException."""
    configuration = service.deployment_configuration
    strategy = configuration.get("strategy", "ROLLING")
    lifecycle_hooks.check_hooks(configuration.get("lifecycleHooks") or [])
    if strategy not in ("ROLLING", *STRATEGIES):
        raise InvalidEcsParameter(f"Invalid value '{strategy}' for strategy.")
    if strategy == "ROLLING":
        return
    if not service.is_scheduled:
        raise InvalidEcsParameter(f"The strategy {strategy} requires the ECS deployment controller.")
    if service.scheduling_strategy == "DAEMON":
        raise InvalidEcsParameter(f"The strategy {strategy} is not supported for DAEMON services.")
    _check_numbers(configuration)
    managed = [b for b in service.load_balancers if b.get("advancedConfiguration")]
    for balancer in managed:
        _check_advanced_configuration(backend, balancer["advancedConfiguration"])
    if not managed and not (service.service_connect_configuration or {}).get("enabled"):
        raise InvalidEcsParameter(
            f"The strategy {strategy} requires a load balancer with advancedConfiguration or Service Connect."
        )


def _check_numbers(configuration: Mapping[str, Any]) -> None:
    canary, linear = (configuration.get(f"{name}Configuration") or {} for name in ("canary", "linear"))
    minutes = {
        "bakeTimeInMinutes": configuration.get("bakeTimeInMinutes") or 0,
        "canaryBakeTimeInMinutes": canary.get("canaryBakeTimeInMinutes", 0),
        "stepBakeTimeInMinutes": linear.get("stepBakeTimeInMinutes", 0),
    }
    for name, value in minutes.items():
        if not 0 <= value <= MAX_MINUTES:
            raise InvalidEcsParameter(f"{name} should be between 0 and {MAX_MINUTES}.")
    for name, value, least in (
        ("canaryPercent", canary.get("canaryPercent", DEFAULT_CANARY[0]), 0.1),
        ("stepPercent", linear.get("stepPercent", DEFAULT_LINEAR[0]), 3.0),
    ):
        if not least <= value <= ALL:
            raise InvalidEcsParameter(f"{name} should be between {least} and {ALL}.")
    strategy = configuration["strategy"]
    for other, document in (("CANARY", canary), ("LINEAR", linear)):
        if document and strategy != other:
            raise InvalidEcsParameter(f"{other.lower()}Configuration is only valid with strategy {other}.")


def _check_advanced_configuration(backend: "SandboxEcs", advanced: Mapping[str, Any]) -> None:
    needed = ("alternateTargetGroupArn", "productionListenerRule", "roleArn")
    if missing := [name for name in needed if not advanced.get(name)]:
        raise InvalidEcsParameter(f"advancedConfiguration requires {', '.join(missing)}.")
    place = (backend.account_id, backend.region_name)
    if elb.find_group(*place, advanced["alternateTargetGroupArn"]) is None:
        raise InvalidEcsParameter(
            f"Unable to find the specified target group: {advanced['alternateTargetGroupArn']}."
        )
    for name in ("productionListenerRule", "testListenerRule"):
        if (arn := advanced.get(name)) and not elb.has_rule(*place, arn):
            raise InvalidEcsParameter(f"Unable to find the specified listener rule: {arn}.")
