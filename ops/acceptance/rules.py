"""Rules of AWS that the sandbox follows, evaluated on the observations of a run."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ops.acceptance import rule_checks as checks
from ops.acceptance.observations import Observation
from ops.acceptance.rule_checks import Observations


class Verdict(StrEnum):
    """Result of a rule."""

    HELD = "held"
    BROKEN = "broken"
    NOT_OBSERVED = "not observed"


@dataclass(frozen=True)
class RuleResult:
    """A rule with its verdict; `seen` says what broke it."""

    rule: "AcceptanceRule"
    verdict: Verdict
    seen: tuple[str, ...] = ()


@dataclass(frozen=True)
class AcceptanceRule:
    """Rule with its source in the documentation of AWS, and its check."""

    identifier: str
    sentence: str
    source: str
    check: Callable[[Observations], Iterable[str]]

    def evaluate(self, observations: Observations) -> RuleResult:
        found = list(self.check(observations))
        if seen := tuple(text for text in found if text):
            return RuleResult(self, Verdict.BROKEN, seen)
        return RuleResult(self, Verdict.HELD if found else Verdict.NOT_OBSERVED)


def evaluate_rules(observations: Iterable[Observation]) -> list[RuleResult]:
    """Return the result of each rule, in the order of the table."""
    by_name = {observation.scenario: observation for observation in observations}
    return [rule.evaluate(by_name) for rule in RULES]


EVENTS_GUIDE: Final = "ECS developer guide, service event messages"
BREAKER_GUIDE: Final = "ECS developer guide, deployment circuit breaker"
RULES: Final = (
    AcceptanceRule(
        "known_events", "Every service event has a known text.", EVENTS_GUIDE, checks.check_known_events
    ),
    AcceptanceRule(
        "started_before_steady",
        "“has started N tasks” comes before “has reached a steady state”.",
        EVENTS_GUIDE,
        checks.check_started_before_steady,
    ),
    AcceptanceRule(
        "completed_then_steady",
        "After “deployment completed” the service “has reached a steady state”.",
        EVENTS_GUIDE,
        checks.check_completed_then_steady,
    ),
    AcceptanceRule(
        "task_statuses",
        "A task goes through its statuses in their order.",
        "ECS developer guide, task lifecycle",
        checks.check_task_statuses,
    ),
    AcceptanceRule(
        "started_by",
        "`startedBy` of a service's task is the id of its deployment.",
        "ECS API, Task: startedBy",
        checks.check_started_by,
    ),
    AcceptanceRule(
        "rollout_states",
        "The first deployment is PRIMARY and goes from IN_PROGRESS to COMPLETED.",
        "ECS API, Deployment: rolloutState",
        checks.check_rollout_states,
    ),
    AcceptanceRule(
        "start_before_stop",
        "At a minimum of 100 % healthy tasks, the new task starts before the old one stops.",
        "ECS API, DeploymentConfiguration: minimumHealthyPercent",
        checks.check_start_before_stop,
    ),
    AcceptanceRule(
        "scheduler_stop",
        "The replaced task stops with ServiceSchedulerInitiated, and the reason names the deployment.",
        "ECS API, Task: stopCode",
        checks.check_scheduler_stop,
    ),
    AcceptanceRule(
        "crash_exit_code",
        "A task whose container exits has EssentialContainerExited and the exit code of the container.",
        "ECS developer guide, stopped task error codes; ECS API, Container: exitCode",
        checks.check_crash,
    ),
    AcceptanceRule(
        "cannot_pull",
        "A task without its image has TaskFailedToStart, CannotPullContainerError and no exit code.",
        "ECS developer guide, CannotPullContainer task errors",
        checks.check_unpullable,
    ),
    AcceptanceRule(
        "cannot_pull_event",
        "An image that cannot be pulled is a “was unable to place a task” event.",
        EVENTS_GUIDE,
        checks.check_placement_event,
    ),
    AcceptanceRule(
        "start_backoff",
        "Starts that fail are tried again less and less often.",
        "ECS developer guide, service throttle logic",
        checks.check_backoff,
    ),
    AcceptanceRule(
        "breaker_threshold",
        f"At a desired count of 1 the circuit breaker trips after {checks.BREAKER_FAILURES} failed tasks.",
        "ECS API, ServiceDeploymentCircuitBreaker: threshold",
        checks.check_breaker_threshold,
    ),
    AcceptanceRule(
        "failed_state",
        "The deployment that failed is ACTIVE and FAILED, with the circuit breaker as its reason.",
        "ECS API, Deployment: rolloutState, rolloutStateReason",
        checks.check_failed_state,
    ),
    AcceptanceRule(
        "breaker_events",
        "“deployment failed” is followed by “rolling back” and “deployment completed”.",
        EVENTS_GUIDE,
        checks.check_breaker_events,
    ),
    AcceptanceRule(
        "rollback_reuses_deployment",
        "The circuit breaker takes up the former deployment again, with its id.",
        BREAKER_GUIDE,
        checks.check_reused_deployment,
    ),
    AcceptanceRule(
        "no_more_starts",
        "A failed deployment starts no more tasks.",
        BREAKER_GUIDE,
        checks.check_no_more_starts,
    ),
    AcceptanceRule(
        "targets_registered",
        "A task behind a load balancer is registered, with an event.",
        EVENTS_GUIDE,
        checks.check_target_events,
    ),
    AcceptanceRule(
        "targets_healthy",
        "A target is initial, then healthy.",
        "ELBv2 API, TargetHealth",
        checks.check_target_health,
    ),
    AcceptanceRule(
        "targets_drained",
        "A target that is deregistered drains its connections.",
        "ELBv2 guide, deregistration delay; ECS developer guide, task lifecycle",
        checks.check_draining,
    ),
    AcceptanceRule(
        "outcomes",
        "Each execution ends with the status and the outcome that Slipway documents.",
        "Slipway, outcomes",
        checks.check_outcomes,
    ),
)
