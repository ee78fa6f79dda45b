"""Action that fetches the manifests of a service and validates them before anything is written."""

from dataclasses import dataclass
from typing import Any

from aws.errors import NotFound
from aws.validation.problems import format_path
from aws.validation.rules import compatibility
from steps.actions.base import Action, ActionFailed, action
from steps.actions.context import LoadedManifest, ManifestSource, StepContext
from steps.actions.ecs_service.daemons import refuse_daemon, refuse_daemon_scaling
from steps.actions.scaling_state import SCALABLE_TARGETS, SCALING_POLICIES

TASK_DEFINITION = "EcsTaskDefinition"
SERVICE_DEFINITION = "EcsServiceDefinition"
SCALABLE_TARGET = "EcsScalableTargetDefinition"
SCALING_POLICY = "EcsScalingPolicyDefinition"
ARN_FIELD = "taskDefinitionArn"
TASK_DEFINITION_ARN = "task definition ARN"
_KINDS = (TASK_DEFINITION, SERVICE_DEFINITION, SCALABLE_TARGET, SCALING_POLICY)


@action
@dataclass(frozen=True)
class FetchManifests(Action):
    """Fetch the task definition and the service definition, resolve expressions, validate them (R192).

    `for_native` for a deployment by ECS's own strategy, `allows_daemon` for one of DAEMON services too.
    """

    for_native: bool = False
    allows_daemon: bool = False

    @property
    def title(self) -> str:
        return "Fetch and validate the manifests"

    def start(self, context: StepContext) -> None:
        (task_definition,) = _fetch(context, TASK_DEFINITION)[:1]
        (service_definition,) = _fetch(context, SERVICE_DEFINITION)[:1]
        targets = _fetch_all(context, SCALABLE_TARGET)
        policies = _fetch_all(context, SCALING_POLICY)
        stores = {source.store for kind in _KINDS for source in context.step_inputs.list_sources(kind)}
        context.log(f"Fetched all manifests from {' and '.join(sorted(stores))}")
        for loaded in (task_definition, service_definition, *targets, *policies):
            _log_overrides(context, loaded)
        _save_task_definition(context, task_definition.value, service_definition.value)
        if not self.for_native:
            _refuse_native_strategy(service_definition)
        if not self.allows_daemon:
            refuse_daemon(service_definition.value)
        refuse_daemon_scaling(service_definition.value, [loaded.value for loaded in (*targets, *policies)])
        context.save_for_rollback("service definition", service_definition.value)
        context.set_outputs(serviceName=service_definition.value["serviceName"])
        context.save_for_rollback(SCALABLE_TARGETS, [loaded.value for loaded in targets])
        context.save_for_rollback(SCALING_POLICIES, [loaded.value for loaded in policies])


def _refuse_native_strategy(loaded: LoadedManifest) -> None:
    strategy = (loaded.value.get("deploymentConfiguration") or {}).get("strategy") or "ROLLING"
    if strategy != "ROLLING":
        raise ActionFailed(
            "BAD_MANIFEST",
            f"{', '.join(loaded.paths) or SERVICE_DEFINITION}, deploymentConfiguration.strategy: ECS runs "
            f"{strategy} deployments itself. Deploy this service with the step EcsNativeDeploy, or set the "
            "strategy to ROLLING.",
        )


def _fetch(context: StepContext, kind: str) -> tuple[LoadedManifest, ...]:
    if not context.step_inputs.list_sources(kind):
        raise ActionFailed(
            "MANIFEST_MISSING", f"The service has no {kind} manifest. Add one to the service and run again."
        )
    return _fetch_all(context, kind)


def _fetch_all(context: StepContext, kind: str) -> tuple[LoadedManifest, ...]:
    """Return all manifests of a kind; a service may have none."""
    sources = context.step_inputs.list_sources(kind)
    for source in sources:
        _log_source(context, kind, source)
    manifests = context.step_inputs.load_manifests(kind) if sources else ()
    for loaded in manifests:
        _log_files(context, "Successfully fetched following files:", loaded.paths)
        context.log("")
    return manifests


def _log_files(context: StepContext, title: str, paths: tuple[str, ...]) -> None:
    """Log the files; a manifest stored in the service itself has none."""
    for line in (title, *(f"- {path}" for path in paths)) if paths else ():
        context.log(line)


def _log_overrides(context: StepContext, loaded: LoadedManifest) -> None:
    for override in loaded.overrides:
        context.log(f"Overridden by {override}")
    for warning in loaded.warnings:
        context.log(warning, "warning")


def _save_task_definition(context: StepContext, value: dict[str, Any], service: dict[str, Any]) -> None:
    """Save the task definition to register; for an ARN the registered one, which AWS describes (R161)."""
    arn = value.get(ARN_FIELD)
    if arn is None:
        context.save_for_rollback("task definition", value)
        return
    try:
        registered = context.ecs.describe_task_definition(arn)
    except NotFound as missing:
        raise ActionFailed(
            "TASK_DEFINITION_MISSING",
            f"There is no task definition {arn} in this account and region. Register it, or change "
            "the ARN in the service's task definition manifest.",
        ) from missing
    if not registered.is_active:
        raise ActionFailed(
            "TASK_DEFINITION_INACTIVE",
            f"The task definition {registered.arn} is {registered.raw.get('status')}: AWS starts nothing "
            "new from it. Name an active revision in the service's task definition manifest.",
        )
    if problems := [
        problem
        for problem in compatibility.validate_compatibility(service, registered.raw)
        if not problem.is_warning
    ]:
        raise ActionFailed(
            "BAD_MANIFEST",
            "\n".join(
                f"{SERVICE_DEFINITION}, {format_path(problem.path)}: {problem.message}"
                for problem in problems
            ),
        )
    context.save_for_rollback("task definition", registered.raw)
    context.save_for_rollback(TASK_DEFINITION_ARN, registered.arn)


def _log_source(context: StepContext, kind: str, source: ManifestSource) -> None:
    context.log(f"Fetching {kind} from {source.store}")
    context.log("")
    context.log(f"Fetching {kind} files with identifier: {source.identifier}")
    _log_files(context, "Fetching following Files :", source.paths)
