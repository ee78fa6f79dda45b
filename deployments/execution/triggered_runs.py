"""Runs that triggers start: the same operation as a run by hand, with its checks."""

from dataclasses import replace

from deployments.execution.operations import get_default_artifact, run_pipeline
from deployments.execution.planning.run_requests import validate_run
from deployments.execution.policy_checks import RunSettings, require_run_allowed
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
            digest=_find_digest(run),
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
        if digest := _find_digest(run):
            request = replace(request, artifact=request.artifact | {"digest": digest})
        targets = freezes.list_targets(request.targets)
        freezes.check_freeze_override(run.actor, run.pipeline.scope, targets, override=False)
        require_run_allowed(run.pipeline, request, RunSettings(run.actor, cause=run.cause))


def _find_digest(run: TriggeredRun) -> str:
    """Return the digest of an event, if it is of the image that the pipeline deploys."""
    if not run.digest:
        return ""
    image = str(get_default_artifact(run.pipeline).get("image") or "")
    return run.digest if f"/{image}".endswith(f"/{run.repository}") else ""
