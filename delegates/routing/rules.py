"""Routing rules: a task's request, a candidate delegate, and the verdict of each rule."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# Begins a criterion that is a program on the delegate; any other one is an address.
PROGRAM_PREFIX: Final = "program "


class RoutingRule(StrEnum):
    """Conditions that a delegate must pass, in this order (DESIGN 4)."""

    CONNECTED = "connected"
    ADMITTED = "approved"
    SCOPE = "scope"
    ENVIRONMENT = "environment"
    TASK_KIND = "kind of task"
    AWS_ACCOUNT = "AWS account"
    SELECTORS = "selectors"
    BLOCKLIST = "not blocked"
    TRIED = "not tried"
    CAPACITY = "capacity"
    SCRIPTS = "scripts"
    ISOLATION = "isolation"
    RELEASE = "release"
    EXCLUDED = "not excluded"


@dataclass(frozen=True)
class RoutingRequest:
    """Requirements of a task for routing; `scope` is a path such as "account/acme/shop"."""

    scope: str
    selectors: tuple[str, ...] = ()
    selectors_from: str = ""
    # The selectors have the tag of one delegate, which nobody can give to another one.
    names_delegate: bool = False
    criterion: str = ""
    aws_account: str = ""
    environment: str = ""
    task_kind: str = ""
    features: tuple[str, ...] = ()
    is_script: bool = False
    needs_isolation: bool = False
    # Key of the delegate that the task helps to replace.
    excluded: int | None = None

    @property
    def program(self) -> str:
        """Return the program that the delegate must have; "" for an address."""
        return (
            self.criterion.removeprefix(PROGRAM_PREFIX) if self.criterion.startswith(PROGRAM_PREFIX) else ""
        )

    @property
    def recent_success(self) -> str:
        """Return the phrase for a delegate on the allowlist."""
        return f"ran {self.program} recently" if self.program else f"reached {self.criterion} recently"


@dataclass(frozen=True)
class RoutingCandidate:
    """Current state of a delegate for routing one task.

    `admission` is ENABLED, PENDING_APPROVAL, REJECTED or DISABLED. `tags` are all its tags in lower case: its
    name, those of users and those of instances. `busy` counts its running and offered tasks.
    `blocked_seconds` and `allowed_seconds` are the remaining validity of the list entries for the task's
    criterion. `missed` counts its recent expired offers of this task. `last_assigned_at` is in seconds
    since the epoch.
    """

    key: int
    name: str
    scope: str
    connected: bool = True
    last_heartbeat: str = "It is connected."
    admission: str = "ENABLED"
    draining: bool = False
    environments: tuple[str, ...] = ()
    task_kinds: tuple[str, ...] = ()
    aws_account: str = ""
    tags: frozenset[str] = frozenset()
    capacity: int = 10
    busy: int = 0
    blocked_seconds: float = 0
    blocked_reason: str = ""
    allowed_seconds: float = 0
    served_connector: bool = False
    # Why it could not begin this task; "" if it has not tried.
    refusal: str = ""
    missed: int = 0
    last_assigned_at: float = 0
    # What its release can do; None is everything.
    features: frozenset[str] | None = None
    runs_scripts: bool = True
    # Projects of the scripts that instances without isolation have run; "" for an instance without scripts.
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


def is_in_reach(request: RoutingRequest, candidate: RoutingCandidate) -> bool:
    """Return whether a delegate belongs to the task's scope or one above (R052-R054)."""
    return request.scope == candidate.scope or request.scope.startswith(f"{candidate.scope}/")


def has_selectors(request: RoutingRequest, candidate: RoutingCandidate) -> bool:
    """Return whether a delegate has all required tags (R050)."""
    return candidate.tags.issuperset(selector.casefold() for selector in request.selectors)


def evaluate_rules(request: RoutingRequest, candidate: RoutingCandidate) -> tuple[RuleVerdict, ...]:
    """Return the verdicts of all rules for a delegate; out of reach, only that verdict."""
    if not is_in_reach(request, candidate):
        return (_check_scope(request, candidate),)
    verdicts = tuple(rule(request, candidate) for rule in _RULES)
    if request.is_script:
        verdicts = (*verdicts, _check_scripts(request, candidate))
    if request.needs_isolation:
        verdicts = (*verdicts, _check_isolation(request, candidate))
    if request.features:
        verdicts = (*verdicts, _check_release(request, candidate))
    return verdicts if request.excluded is None else (*verdicts, _check_excluded(request, candidate))


def _check_connected(request: RoutingRequest, candidate: RoutingCandidate) -> RuleVerdict:
    remedy = "" if candidate.connected else "Start it, or check on its page why it is disconnected."
    return RuleVerdict(
        candidate.key,
        candidate.name,
        RoutingRule.CONNECTED,
        candidate.connected,
        candidate.last_heartbeat,
        remedy,
    )


_ADMISSIONS = {
    "PENDING_APPROVAL": ("It is waiting for approval.", "Approve it."),
    "REJECTED": ("It was rejected.", "Approve it."),
    "DISABLED": ("It is disabled.", "Enable it."),
}


