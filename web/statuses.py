"""Label, shape and tone of every status, for pages and their scripts."""

from typing import Final, NamedTuple


class StatusBadge(NamedTuple):
    """Status for display; the color only repeats the label and the shape."""

    word: str
    shape: str
    tone: str


UNKNOWN_BADGE: Final = StatusBadge("Unknown", "unknown", "queued")

STATUS_BADGES: Final[dict[str, StatusBadge]] = {
    # executions, stages, steps
    "QUEUED": StatusBadge("Queued", "queued", "queued"),
    "RUNNING": StatusBadge("Running", "running", "running"),
    "ASYNC_WAITING": StatusBadge("Running", "running", "running"),
    "APPROVAL_WAITING": StatusBadge("Awaiting approval", "waiting", "waiting"),
    "INTERVENTION_WAITING": StatusBadge("Awaiting action", "waiting", "waiting"),
    "INPUT_WAITING": StatusBadge("Awaiting input", "waiting", "waiting"),
    "PAUSED": StatusBadge("Paused", "waiting", "waiting"),
    "SUCCESS": StatusBadge("Success", "success", "success"),
    "FAILED": StatusBadge("Failed", "failed", "failed"),
    "ERRORED": StatusBadge("Failed", "failed", "failed"),
    "ABORTED": StatusBadge("Aborted", "aborted", "aborted"),
    "EXPIRED": StatusBadge("Expired", "failed", "failed"),
    "SKIPPED": StatusBadge("Skipped", "skipped", "queued"),
    "APPROVAL_REJECTED": StatusBadge("Rejected", "failed", "failed"),
    "ROLLING_BACK": StatusBadge("Rolling back", "running", "waiting"),
    "ROLLED_BACK": StatusBadge("Rolled back", "rolled-back", "waiting"),
    "IGNORE_FAILED": StatusBadge("Failed, ignored", "warning", "waiting"),
    "FAILURE_IGNORED": StatusBadge("Failure ignored", "warning", "waiting"),
    # outcomes of an ECS deployment
    "COMPLETED": StatusBadge("Completed", "success", "success"),
    "ROLLED_BACK_BY_AWS": StatusBadge("Rolled back by AWS", "rolled-back", "waiting"),
    "TIMED_OUT": StatusBadge("Timed out", "failed", "failed"),
    "SUPERSEDED": StatusBadge("Superseded", "warning", "waiting"),
    # approvals
    "APPROVED": StatusBadge("Approved", "success", "success"),
    "WITHDRAWN": StatusBadge("Withdrawn", "skipped", "queued"),
    # actions
    "WAITING": StatusBadge("Not started", "queued", "queued"),
    "STARTED": StatusBadge("Started", "running", "running"),
    "DONE": StatusBadge("Done", "success", "success"),
    "UNDOING": StatusBadge("Undoing", "running", "waiting"),
    "UNDONE": StatusBadge("Undone", "rolled-back", "waiting"),
    "NOT_RESTORED": StatusBadge("Not restored", "warning", "failed"),
    # AWS calls
    "PLANNED": StatusBadge("Planned", "queued", "queued"),
    "SENT": StatusBadge("Sent", "running", "running"),
    "ANSWERED": StatusBadge("Answered", "success", "success"),
    "NOT_SENT": StatusBadge("Not sent", "skipped", "queued"),
    "UNKNOWN": StatusBadge("No answer", "unknown", "waiting"),
    # permissions
    "GRANTED": StatusBadge("Granted", "success", "success"),
    "NOT_GRANTED": StatusBadge("Not granted", "skipped", "queued"),
    # delegate tokens
    "ACTIVE": StatusBadge("Active", "success", "success"),
    "REVOKED": StatusBadge("Revoked", "aborted", "aborted"),
    # delegates and their instances
    "CONNECTED": StatusBadge("Connected", "connected", "success"),
    "LATE": StatusBadge("Late", "warning", "waiting"),
    "DISCONNECTED": StatusBadge("Disconnected", "failed", "failed"),
    "ARCHIVED": StatusBadge("Archived", "queued", "queued"),
    "NEVER_CONTACTED": StatusBadge("Never contacted", "queued", "queued"),
    "GONE": StatusBadge("Gone", "skipped", "queued"),
    "DRAINING": StatusBadge("Draining", "draining", "running"),
    "PENDING_APPROVAL": StatusBadge("Awaiting approval", "waiting", "waiting"),
    "REJECTED": StatusBadge("Rejected", "aborted", "aborted"),
    "DISABLED": StatusBadge("Disabled", "skipped", "queued"),
    # delegate tasks, and results of routing rules
    "SUCCEEDED": StatusBadge("Succeeded", "success", "success"),
    "PASS": StatusBadge("Yes", "success", "success"),
    "FAIL": StatusBadge("No", "failed", "failed"),
    # drift of running services
    "IN_STEP": StatusBadge("In sync", "success", "success"),
    "DRIFTED": StatusBadge("Drifted", "warning", "waiting"),
    "ACCEPTED": StatusBadge("Drift accepted", "success", "queued"),
    "DEPLOYING": StatusBadge("Deploying", "running", "running"),
    "NOT_COMPARED": StatusBadge("Not compared", "unknown", "queued"),
    "UNKNOWN_DRIFT": UNKNOWN_BADGE,
    # Git syncs
    "SYNCED": StatusBadge("In sync", "success", "success"),
    "OUT_OF_SYNC": StatusBadge("Out of sync", "warning", "waiting"),
    "REMOVED": StatusBadge("No longer in Git", "skipped", "queued"),
    "APPLIED": StatusBadge("Applied", "success", "success"),
    # adoptions
    "READING": StatusBadge("Reading", "running", "running"),
    "READY": StatusBadge("Ready to adopt", "success", "success"),
    "REFUSED": StatusBadge("Cannot be adopted", "failed", "failed"),
    "ADOPTED": StatusBadge("Adopted", "success", "success"),
    # ECS tasks: a task that keeps running is steady, with any ECS status
    "STEADY": StatusBadge("Running", "success", "success"),
    "PROVISIONING": StatusBadge("Provisioning", "running", "running"),
    "PENDING": StatusBadge("Pending", "running", "running"),
    "PUSHED": StatusBadge("Pushed", "success", "success"),
    "ACTIVATING": StatusBadge("Activating", "running", "running"),
    "DEACTIVATING": StatusBadge("Deactivating", "draining", "queued"),
    "STOPPING": StatusBadge("Stopping", "draining", "queued"),
    "DEPROVISIONING": StatusBadge("Deprovisioning", "draining", "queued"),
    "STOPPED": StatusBadge("Stopped", "aborted", "queued"),
    # deployments of daemons
    "IN_PROGRESS": StatusBadge("In progress", "running", "running"),
    "SUCCESSFUL": StatusBadge("Successful", "success", "success"),
    "STOP_REQUESTED": StatusBadge("Stopping", "draining", "queued"),
    "ROLLBACK_IN_PROGRESS": StatusBadge("Rolling back", "running", "waiting"),
    "ROLLBACK_SUCCESSFUL": StatusBadge("Rolled back by AWS", "rolled-back", "waiting"),
    "ROLLBACK_FAILED": StatusBadge("Rollback failed", "failed", "failed"),
    # targets of a load balancer
    "HEALTHY": StatusBadge("Healthy", "success", "success"),
    "UNHEALTHY": StatusBadge("Unhealthy", "failed", "failed"),
    "UNUSED": StatusBadge("Unused", "warning", "waiting"),
    # notifications
    "DELIVERED": StatusBadge("Delivered", "success", "success"),
    "SUMMARIZED": StatusBadge("Summarized", "skipped", "queued"),
    # connectors
    "OK": StatusBadge("Connected", "success", "success"),
    "NOT_OK": StatusBadge("Test failed", "failed", "failed"),
    # checks of the installation
    "WARNING": StatusBadge("Warning", "warning", "waiting"),
    # acceptance runs and their rules
    "CLEANING_UP": StatusBadge("Cleaning up", "running", "waiting"),
    "held": StatusBadge("Held", "success", "success"),
    "broken": StatusBadge("Broken", "failed", "failed"),
    "not observed": StatusBadge("Not observed", "skipped", "queued"),
    "NEVER": StatusBadge("Not tested", "queued", "queued"),
}

TERMINAL_STATUSES: Final = frozenset(
    {"SUCCESS", "FAILED", "ABORTED", "EXPIRED", "APPROVAL_REJECTED", "IGNORE_FAILED", "ROLLED_BACK"}
)


def get_status_badge(status: str | None) -> StatusBadge:
    """Return the badge of a status; an unknown status has its own name as label."""
    if not status:
        return UNKNOWN_BADGE
    return STATUS_BADGES.get(status) or StatusBadge(
        status.replace("_", " ").capitalize(), "unknown", "queued"
    )
