"""Rehearsal of a pipeline: preview, reads of the real cluster, and the run in a filled sandbox."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from aws.errors import AwsError
from delegates.access.aws_access import ConnectorUnavailable
from deployments.execution.planning.run_requests import RunRequest
from deployments.preview.documents import PreviewDetails, build_preview_details
from deployments.preview.dry_run import AwsAccessOpener, PreviewedStep, run_dry_run
from deployments.rehearsal.clocks import RehearsalClock, RehearsalTooLong
from deployments.rehearsal.cluster_reads import ClusterSnapshot, read_cluster
from deployments.rehearsal.results import RehearsalResult, RehearsedStep
from deployments.rehearsal.runs import REHEARSED_PREFIX, RehearsalRun
from deployments.rehearsal.sandbox_access import RehearsalSandbox, SandboxLost, SnapshotRefused, start_sandbox
from guards.limits import REHEARSAL_SECONDS
from pipelines.models import Pipeline
from steps.expressions import has_expression

# Behaviors of the deployed image, with those of the sandbox.
BEHAVIORS: Final[Mapping[str, str]] = {
    "healthy": "runs",
    "crashes": "crash",
    "not_pulled": "nopull",
    "unhealthy": "sick",
    "slow": "slow",
}
NOTHING_REHEARSED = "None of the ECS steps could be rehearsed."
SANDBOX_WAS_LOST = "Unknown: the rehearsal's sandbox was lost."
# IAM's names of the services whose operations the sandbox can deny.
_DENIABLE: Final[Mapping[str, str]] = {
    "ecs": "ecs",
    "elasticloadbalancing": "elbv2",
    "application-autoscaling": "application-autoscaling",
}


@dataclass
class RehearsalReads:
    """Everything that a rehearsal reads before its sandbox starts; without `snapshot`, `reason` says why."""

    preview: PreviewDetails
    snapshot: ClusterSnapshot | None = None
    reason: str = ""


def read_for_rehearsal(
    request: RunRequest, pipeline: Pipeline, open_aws_access: AwsAccessOpener, started_at: datetime
) -> RehearsalReads:
    """Return the preview of a validated run and the cluster of its first stage.

    Raises `CannotPlanError`, and `CallPending` if a delegate has not answered yet.
    """
    previewed = run_dry_run(request, pipeline, open_aws_access, started_at)
    reads = RehearsalReads(build_preview_details(request.artifact, previewed))
    with explain_unknown_end(reads):
        reads.snapshot = _read_first_cluster(request, previewed, open_aws_access)
    return reads


def rehearse(
    request: RunRequest, pipeline: Pipeline, behavior: str, reads: RehearsalReads
) -> RehearsalResult:
    """Rehearse a validated run whose image has a behavior of `BEHAVIORS`, and return the result.

    Nothing is called outside the sandbox, except that manifests are fetched. Raises `CannotPlanError`.
    """
    result = RehearsalResult(behavior, request.artifact, preview=reads.preview, reason=reads.reason)
    if (snapshot := reads.snapshot) is None:
        return result
    deadline = time.monotonic() + float(REHEARSAL_SECONDS)
    result.resources, result.notes = snapshot.count(), list(snapshot.unread)
    with explain_unknown_end(result), start_sandbox() as sandbox:
        _prepare(sandbox, snapshot, reads.preview, result)
        record_run(RehearsalRun(request, pipeline, sandbox, snapshot, deadline), result)
    return result


@contextmanager
def explain_unknown_end(result: RehearsalResult | RehearsalReads) -> Iterator[None]:
    """Give the result the reason why a rehearsal broke off, which leaves its end unknown."""
    try:
        yield
    except (AwsError, ConnectorUnavailable) as error:
        result.reason = f"Unknown: the cluster could not be read. {error}"
    except SnapshotRefused as refused:
        result.reason = f"Unknown: the sandbox could not be filled with this cluster: {refused}"
    except RehearsalTooLong as too_long:
        result.reason = str(too_long)
    except SandboxLost:
        result.reason = SANDBOX_WAS_LOST


def _read_first_cluster(
    request: RunRequest, previewed: Sequence[PreviewedStep], open_aws_access: AwsAccessOpener
) -> ClusterSnapshot:
    """Return the cluster of the first stage with what the previewed calls name there."""
    place = request.targets[0].infrastructure
    if has_expression(place.region) or has_expression(place.cluster):
        raise ConnectorUnavailable(
            "The first stage provisions its infrastructure, so there is no cluster yet."
        )
    calls = [call for step in previewed for call in step.calls]
    # Steps of other types may have regions of their own.
    steps = [item.step for item in previewed]
    step = next((item for item in steps if item.type.startswith(REHEARSED_PREFIX)), steps[0])
    return read_cluster(open_aws_access(step), region=place.region, cluster=place.cluster, calls=calls)


def _prepare(
    sandbox: RehearsalSandbox, snapshot: ClusterSnapshot, preview: PreviewDetails, result: RehearsalResult
) -> None:
    """Fill the sandbox, and deny in it what IAM's simulation denies."""
    image, tag = (result.artifact.get(name, "") for name in ("image", "tag"))
    fill_sandbox(sandbox, snapshot, result, images=[f"{image}:{tag}"] if image else [])
    for permission in preview.permissions:
        prefix, _, operation = permission.action.partition(":")
        if permission.allowed != "denied":
            continue
        if prefix in _DENIABLE:
            sandbox.deny(_DENIABLE[prefix], operation)
            result.denied.append(permission.action)
        else:
            result.notes.append(f"IAM denies {permission.action}, which the sandbox does not check.")
    result.notes += preview.unchecked_reasons


def fill_sandbox(
    sandbox: RehearsalSandbox, snapshot: ClusterSnapshot, result: RehearsalResult, *, images: Sequence[str]
) -> None:
    """Fill the sandbox; these images get the behavior of the result. Raises `SnapshotRefused`."""
    for name in sandbox.fill(snapshot.build_document(BEHAVIORS[result.behavior], images)):
        result.notes.append(f"The service {name} did not become steady in the sandbox.")


class Rehearsal(Protocol):
    """Rehearsal of a run or a rollback in a filled sandbox."""

    clock: RehearsalClock

    def list_steps(self) -> Iterator[RehearsedStep]:
        """Yield each step after it was rehearsed. Raises `SandboxLost`, `RehearsalTooLong`."""


def record_run(run: Rehearsal, result: RehearsalResult) -> None:
    """Rehearse all steps, and give the result their end: unknown if no ECS step could be rehearsed."""
    try:
        for step in run.list_steps():
            result.steps.append(step)
    finally:
        result.seconds = run.clock.seconds
    failed = next((step for step in result.steps if step.status == "FAILED"), None)
    result.status, result.reason = "SUCCEEDED", ""
    unrehearsed = sum(step.status == "NOT_REHEARSED" for step in result.steps)
    if failed:
        result.status, result.reason = "FAILED", failed.reason
    elif unrehearsed and not any(_is_proof(step) for step in result.steps):
        result.status, result.reason = "UNKNOWN", NOTHING_REHEARSED
    elif unrehearsed:
        result.reason = f"{unrehearsed} of {len(result.steps)} steps could not be rehearsed."


def _is_proof(step: RehearsedStep) -> bool:
    """Return whether a step ran in the sandbox; a wait or an assumed approval proves nothing."""
    return step.status == "SUCCEEDED" and step.step_data.step.type.startswith(REHEARSED_PREFIX)