def _check_admitted(request: RoutingRequest, candidate: RoutingCandidate) -> RuleVerdict:
    detail, remedy = _ADMISSIONS.get(candidate.admission, ("It is enabled.", ""))
    if not remedy and candidate.draining:
        detail, remedy = "It is draining: it finishes its tasks and accepts no new ones.", "Enable it again."
    return RuleVerdict(candidate.key, candidate.name, RoutingRule.ADMITTED, not remedy, detail, remedy)


def _check_scope(request: RoutingRequest, candidate: RoutingCandidate) -> RuleVerdict:
    if is_in_reach(request, candidate):
        where = "the task's own scope" if request.scope == candidate.scope else "above the task's scope"
        return RuleVerdict(
            candidate.key, candidate.name, RoutingRule.SCOPE, True, f"It is at {candidate.scope}, {where}."
        )
    detail = f"It is at {candidate.scope}; the task is at {request.scope}."
    return RuleVerdict(
        candidate.key,
        candidate.name,
        RoutingRule.SCOPE,
        False,
        detail,
        f"Install one at {request.scope} or above.",
    )


def _check_environment(request: RoutingRequest, candidate: RoutingCandidate) -> RuleVerdict:
    ok = (
        not request.environment or not candidate.environments or request.environment in candidate.environments
    )
    if not candidate.environments:
        detail = "Its configuration is for all environments."
    elif not request.environment:
        detail = "The task belongs to no environment."
    elif ok:
        detail = f"Its configuration is for {request.environment}."
    else:
        detail = f"Its configuration is not for {request.environment}."
    remedy = "" if ok else f"Add {request.environment} to its configuration."
    return RuleVerdict(candidate.key, candidate.name, RoutingRule.ENVIRONMENT, ok, detail, remedy)


def _check_task_kind(request: RoutingRequest, candidate: RoutingCandidate) -> RuleVerdict:
    """Return the verdict on kinds of tasks, such as "aws", which a configuration may limit (R033)."""
    ok = not request.task_kind or not candidate.task_kinds or request.task_kind in candidate.task_kinds
    if not candidate.task_kinds:
        detail = "Its configuration is for all kinds of tasks."
    elif not request.task_kind:
        detail = "Every delegate may get this kind of task."
    else:
        detail = f"Its configuration is {'' if ok else 'not '}for tasks of kind {request.task_kind}."
    remedy = "" if ok else f"Add {request.task_kind} to its configuration."
    return RuleVerdict(candidate.key, candidate.name, RoutingRule.TASK_KIND, ok, detail, remedy)


def _check_aws_account(request: RoutingRequest, candidate: RoutingCandidate) -> RuleVerdict:
    ok = not request.aws_account or not candidate.aws_account or request.aws_account == candidate.aws_account
    if not request.aws_account:
        detail = "The task is bound to no AWS account."
    elif not candidate.aws_account:
        detail = "Its AWS account is not known yet."
    else:
        detail = f"It is in AWS account {candidate.aws_account}."
        if not ok:
            detail = (
                f"It is in AWS account {candidate.aws_account}, the task belongs to {request.aws_account}."
            )
    remedy = "" if ok else f"Use a delegate in AWS account {request.aws_account}."
    return RuleVerdict(candidate.key, candidate.name, RoutingRule.AWS_ACCOUNT, ok, detail, remedy)


def _check_selectors(request: RoutingRequest, candidate: RoutingCandidate) -> RuleVerdict:
    missing = [tag for tag in request.selectors if tag.casefold() not in candidate.tags]
    if request.names_delegate:
        ok = not missing
        detail = f"The task is for {'this' if ok else 'another'} delegate only."
        remedy = "" if ok else "No tag changes this."
        return RuleVerdict(candidate.key, candidate.name, RoutingRule.SELECTORS, ok, detail, remedy)
    if missing:
        lacks, tags = ", ".join(missing), "tags" if len(missing) > 1 else "tag"
        remedy = f"Add the {tags} {lacks}."
        return RuleVerdict(
            candidate.key,
            candidate.name,
            RoutingRule.SELECTORS,
            False,
            f"It lacks the {tags} {lacks}.",
            remedy,
        )
    detail = f"It has {', '.join(request.selectors)}." if request.selectors else "The task requires no tags."
    return RuleVerdict(candidate.key, candidate.name, RoutingRule.SELECTORS, True, detail)


