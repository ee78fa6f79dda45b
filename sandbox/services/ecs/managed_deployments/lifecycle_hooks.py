"""Lifecycle hooks of service deployments: pauses that a client ends, and a stand-in for Lambda functions."""

import secrets
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from sandbox.clock import CLOCK
from sandbox.services.ecs.errors import InvalidEcsParameter, ServiceDeploymentNotFound
from sandbox.services.ecs.records import LifecycleHookRun, SandboxService, ServiceDeployment

if TYPE_CHECKING:
    from sandbox.services.ecs.backend import SandboxEcs

PAUSE: Final = "PAUSE"
LAMBDA: Final = "AWS_LAMBDA"
# Stages at which the traffic moves: only functions may run there.
SHIFT_STAGES: Final = ("TEST_TRAFFIC_SHIFT", "PRODUCTION_TRAFFIC_SHIFT")
HOOK_STAGES: Final = (
    "RECONCILE_SERVICE",
    "PRE_SCALE_UP",
    "POST_SCALE_UP",
    "TEST_TRAFFIC_SHIFT",
    "POST_TEST_TRAFFIC_SHIFT",
    "PRE_PRODUCTION_TRAFFIC_SHIFT",
    "PRODUCTION_TRAFFIC_SHIFT",
    "POST_PRODUCTION_TRAFFIC_SHIFT",
)
DEFAULT_TIMEOUT_MINUTES: Final = 1440
MAX_TIMEOUT_MINUTES: Final = 20160
# A function whose name ends with one of these fails or never answers; others succeed.
FAILING_SUFFIX, SILENT_SUFFIX = "-fails", "-hangs"
FUNCTION_SECONDS: Final = 3.0


def check_hooks(hooks: Iterable[Mapping[str, Any]]) -> None:
    """Check the hooks of a deployment configuration. Raises InvalidParameterException."""
    for hook in hooks:
        stages = hook.get("lifecycleStages") or []
        if not stages:
            raise InvalidEcsParameter("Specify at least one lifecycle stage for each lifecycle hook.")
        if unknown := [stage for stage in stages if stage not in HOOK_STAGES]:
            raise InvalidEcsParameter(f"Lifecycle hooks cannot run at {', '.join(unknown)}.")
        if _get_kind(hook) == PAUSE:
            if refused := [stage for stage in stages if stage in SHIFT_STAGES]:
                raise InvalidEcsParameter(f"PAUSE hooks cannot be configured at {', '.join(refused)}.")
        elif not hook.get("hookTargetArn") or not hook.get("roleArn"):
            raise InvalidEcsParameter("AWS_LAMBDA hooks require hookTargetArn and roleArn.")
        minutes = (hook.get("timeoutConfiguration") or {}).get("timeoutInMinutes", DEFAULT_TIMEOUT_MINUTES)
        if not 1 <= minutes <= MAX_TIMEOUT_MINUTES:
            raise InvalidEcsParameter(f"timeoutInMinutes should be between 1 and {MAX_TIMEOUT_MINUTES}.")


def has_hooks(record: ServiceDeployment, stage: str) -> bool:
    return any(stage in hook["lifecycleStages"] for hook in _list_hooks(record))


def start_hooks(record: ServiceDeployment, stage: str) -> None:
    """Start the hooks of a stage."""
    for hook in _list_hooks(record):
        if stage in hook["lifecycleStages"]:
            record.hooks = (*record.hooks, _start_hook(hook, stage))


def _list_hooks(record: ServiceDeployment) -> list[Mapping[str, Any]]:
    return record.deployment_configuration.get("lifecycleHooks") or []


def _get_kind(hook: Mapping[str, Any]) -> str:
    return str(hook.get("targetType") or LAMBDA)


def _start_hook(hook: Mapping[str, Any], stage: str) -> LifecycleHookRun:
    kind, timeout = _get_kind(hook), hook.get("timeoutConfiguration") or {}
    seconds = 60.0 * timeout.get("timeoutInMinutes", DEFAULT_TIMEOUT_MINUTES)
    prefix = "ecs-pause" if kind == PAUSE else "ecs-lambda"
    return LifecycleHookRun(
        hook_id=f"{prefix}-{secrets.token_urlsafe(32)}",
        target_type=kind,
        target_arn=hook.get("hookTargetArn"),
        status="AWAITING_ACTION" if kind == PAUSE else "IN_PROGRESS",
        expires_at=CLOCK.now() + timedelta(seconds=seconds),
        timeout_action=timeout.get("action", "ROLLBACK"),
        stage=stage,
        began_at=CLOCK.elapsed,
        ends_at=CLOCK.elapsed + seconds,
    )


def advance_hooks(record: ServiceDeployment) -> bool:
    """End functions that answered and hooks that timed out; return whether there were any."""
    changed = False
    for run in record.hooks:
        if not run.is_open:
            continue
        if CLOCK.elapsed >= run.ends_at:
            run.status, changed = "TIMED_OUT", True
        elif run.target_type == LAMBDA and CLOCK.elapsed - run.began_at >= FUNCTION_SECONDS:
            run.status = _invoke_stand_in(run.target_arn or "")
            changed |= not run.is_open
    return changed


def _invoke_stand_in(function: str) -> str:
    if function.endswith(SILENT_SUFFIX):
        return "IN_PROGRESS"
    return "FAILED" if function.endswith(FAILING_SUFFIX) else "SUCCEEDED"


def find_rollback_reason(record: ServiceDeployment) -> str:
    """Return why a hook ends the deployment, "" if none does."""
    for run in record.hooks:
        if run.status == "FAILED":
            what = "ContinueServiceDeployment was called" if run.target_type == PAUSE else "the hook failed"
            return f"Service deployment rolled back because {what} at {run.stage}."
        if run.status == "TIMED_OUT" and run.timeout_action == "ROLLBACK":
            return f"Service deployment rolled back because a lifecycle hook timed out at {run.stage}."
    return ""


def continue_deployment(backend: "SandboxEcs", arn: str, hook_id: str, action: str) -> str:
    """End a pause by CONTINUE or ROLLBACK, and return the service deployment's ARN.

    Raises `ServiceDeploymentNotFound`, and InvalidParameterException unless the deployment is in progress and
    the hook awaits an action. Source: ECS developer guide, continuing service deployments.
    """
    if action not in ("CONTINUE", "ROLLBACK"):
        raise InvalidEcsParameter("The action should be CONTINUE or ROLLBACK.")
    service, record = _find_deployment(backend, arn)
    run = next((run for run in record.hooks if run.hook_id == hook_id), None)
    if record.status != "IN_PROGRESS" or run is None or run.status != "AWAITING_ACTION":
        raise InvalidEcsParameter("The service deployment has no hook with this ID that awaits an action.")
    run.status = "SUCCEEDED" if action == "CONTINUE" else "FAILED"
    record.updated_at = CLOCK.now()
    service.due_at = 0.0
    return arn


def _find_deployment(backend: "SandboxEcs", arn: str) -> tuple[SandboxService, ServiceDeployment]:
    for service in backend.services.values():
        for record in service.history:
            if record.service_deployment_arn == arn:
                return service, record
    raise ServiceDeploymentNotFound
