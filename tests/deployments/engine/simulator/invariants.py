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


def violations(
    schedule: Schedule, execution: Execution, before: str | None, *, may_end_otherwise: bool = False
) -> list[str]:
    """Return the broken promises of this schedule, in words.

    `may_end_otherwise`: the pipeline has failure strategies, so a rollback is not required.
    """
    problems: list[str] = []
    if not execution.is_over:
        return [f"it hangs: {execution.status}, due_at {execution.due_at}"]
    if ServiceLock.objects.filter(stage__execution=execution).exists():
        problems.append("the slot is still held")
    problems += _log(execution)
    problems += _effects(schedule)
    problems += _end(schedule, execution, before, may_end_otherwise=may_end_otherwise)
    problems += _quota(schedule)
    return problems


def _quota(schedule: Schedule) -> list[str]:
    """No stretch of time saw more calls than the bucket held and what came back into it meanwhile.

    A delegate makes its calls later than they were paid for; who has lost Valkey counts from a full bucket.
    """
    odds = schedule.odds
    if odds.remote or odds.valkey_lost:
        return []
    moments: dict[RateLimit, list[datetime]] = defaultdict(list)
    for at, operation in schedule.asked:
        moments[get_rate_limit("sts" if operation == "GetCallerIdentity" else "ecs", operation)].append(at)
    return [
        f"too many calls of {limit.name}: {index + 1} in {at - first}"
        for limit, times in moments.items()
        if limit.per_second
        for start, first in enumerate(times)
        for index, at in enumerate(times[start:])
        if index + 1 > _most(limit, odds.quota_share, at - first)
    ]


def _most(limit: RateLimit, share: float, within: timedelta) -> float:
    burst = max(limit.burst * share, 1)
    return burst + limit.per_second * share * (within + PAID_BEFORE).total_seconds() + 1


def _log(execution: Execution) -> list[str]:
    lines = list(iterate_lines(execution.pk))
    numbers = [line["number"] for line in lines]
    problems = [] if numbers == list(range(1, len(numbers) + 1)) else [f"log numbers are {numbers}"]
    texts = Counter((line["step"], line["text"]) for line in lines if line["text"].startswith(ONCE))
    problems += [f"{count} times in the log: {text}" for (_, text), count in texts.items() if count > 1]
    return problems


def _effects(schedule: Schedule) -> list[str]:
    own_effects = [effect for effect in schedule.ecs.effects if effect.by == "slipway"]
    keys = ("taskDefinition", "resourceArn")
    count = Counter(
        (effect.operation, *(effect.params.get(key, "") for key in keys)) for effect in own_effects
    )
    return [f"{times} effects of {which}" for which, times in count.items() if times > 1]


def _end(
    schedule: Schedule, execution: Execution, before: str | None, *, may_end_otherwise: bool
) -> list[str]:
    service = schedule.ecs.service
    live = service if service and service["status"] == "ACTIVE" else None
    running = live["taskDefinition"] if live else None
    foreign = [effect for effect in schedule.ecs.effects if effect.by == "foreigner"]
    if foreign and foreign[-1].params["taskDefinition"] == _found(execution):
        before = _found(execution)
    elif foreign:
        return _after_foreigner(schedule, foreign[-1].at)
    if execution.outcome == "COMPLETED":
        deployments = [d for d in (live or {}).get("deployments", []) if not d["bad"]]
        return [] if deployments and running != before else [f"COMPLETED but {running} runs"]
    if execution.outcome in ("ROLLED_BACK", "ROLLED_BACK_BY_AWS") and running != before:
        return [f"{execution.outcome} but {running} runs instead of {before}"]
    if (
        execution.outcome == "ROLLED_BACK"
        and not RollbackCheck.objects.filter(step__stage__execution=execution).exists()
    ):
        return ["ROLLED_BACK without a checklist"]
    wanted_rollback = execution.status == "FAILED" or schedule.odds.roll_back
    if may_end_otherwise:
        wanted_rollback = bool(execution.status_before_rollback)
    not_restored = (
        ActionRun.objects.filter(step__stage__execution=execution, state=ActionState.NOT_RESTORED).exists()
        or RollbackCheck.objects.filter(step__stage__execution=execution, passed=False).exists()
    )
    if wanted_rollback and running != before and not not_restored:
        return [
            f"{execution.status}/{execution.outcome}: {running} runs instead of {before}, and nobody says so"
        ]
    return []


def _found(execution: Execution) -> str | None:
    """Return the task definition at the start of the execution."""
    memory = RollbackValue.objects.filter(step__stage__execution=execution, name="service before").first()
    state = json.loads(memory.value) if memory else None
    return state["task_definition"] if state else None


def _after_foreigner(schedule: Schedule, at: datetime) -> list[str]:
    """Return writes long after a foreign deployment; a pending write and its undo are allowed."""
    own_effects = [effect for effect in schedule.ecs.effects if effect.by == "slipway" and effect.at > at]
    writes = [effect for effect in own_effects if effect.operation in ("UpdateService", "DeleteService")]
    if writes and writes[0].at > at + timedelta(seconds=45):
        return [f"{writes[0].operation} long after a foreign deployment"]
    return []
