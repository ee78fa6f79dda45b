"""Event types that rules subscribe to, and the event as a value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.db.models import TextChoices

from rbac.models import Scope


class EventType(TextChoices):
    """Types of events; the values are a published interface: never rename one."""

    EXECUTION_STARTED = "execution.started", "Execution started"
    EXECUTION_FAILED = "execution.failed", "Execution failed"
    EXECUTION_SUCCEEDED = "execution.succeeded", "Execution succeeded"
    EXECUTION_ABORTED = "execution.aborted", "Execution aborted"
    ROLLBACK_STARTED = "rollback.started", "Rollback started"
    ROLLBACK_ENDED = "rollback.ended", "Rollback completed"
    APPROVAL_WAITING = "approval.waiting", "Approval waiting"
    INTERVENTION_WAITING = "intervention.waiting", "Manual intervention waiting"
    DRIFT_FOUND = "drift.found", "Drift detected"
    DRIFT_GONE = "drift.gone", "Drift resolved"
    DELEGATE_DISCONNECTED = "delegate.disconnected", "Delegate disconnected"
    DELEGATE_CONNECTED = "delegate.connected", "Delegate connected"
    DELEGATE_UPGRADE_FAILED = "delegate.upgrade_failed", "Delegate upgrade failed"
    GIT_SYNC_FAILED = "gitsync.failed", "Git sync failed"
    GIT_SYNC_RECOVERED = "gitsync.recovered", "Git sync recovered"
    TEST = "test", "Test"
    DIGEST = "digest", "Digest"


# Events for rules; a test is only sent manually, a digest only for other events.
SUBSCRIBABLE_EVENTS: Final = tuple(
    (event.value, event.label) for event in EventType if event not in (EventType.TEST, EventType.DIGEST)
)

# Ends of executions that rules select; of other events no rule with outcomes hears.
OUTCOMES: Final = (
    ("SUCCESS", "Succeeded"),
    ("IGNORE_FAILED", "Succeeded, with an ignored failure"),
    ("FAILED", "Failed"),
    ("EXPIRED", "Expired"),
    ("APPROVAL_REJECTED", "Rejected"),
    ("ABORTED", "Aborted"),
    ("ROLLED_BACK", "Rolled back"),
)


class ReportedState(TextChoices):
    """States of executions, and of their deployments to environments, for Git services."""

    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    ABORTED = "ABORTED"


@dataclass(frozen=True)
class GitSyncSubject:
    """Git sync of an event, with the commit it read and its faults: {"file", "line", "column", "message"}."""

    name: str
    commit: str
    faults: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class NotificationEvent:
    """Event for notification rules.

    `path` is the URL path of its page, `action_path` that of what the reader should do, if any. `text` is
    one sentence, with what to do about a failure, which is `advice` where it is known. `services` and
    `environments` are those of all stages, `deployments` has the environments of the stages that began, with
    their states. `last_output` are the last lines of a failed container, `variables` the values of the
    pipeline's variables. `repository` and `commit` are those of the trigger that started the execution, and
    `git_service` is the service that it named, such as github; `execution_created_at` orders
    executions. No field may contain a secret: output of
    programs is redacted before.
    """

    event: EventType
    scope: Scope
    text: str
    path: str
    status: str = ""
    cause: str = ""
    advice: str = ""
    pipeline: str = ""
    execution: str = ""
    execution_created_at: datetime | None = None
    services: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    deployments: tuple[tuple[str, ReportedState], ...] = ()
    delegate: str = ""
    git_sync: GitSyncSubject | None = None
    started_by: str = ""
    approved_by: tuple[str, ...] = ()
    last_output: tuple[str, ...] = ()
    action_path: str = ""
    variables: Mapping[str, Any] = field(default_factory=dict)
    repository: str = ""
    commit: str = ""
    git_service: str = ""
