"""Routing rules: a task's request, a candidate delegate, and the verdict of each rule."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class RoutingRule(StrEnum):
    """Conditions that a delegate must pass, in this order (DESIGN 4)."""

    CONNECTED = "connected"
    ADMITTED = "approved"
    SCOPE = "scope"
    ENVIRONMENT = "environment"
    AWS_ACCOUNT = "AWS account"
    SELECTORS = "selectors"
    BLOCKLIST = "not blocked"
    CAPACITY = "capacity"
    SCRIPTS = "scripts"
    ISOLATION = "isolation"


@dataclass(frozen=True)
class RoutingRequest:
    """Requirements of a task for routing; `scope` is a path such as "account/acme/shop"."""

    scope: str
    selectors: tuple[str, ...] = ()
    selectors_from: str = ""
    criterion: str = ""
    aws_account: str = ""
    environment: str = ""
    is_script: bool = False
    needs_isolation: bool = False


@dataclass(frozen=True)
class RoutingCandidate:
    """Current state of a delegate for routing one task.

    `admission` is ENABLED, PENDING_APPROVAL, REJECTED or DISABLED. `tags` are all its tags in lower case: its
    name, those of users and those of instances. `busy` counts its running and offered tasks.
    `blocked_seconds` and `allowed_seconds` are the remaining validity of the list entries for the task's
    criterion. `missed` counts its recent expired offers of this task. `last_given` is the time of its last
    assignment, in seconds of the epoch.
    """

    key: int
    name: str
    scope: str
    connected: bool = True
    heard: str = "It is connected."
    admission: str = "ENABLED"
    draining: bool = False
    environments: tuple[str, ...] = ()
    aws_account: str = ""
    tags: frozenset[str] = frozenset()
    capacity: int = 10
    busy: int = 0
    blocked_seconds: float = 0
    blocked_reason: str = ""
    allowed_seconds: float = 0
    served_connector: bool = False
    missed: int = 0
    last_given: float = 0
    runs_scripts: bool = True
    # Projects whose scripts an instance without isolation has run; "" for an instance without any.
    is_isolated: bool = True
    shares_scripts: bool = False
    script_scopes: tuple[str, ...] = ()

    @property
    def is_rejected(self) -> bool:
        return self.admission == "REJECTED"

    @property
    def load(self) -> float:
        return self.busy / self.capacity if self.capacity else 1.0


@dataclass(frozen=True)
class RuleVerdict:
    """Result of one rule for one delegate; `remedy` would make the delegate eligible."""

    key: int
    name: str
    rule: RoutingRule
    ok: bool
    detail: str
    remedy: str = ""
    seconds_left: float | None = None


def is_in_reach(wanted: RoutingRequest, one: RoutingCandidate) -> bool:
    """Return whether a delegate hangs on the task's scope or above (R052-R054)."""
    return wanted.scope == one.scope or wanted.scope.startswith(f"{one.scope}/")


def has_selectors(wanted: RoutingRequest, one: RoutingCandidate) -> bool:
    """Return whether a delegate has all required tags (R050)."""
    return one.tags.issuperset(selector.casefold() for selector in wanted.selectors)


def evaluate_rules(wanted: RoutingRequest, one: RoutingCandidate) -> tuple[RuleVerdict, ...]:
    """Return the verdicts of all rules for a delegate; out of reach, only that verdict."""
    if not is_in_reach(wanted, one):
        return (_scope(wanted, one),)
    verdicts = tuple(rule(wanted, one) for rule in _RULES)
    if wanted.is_script:
        verdicts = (*verdicts, _scripts(wanted, one))
    return (*verdicts, _isolation(wanted, one)) if wanted.needs_isolation else verdicts


def _connected(wanted: RoutingRequest, one: RoutingCandidate) -> RuleVerdict:
    remedy = "" if one.connected else "Start it, or check on its page why it is disconnected."
    return RuleVerdict(one.key, one.name, RoutingRule.CONNECTED, one.connected, one.heard, remedy)


_ADMISSIONS = {
    "PENDING_APPROVAL": ("It is waiting for approval.", "Approve it."),
    "REJECTED": ("It was rejected.", "Approve it."),
    "DISABLED": ("It is disabled.", "Enable it."),
}


def _admitted(wanted: RoutingRequest, one: RoutingCandidate) -> RuleVerdict:
    detail, remedy = _ADMISSIONS.get(one.admission, ("It is enabled.", ""))
    if not remedy and one.draining:
        detail, remedy = "It is draining: it finishes its tasks and accepts no new ones.", "Enable it again."
    return RuleVerdict(one.key, one.name, RoutingRule.ADMITTED, not remedy, detail, remedy)


def _scope(wanted: RoutingRequest, one: RoutingCandidate) -> RuleVerdict:
    if is_in_reach(wanted, one):
        where = "the task's own scope" if wanted.scope == one.scope else "above the task's scope"
        return RuleVerdict(one.key, one.name, RoutingRule.SCOPE, True, f"It is at {one.scope}, {where}.")
    detail = f"It is at {one.scope}; the task is at {wanted.scope}."
    return RuleVerdict(
        one.key, one.name, RoutingRule.SCOPE, False, detail, f"Install one at {wanted.scope} or above."
    )


