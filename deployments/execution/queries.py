"""Queries of executions: visible to a person, open in a scope, waiting for a service lock."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Prefetch, Q, QuerySet, Subquery

from connectors.models import Connector
from deployments.models import AwsCall, Execution, ServiceLock, ServiceLockClaim, StageExecution
from pipelines.models import Pipeline, TriggerFiring
from pipelines.queries import list_visible_pipelines
from rbac.archive_guards import WorkInProgress
from rbac.models import Scope, User
from rbac.policy import build_below_filter, filter_visible
from steps.states import OPEN_STATUSES, TERMINAL_STATUSES, CallState, Outcome, Status

MOST_DIGITS = 9


def list_visible_executions(principal: User, scope: Scope | None = None) -> QuerySet[Execution]:
    """Return the visible executions, in one scope or everywhere, with the columns of a list."""
    return filter_visible(principal, "core_pipeline_view", select_list_columns(), scope)


def select_list_columns() -> QuerySet[Execution]:
    """Return all executions with the columns of a list."""
    rows = Execution.objects.select_related("pipeline", "scope", "started_by").defer("yaml", "pipeline__yaml")
    stages = StageExecution.objects.order_by("position").only("execution", "position", "values")
    return rows.prefetch_related(Prefetch("stages", queryset=stages))


def list_calls(execution: Execution) -> QuerySet[AwsCall]:
    """Return the AWS calls of an execution without their large columns."""
    calls = AwsCall.objects.filter(execution=execution).select_related("step", "action")
    return calls.defer("parameters", "result")


ROLLED_BACK_OUTCOMES = (Outcome.ROLLED_BACK, Outcome.ROLLED_BACK_BY_AWS)
ROLLED_BACK = Q(outcome__in=ROLLED_BACK_OUTCOMES) | Q(status=Status.ROLLED_BACK)
SUCCEEDED = Q(status=Status.SUCCESS) | Q(status=Status.IGNORE_FAILED, outcome=Outcome.COMPLETED)
# Of executions that ended: aborted and skipped ones neither succeeded nor failed.
FAILED = ROLLED_BACK | ~SUCCEEDED & ~Q(status__in=(Status.ABORTED, Status.SKIPPED))

# Runs of a pipeline that its success rate counts, and that the list of pipelines shows.
MOST_RATED_RUNS = 20
MOST_RECENT_RUNS = 5


@dataclass(frozen=True)
class PipelineActivity:
    """Newest runs of a pipeline, the newest first, and counts of the last 20."""

    runs: tuple[Execution, ...] = ()
    success_count: int = 0
    failure_count: int = 0
    running_count: int = 0

    @property
    def recent(self) -> list[Execution]:
        """Return the runs to show, the newest last."""
        return list(reversed(self.runs))

    @property
    def last(self) -> Execution | None:
        return self.runs[0] if self.runs else None

    @property
    def success_rate(self) -> int | None:
        """Return the percentage of successes, rounded down; None without an ended run."""
        count = self.success_count + self.failure_count
        return 100 * self.success_count // count if count else None


def load_pipeline_activity(principal: User, pipelines: Sequence[Pipeline]) -> dict[int, PipelineActivity]:
    """Return the newest visible runs of each pipeline by its key; two queries.

    The database counts the rated runs: a page would spend most of its time on their 1,000 rows.
    """
    rows = Execution.objects.filter(pipeline__in=pipelines)
    visible = filter_visible(principal, "core_pipeline_view", rows)
    times = ("created_at", "started_at", "ended_at")
    columns = ("pipeline_id", "number", "attempt", "status", "outcome", *times)
    runs: dict[int, list[Execution]] = {pipeline.pk: [] for pipeline in pipelines}
    for execution in _select_newest(visible, MOST_RECENT_RUNS).order_by("-number").only(*columns):
        runs[execution.pipeline_id].append(execution)
    counts = {pk: tuple(numbers) for pk, *numbers in _count_results(visible)}
    return {pk: PipelineActivity(tuple(runs[pk]), *counts.get(pk, ())) for pk in runs}


def _select_newest(runs: QuerySet[Execution], count: int) -> QuerySet[Execution]:
    return runs.filter(number__gte=F("pipeline__next_number") - count)


def _count_results(runs: QuerySet[Execution]) -> QuerySet[Any, Any]:
    """Return the key of each pipeline with its numbers of succeeded, failed and running runs."""
    ended = Q(status__in=TERMINAL_STATUSES)
    return (
        _select_newest(runs, MOST_RATED_RUNS)
        .order_by()
        .values_list("pipeline_id")
        .annotate(
            success_count=Count("pk", filter=ended & SUCCEEDED & ~ROLLED_BACK),
            failure_count=Count("pk", filter=ended & FAILED),
            running_count=Count("pk", filter=~ended),
        )
    )


PIPELINE_FILTERS = {
    "": "All pipelines",
    "running": "Running now",
    "failed": "Last run failed",
    "never": "Never run",
}


def filter_pipelines_by_activity(pipelines: QuerySet[Pipeline], name: str) -> QuerySet[Pipeline]:
    """Return the pipelines that match one of `PIPELINE_FILTERS`."""
    runs = Execution.objects.filter(pipeline=OuterRef("pk"))
    if name == "running":
        # Open executions are due again: a few of many, by an index that SQLite uses in spite of parameters.
        running = Execution.objects.filter(due_at__isnull=False, status__in=OPEN_STATUSES)
        return pipelines.filter(pk__in=running.values("pipeline"))
    if name == "never":
        return pipelines.filter(~Exists(runs))
    if name == "failed":
        last = Execution.objects.filter(pk=OuterRef("last_run"), status__in=TERMINAL_STATUSES)
        newest = runs.order_by("-number").values("pk")[:1]
        return pipelines.alias(last_run=Subquery(newest)).filter(Exists(last.filter(FAILED)))
    return pipelines


def filter_by_text(executions: QuerySet[Execution], principal: User, text: str) -> QuerySet[Execution]:
    """Return the executions that match `text` by a part of the pipeline's name, number or tag."""
    text = text.strip()
    if not text:
        return executions
    number = text.removeprefix("#")
    condition = Q(pipeline__in=_find_pipelines_by_name(principal, text)) | Q(tag=text)
    if number.isascii() and number.isdigit() and len(number) <= MOST_DIGITS:
        condition |= Q(number=int(number))
    return executions.filter(condition)


