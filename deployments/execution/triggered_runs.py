"""Runs that triggers start: the same operation as a run by hand, with its checks."""

from deployments.execution.operations import run_pipeline
from deployments.execution.policy_checks import RunSettings, require_run_allowed
from deployments.execution.run_requests import validate_run
from deployments.freezes import operations as freezes
from pipelines.triggers.runs import StartedRun, TriggeredRun


class TriggeredRunStarter:
    """Starts runs for `pipelines.triggers`, which knows no executions."""

    def start(self, run: TriggeredRun) -> StartedRun:
        """Start a run. Raises what `run_pipeline` raises."""
        execution = run_pipeline(
            actor=run.actor,
            pipeline=run.pipeline,
            artifact_tag=run.tag,
            inputs=run.inputs,
            idempotency_key=run.key,
            cause=run.cause,
        )
        return StartedRun(execution.pk, execution.number)

    def check(self, run: TriggeredRun) -> None:
        """Raise what `start` would raise before it writes anything."""
        request = validate_run(
            actor=run.actor,
            pipeline=run.pipeline,
            yaml=run.pipeline.yaml,
            artifact_tag=run.tag,
            inputs=run.inputs,
        )
        targets = freezes.list_targets(request.targets)
        freezes.check_freeze_override(run.actor, run.pipeline.scope, targets, override=False)
        require_run_allowed(run.pipeline, request, RunSettings(run.actor, cause=run.cause))