def _environment(wanted: RoutingRequest, one: RoutingCandidate) -> RuleVerdict:
    ok = not wanted.environment or not one.environments or wanted.environment in one.environments
    if not one.environments:
        detail = "Its configuration is for all environments."
    elif not wanted.environment:
        detail = "The task belongs to no environment."
    elif ok:
        detail = f"Its configuration is for {wanted.environment}."
    else:
        detail = f"Its configuration is not for {wanted.environment}."
    remedy = "" if ok else f"Add {wanted.environment} to its configuration."
    return RuleVerdict(one.key, one.name, RoutingRule.ENVIRONMENT, ok, detail, remedy)


def _aws_account(wanted: RoutingRequest, one: RoutingCandidate) -> RuleVerdict:
    ok = not wanted.aws_account or not one.aws_account or wanted.aws_account == one.aws_account
    if not wanted.aws_account:
        detail = "The task is bound to no AWS account."
    elif not one.aws_account:
        detail = "Its AWS account is not known yet."
    else:
        detail = f"It is in AWS account {one.aws_account}."
        if not ok:
            detail = f"It is in AWS account {one.aws_account}, the task belongs to {wanted.aws_account}."
    remedy = "" if ok else f"Use a delegate in AWS account {wanted.aws_account}."
    return RuleVerdict(one.key, one.name, RoutingRule.AWS_ACCOUNT, ok, detail, remedy)


def _selectors(wanted: RoutingRequest, one: RoutingCandidate) -> RuleVerdict:
    lacking = [tag for tag in wanted.selectors if tag.casefold() not in one.tags]
    if lacking:
        lacks, tags = ", ".join(lacking), "tags" if len(lacking) > 1 else "tag"
        remedy = f"Add the {tags} {lacks}."
        return RuleVerdict(
            one.key, one.name, RoutingRule.SELECTORS, False, f"It lacks the {tags} {lacks}.", remedy
        )
    detail = f"It has {', '.join(wanted.selectors)}." if wanted.selectors else "The task requires no tags."
    return RuleVerdict(one.key, one.name, RoutingRule.SELECTORS, True, detail)


def _not_blocked(wanted: RoutingRequest, one: RoutingCandidate) -> RuleVerdict:
    if one.blocked_seconds > 0:
        reason = f": {one.blocked_reason}" if one.blocked_reason else ""
        detail = f"It could not reach {wanted.criterion}{reason.rstrip('.')}."
        remedy = "Wait for the retry."
        return RuleVerdict(
            one.key, one.name, RoutingRule.BLOCKLIST, False, detail, remedy, one.blocked_seconds
        )
    if one.allowed_seconds > 0:
        detail = f"It reached {wanted.criterion} recently."
        return RuleVerdict(
            one.key, one.name, RoutingRule.BLOCKLIST, True, detail, seconds_left=one.allowed_seconds
        )
    return RuleVerdict(one.key, one.name, RoutingRule.BLOCKLIST, True, "No recent failure.")


def _capacity(wanted: RoutingRequest, one: RoutingCandidate) -> RuleVerdict:
    if not one.capacity:
        detail = "It has no instance that accepts tasks."
        return RuleVerdict(one.key, one.name, RoutingRule.CAPACITY, False, detail, "Start an instance.")
    ok = one.busy < one.capacity
    detail = f"It has {one.busy} of {one.capacity} tasks."
    remedy = "" if ok else "Wait for a task to finish, or start another instance."
    return RuleVerdict(one.key, one.name, RoutingRule.CAPACITY, ok, detail, remedy)


def _scripts(wanted: RoutingRequest, one: RoutingCandidate) -> RuleVerdict:
    """Return the verdict on scripts: on the manager they could read its keys and all secrets."""
    detail = "It can run scripts." if one.runs_scripts else "The built-in delegate cannot run scripts."
    remedy = "" if one.runs_scripts else "Install a delegate."
    return RuleVerdict(one.key, one.name, RoutingRule.SCRIPTS, one.runs_scripts, detail, remedy)


def _isolation(wanted: RoutingRequest, one: RoutingCandidate) -> RuleVerdict:
    """Return the verdict on isolation: without it, a delegate runs the tasks of at most one project."""
    ok, remedy = True, ""
    if one.is_isolated:
        detail = "It isolates tasks."
    elif one.shares_scripts:
        detail = "It does not isolate tasks; projects may share it."
    elif ok := not one.script_scopes or any(scope in ("", wanted.scope) for scope in one.script_scopes):
        detail = "It does not isolate tasks; no other project has run scripts on it."
    else:
        others = ", ".join(sorted(one.script_scopes))
        detail = f"It does not isolate tasks and has run scripts of {others}."
        remedy = "Run it where it can isolate tasks, or allow projects to share it on its page."
    return RuleVerdict(one.key, one.name, RoutingRule.ISOLATION, ok, detail, remedy)


_RULES: tuple[Callable[[RoutingRequest, RoutingCandidate], RuleVerdict], ...] = (
    _connected,
    _admitted,
    _scope,
    _environment,
    _aws_account,
    _selectors,
    _not_blocked,
    _capacity,
)