def filter_by_trigger(executions: QuerySet[Execution], trigger: int) -> QuerySet[Execution]:
    """Return the executions that a trigger started."""
    firings = TriggerFiring.objects.filter(trigger=trigger, execution_id__isnull=False)
    return executions.filter(pk__in=firings.values("execution_id"))


def _find_pipelines_by_name(principal: User, text: str) -> list[int]:
    """Return the pipelines with `text` in their name, compared in Python: databases fold case differently."""
    rows = list_visible_pipelines(principal).values_list("pk", "name", "identifier")
    folded = text.casefold()
    return [pk for pk, *names in rows if any(folded in name.casefold() for name in names)]


def list_newest_tags(principal: User, pipelines: Sequence[Pipeline], limit: int) -> list[str]:
    """Return the tags that pipelines ran last, each once, newest first."""
    runs = list_visible_executions(principal).filter(pipeline__in=pipelines).exclude(tag="").exclude(tag=None)
    newest = runs.order_by("-created_at").values_list("tag", flat=True)[: limit * 5]
    return list(dict.fromkeys(newest))[:limit]


ARCHIVE_ADVICE = "Wait until they end or abort them, then archive it."


def count_open_executions(scope: Scope) -> WorkInProgress | None:
    """Count the executions at or below `scope` that are not over."""
    count = Execution.objects.filter(build_below_filter(scope)).exclude(status__in=TERMINAL_STATUSES).count()
    if not count:
        return None
    return WorkInProgress("1 execution is" if count == 1 else f"{count} executions are", ARCHIVE_ADVICE)


def count_connector_executions(connector: Connector) -> int:
    """Count the executions that deployed through a connector; their stages keep it."""
    return Execution.objects.filter(stages__connector=connector).distinct().count()


_LOCK_OF_CLAIM = ServiceLock.objects.filter(key=OuterRef("key"), stage=OuterRef("stage"))


def list_earlier_claims(claim: ServiceLockClaim) -> QuerySet[ServiceLockClaim]:
    """Return the earlier claims of other stages on the same service lock."""
    other_claims = ServiceLockClaim.objects.filter(key=claim.key).exclude(stage=claim.stage_id)
    earlier = Q(requested_at__lt=claim.requested_at) | Q(requested_at=claim.requested_at, pk__lt=claim.pk)
    return other_claims.exclude(stage__status__in=TERMINAL_STATUSES).filter(earlier)


