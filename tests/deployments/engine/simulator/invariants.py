"""What must hold after every simulated schedule."""

import json
from collections import Counter, defaultdict
from datetime import datetime, timedelta

from deployments.journal.rate_limits import RateLimit, get_rate_limit
from deployments.log import iterate_lines
from deployments.models import ActionRun, Execution, RollbackCheck, RollbackValue, ServiceLock
from steps.states import ActionState
from tests.deployments.engine.simulator.schedule import Schedule

# A call is paid for before its row is written and before the group's message arrives.
PAID_BEFORE = timedelta(seconds=10)
ONCE = (
    "Creating Task Definition",
    "Created Task Definition",
    "Creating Service",
    "Updating Service",
    "Deleting service",
)


def list_violations(
    schedule: Schedule, execution: Execution, before: str | None, *, may_differ: bool = False
) -> list[str]:
    """Return the broken promises of this schedule, in words.

    `may_end_otherwise`: the pipeline has failure strategies, so a rollback is not required.
    """
    problems: list[str] = []
    if not execution.is_over:
        return [f"it hangs: {execution.status}, due_at {execution.due_at}"]
    if ServiceLock.objects.filter(stage__execution=execution).exists():
        problems.append("the slot is still held")
    problems += _check_log(execution)
    problems += _check_effects(schedule)
    if schedule.odds.unchanged:
        return problems + _check_unchanged(schedule, execution)
    problems += _check_end(schedule, execution, before, may_differ=may_differ)
    problems += _check_quota(schedule)
    return problems


def _check_quota(schedule: Schedule) -> list[str]:
    """No stretch of time saw more calls than the bucket held and what came back into it meanwhile.

    A delegate makes its calls later than they were paid for; who has lost Valkey counts from a full bucket.
    """
    odds = schedule.odds
    if odds.remote or odds.valkey_lost:
        return []
    times_by_limit: dict[RateLimit, list[datetime]] = defaultdict(list)
    for called_at, operation in schedule.calls:
        times_by_limit[
            get_rate_limit("sts" if operation == "GetCallerIdentity" else "ecs", operation)
        ].append(called_at)
    return [
        f"too many calls of {limit.name}: {index + 1} in {window_end - first}"
        for limit, times in times_by_limit.items()
        if limit.per_second
        for start, first in enumerate(times)
        for index, window_end in enumerate(times[start:])
        if index + 1 > _compute_allowance(limit, odds.quota_share, called_at - first)
    ]


def _compute_allowance(limit: RateLimit, share: float, duration: timedelta) -> float:
    # The queue and the newcomers have at least one token each.
    burst_size = max(limit.burst * share, 2)
    return burst_size + limit.per_second * share * (duration + PAID_BEFORE).total_seconds() + 1


def _check_log(execution: Execution) -> list[str]:
    lines = list(iterate_lines(execution.pk))
    numbers = [line["number"] for line in lines]
    problems = [] if numbers == list(range(1, len(numbers) + 1)) else [f"log numbers are {numbers}"]
    line_counts = Counter((line["step"], line["text"]) for line in lines if line["text"].startswith(ONCE))
    problems += [f"{count} times in the log: {text}" for (_, text), count in line_counts.items() if count > 1]
    return problems


def _check_effects(schedule: Schedule) -> list[str]:
    own_effects = [effect for effect in schedule.ecs.effects if effect.by == "slipway"]
    keys = ("taskDefinition", "resourceArn")
    count = Counter(
        (effect.operation, *(effect.params.get(key, "") for key in keys)) for effect in own_effects
    )
    return [f"{times} effects of {effect_key}" for effect_key, times in count.items() if times > 1]


def _check_unchanged(schedule: Schedule, execution: Execution) -> list[str]:
    """The revision that ran before runs again, and nothing was registered or deregistered."""
    own_effects = [effect for effect in schedule.ecs.effects if effect.by == "slipway"]
    problems = [
        f"{effect.operation} although nothing changed"
        for effect in own_effects
        if effect.operation in ("RegisterTaskDefinition", "DeregisterTaskDefinition")
    ]
    deployed = [effect for effect in own_effects if effect.params.get("forceNewDeployment")]
    foreign_effects = [effect for effect in schedule.ecs.effects if effect.by == "foreigner"]
    if foreign_effects:
        return problems + _check_after_foreigner(schedule, foreign_effects[-1].at)
    service = schedule.ecs.service
    is_new = bool(service) and service["deployments"][0]["id"] != schedule.ecs.first_primary
    if execution.outcome == "COMPLETED" and not (is_new and len(deployed) == 1):
        problems.append(f"COMPLETED, but {len(deployed)} deployments of ours")
    return problems


def _check_end(
    schedule: Schedule, execution: Execution, before: str | None, *, may_differ: bool
) -> list[str]:
    service = schedule.ecs.service
    active_service = service if service and service["status"] == "ACTIVE" else None
    running_definition = active_service["taskDefinition"] if active_service else None
    foreign_effects = [effect for effect in schedule.ecs.effects if effect.by == "foreigner"]
    if foreign_effects and foreign_effects[-1].params["taskDefinition"] == _get_initial_definition(execution):
        before = _get_initial_definition(execution)
    elif foreign_effects:
        return _check_after_foreigner(schedule, foreign_effects[-1].at)
    if execution.outcome == "COMPLETED":
        deployments = [d for d in (active_service or {}).get("deployments", []) if not d["bad"]]
        return (
            []
            if deployments and running_definition != before
            else [f"COMPLETED but {running_definition} runs"]
        )
    if execution.outcome in ("ROLLED_BACK", "ROLLED_BACK_BY_AWS") and running_definition != before:
        return [f"{execution.outcome} but {running_definition} runs instead of {before}"]
    if (
        execution.outcome == "ROLLED_BACK"
        and not RollbackCheck.objects.filter(step__stage__execution=execution).exists()
    ):
        return ["ROLLED_BACK without a checklist"]
    expects_rollback = execution.status == "FAILED" or schedule.odds.roll_back
    if may_differ:
        expects_rollback = bool(execution.status_before_rollback)
    has_unrestored = (
        ActionRun.objects.filter(step__stage__execution=execution, state=ActionState.NOT_RESTORED).exists()
        or RollbackCheck.objects.filter(step__stage__execution=execution, passed=False).exists()
    )
    if expects_rollback and running_definition != before and not has_unrestored:
        return [
            f"{execution.status}/{execution.outcome}: "
            f"{running_definition} runs instead of {before}, and nobody says so"
        ]
    return []


def _get_initial_definition(execution: Execution) -> str | None:
    """Return the task definition at the start of the execution."""
    memory = RollbackValue.objects.filter(step__stage__execution=execution, name="service before").first()
    state = json.loads(memory.value) if memory else None
    return state["task_definition"] if state else None


def _check_after_foreigner(schedule: Schedule, foreign_at: datetime) -> list[str]:
    """Return writes long after a foreign deployment; a pending write and its undo are allowed."""
    own_effects = [
        effect for effect in schedule.ecs.effects if effect.by == "slipway" and effect.at > foreign_at
    ]
    writes = [effect for effect in own_effects if effect.operation in ("UpdateService", "DeleteService")]
    if writes and writes[0].at > foreign_at + timedelta(seconds=45):
        return [f"{writes[0].operation} long after a foreign deployment"]
    return []