def _check_blocklist(request: RoutingRequest, candidate: RoutingCandidate) -> RuleVerdict:
    if candidate.blocked_seconds > 0:
        reason = f": {candidate.blocked_reason}" if candidate.blocked_reason else ""
        if request.program:
            attempt = f"run {request.program}"
            remedy = f"Install {request.program} in its image, or use a delegate that can run it."
        else:
            attempt, remedy = f"reach {request.criterion}", "Wait for the retry."
        detail = f"It could not {attempt}{reason.rstrip('.')}."
        return RuleVerdict(
            candidate.key,
            candidate.name,
            RoutingRule.BLOCKLIST,
            False,
            detail,
            remedy,
            candidate.blocked_seconds,
        )
    if candidate.allowed_seconds > 0:
        detail = f"It {request.recent_success}."
        return RuleVerdict(
            candidate.key,
            candidate.name,
            RoutingRule.BLOCKLIST,
            True,
            detail,
            seconds_left=candidate.allowed_seconds,
        )
    return RuleVerdict(candidate.key, candidate.name, RoutingRule.BLOCKLIST, True, "No recent failure.")


def _check_tried(request: RoutingRequest, candidate: RoutingCandidate) -> RuleVerdict:
    """Return the verdict on earlier attempts: a delegate that could not begin a task is not asked again."""
    tried = bool(candidate.refusal)
    detail = (
        f"It could not begin this task: {candidate.refusal}" if tried else "It has not refused this task."
    )
    remedy = "Run it again once the cause is removed." if tried else ""
    return RuleVerdict(candidate.key, candidate.name, RoutingRule.TRIED, not tried, detail, remedy)


def _check_capacity(request: RoutingRequest, candidate: RoutingCandidate) -> RuleVerdict:
    if not candidate.capacity:
        detail = "It has no instance that accepts tasks."
        return RuleVerdict(
            candidate.key, candidate.name, RoutingRule.CAPACITY, False, detail, "Start an instance."
        )
    ok = candidate.busy < candidate.capacity
    detail = f"It has {candidate.busy} of {candidate.capacity} tasks."
    remedy = "" if ok else "Wait for a task to finish, or start another instance."
    return RuleVerdict(candidate.key, candidate.name, RoutingRule.CAPACITY, ok, detail, remedy)


def _check_scripts(request: RoutingRequest, candidate: RoutingCandidate) -> RuleVerdict:
    """Return the verdict on scripts: on the manager they could read its keys and all secrets."""
    detail = "It can run scripts." if candidate.runs_scripts else "The built-in delegate cannot run scripts."
    remedy = "" if candidate.runs_scripts else "Install a delegate."
    return RuleVerdict(
        candidate.key, candidate.name, RoutingRule.SCRIPTS, candidate.runs_scripts, detail, remedy
    )


def _check_isolation(request: RoutingRequest, candidate: RoutingCandidate) -> RuleVerdict:
    """Return the verdict on isolation: without it, a delegate runs the tasks of at most one project."""
    ok, remedy = True, ""
    if candidate.is_isolated:
        detail = "It isolates tasks."
    elif candidate.shares_scripts:
        detail = "It does not isolate tasks; projects may share it."
    elif ok := not candidate.script_scopes or any(
        scope in ("", request.scope) for scope in candidate.script_scopes
    ):
        detail = "It does not isolate tasks; no other project has run scripts on it."
    else:
        scopes = ", ".join(sorted(candidate.script_scopes))
        detail = f"It does not isolate tasks and has run scripts of {scopes}."
        remedy = "Run it where it can isolate tasks, or allow projects to share it on its page."
    return RuleVerdict(candidate.key, candidate.name, RoutingRule.ISOLATION, ok, detail, remedy)


_FEATURE_TITLES = {
    "aws-sessions": "chains, names and tags of AWS sessions",
    "doctor": "the diagnosis",
    "secret-managers": "secret managers of AWS",
    "web-identity": "web identity of connectors",
}


def _check_release(request: RoutingRequest, candidate: RoutingCandidate) -> RuleVerdict:
    """Return the verdict on the release: an older one would leave out what it does not know."""
    known = candidate.features
    missing = [] if known is None else [name for name in request.features if name not in known]
    titles = " and ".join(_FEATURE_TITLES.get(name, name) for name in missing or request.features)
    detail = f"Its release {'does not know' if missing else 'knows'} {titles}."
    remedy = "Upgrade all of its instances." if missing else ""
    return RuleVerdict(candidate.key, candidate.name, RoutingRule.RELEASE, not missing, detail, remedy)


def _check_excluded(request: RoutingRequest, candidate: RoutingCandidate) -> RuleVerdict:
    """Return the verdict on replacement or removal: a delegate cannot finish what stops its own tasks."""
    ok = candidate.key != request.excluded
    detail = (
        "This run replaces or removes another delegate."
        if ok
        else "This run replaces or removes it, so another delegate has to perform it."
    )
    remedy = "" if ok else "Start another delegate with the same tags, or connect through Slipway."
    return RuleVerdict(candidate.key, candidate.name, RoutingRule.EXCLUDED, ok, detail, remedy)


_RULES: tuple[Callable[[RoutingRequest, RoutingCandidate], RuleVerdict], ...] = (
    _check_connected,
    _check_admitted,
    _check_scope,
    _check_environment,
    _check_task_kind,
    _check_aws_account,
    _check_selectors,
    _check_blocklist,
    _check_tried,
    _check_capacity,
)