def find_later_success(claims: Collection[ServiceLockClaim], execution: Execution) -> Execution | None:
    """Return the last execution that was started after this one and has deployed one of these services."""
    deployed = ServiceLockClaim.objects.filter(
        key__in=[claim.key for claim in claims],
        # Follows from the next condition, and leaves out the many claims before without a join.
        granted_at__gt=execution.created_at,
        stage__execution__created_at__gt=execution.created_at,
    )
    succeeded = Execution.objects.filter(SUCCEEDED, pk=OuterRef("stage__execution"))
    deployed = deployed.filter(Exists(succeeded.exclude(outcome__in=ROLLED_BACK_OUTCOMES)))
    others = deployed.exclude(stage__execution=execution.pk).exclude(stage__deployment_id="")
    newest = (
        others.select_related("stage__execution").order_by("-stage__execution__created_at", "-pk").first()
    )
    return newest.stage.execution if newest is not None else None


def list_waiting_claims() -> QuerySet[ServiceLockClaim]:
    """Return the claims of all stages that are not granted now, the oldest first."""
    return ServiceLockClaim.objects.filter(~Exists(_LOCK_OF_CLAIM)).order_by("requested_at", "pk")


def build_queue_positions(execution: Execution, stages: list[StageExecution]) -> dict[str, Any] | None:
    """Return the queue positions of the steps that wait for a service lock, oldest first (rule 13)."""
    if execution.is_over:
        return None
    open_stages = [stage for stage in stages if stage.status not in TERMINAL_STATUSES]
    claims = list(list_waiting_claims().filter(stage__in=open_stages).select_related("step"))
    if not claims:
        return None
    other_claims = ServiceLockClaim.objects.filter(key__in={claim.key for claim in claims})
    open_claims = other_claims.exclude(stage__status__in=TERMINAL_STATUSES).select_related("stage__execution")
    queue = list(open_claims.order_by("requested_at", "pk"))
    positions = [_get_queue_position(claim, queue) for claim in claims]
    return {**positions[0], "steps": positions}


def _get_queue_position(claim: ServiceLockClaim, queue: Sequence[ServiceLockClaim]) -> dict[str, Any]:
    """Return the position of one claim in the queue of its lock, as in `list_earlier_claims`."""
    position = (claim.requested_at, claim.pk)
    other_claims = [
        other_claim
        for other_claim in queue
        if other_claim.key == claim.key and other_claim.stage_id != claim.stage_id
    ]
    earlier = [
        other_claim for other_claim in other_claims if (other_claim.requested_at, other_claim.pk) < position
    ]
    return {
        "position": len({other_claim.stage_id for other_claim in earlier}),
        "waits_for": f"#{earlier[0].stage.execution.number}" if earlier else None,
        "ecs_service": claim.ecs_service,
        "step": claim.step.identifier,
    }


def explain_delegate_wait(execution: Execution) -> dict[str, Any] | None:
    """Return the reason why no delegate has the next call yet, and the remedy."""
    if execution.is_over:
        return None
    queued = AwsCall.objects.filter(execution=execution, state=CallState.PLANNED, task__status="QUEUED")
    call = queued.filter(task__offered_to=None).exclude(task__reason="").select_related("task", "step").last()
    if call is None or call.task is None:
        return None
    return {
        "step": call.step.identifier,
        "selectors": call.task.selectors,
        "selectors_from": call.task.selectors_from or None,
        "reason": call.task.reason,
        "since": call.task.queued_at.isoformat(),
        "until": call.task.deadline.isoformat(),
        "task": str(call.task.pk),
    }


def has_written(stage: StageExecution) -> bool:
    """Return whether AWS may have received a write of this stage."""
    states = (CallState.SENT, CallState.UNKNOWN, CallState.ANSWERED)
    writes = AwsCall.objects.filter(step__stage=stage, is_write=True, state__in=states)
    return bool(stage.deployment_id) or writes.exists()


def has_kept_stage(execution: Execution) -> bool:
    """Return whether a stage that succeeded has changed an ECS service, and no rollback has undone it."""
    succeeded = execution.stages.filter(
        status__in=(Status.SUCCESS, Status.IGNORE_FAILED), claims__isnull=False
    )
    return any(has_written(stage) for stage in succeeded.distinct())
