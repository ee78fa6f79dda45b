"""How every status is shown: its word, its shape and its tone, for pages and for their scripts."""

from typing import Final, NamedTuple


class Look(NamedTuple):
    """A status as people see it; the colour only repeats what the word and the shape say."""

    word: str
    shape: str
    tone: str


UNKNOWN: Final = Look("Unknown", "unknown", "queued")

LOOKS: Final[dict[str, Look]] = {
    # executions, stages, steps
    "QUEUED": Look("Queued", "queued", "queued"),
    "RUNNING": Look("Running", "running", "running"),
    "ASYNC_WAITING": Look("Running", "running", "running"),
    "APPROVAL_WAITING": Look("Waits for approval", "waiting", "waiting"),
    "INTERVENTION_WAITING": Look("Needs a person", "waiting", "waiting"),
    "INPUT_WAITING": Look("Waits for input", "waiting", "waiting"),
    "PAUSED": Look("Paused", "waiting", "waiting"),
    "SUCCESS": Look("Success", "success", "success"),
    "FAILED": Look("Failed", "failed", "failed"),
    "ERRORED": Look("Failed", "failed", "failed"),
    "ABORTED": Look("Aborted", "aborted", "aborted"),
    "EXPIRED": Look("Expired", "failed", "failed"),
    "SKIPPED": Look("Skipped", "skipped", "queued"),
    "APPROVAL_REJECTED": Look("Rejected", "failed", "failed"),
    "ROLLING_BACK": Look("Rolling back", "running", "waiting"),
    "ROLLED_BACK": Look("Rolled back", "rolled-back", "waiting"),
    "IGNORE_FAILED": Look("Failed, ignored", "warning", "waiting"),
    "FAILURE_IGNORED": Look("Failure ignored", "warning", "waiting"),
    # outcomes of an ECS deployment
    "COMPLETED": Look("Completed", "success", "success"),
    "ROLLED_BACK_BY_AWS": Look("Rolled back by AWS", "rolled-back", "waiting"),
    "TIMED_OUT": Look("Timed out", "failed", "failed"),
    "SUPERSEDED": Look("Superseded", "warning", "waiting"),
    # approvals
    "APPROVED": Look("Approved", "success", "success"),
    "WITHDRAWN": Look("Withdrawn", "skipped", "queued"),
    # actions
    "WAITING": Look("Not started", "queued", "queued"),
    "STARTED": Look("Started", "running", "running"),
    "DONE": Look("Done", "success", "success"),
    "UNDOING": Look("Undoing", "running", "waiting"),
    "UNDONE": Look("Undone", "rolled-back", "waiting"),
    "NOT_RESTORED": Look("Not restored", "warning", "failed"),
    # AWS calls
    "PLANNED": Look("Planned", "queued", "queued"),
    "SENT": Look("Sent", "running", "running"),
    "ANSWERED": Look("Answered", "success", "success"),
    "NOT_SENT": Look("Not sent", "skipped", "queued"),
    "UNKNOWN": Look("No answer", "unknown", "waiting"),
    # permissions
    "GRANTED": Look("Granted", "success", "success"),
    "NOT_GRANTED": Look("Not granted", "skipped", "queued"),
    # delegate tokens
    "ACTIVE": Look("Active", "success", "success"),
    "REVOKED": Look("Revoked", "aborted", "aborted"),
    # delegates and their instances
    "CONNECTED": Look("Connected", "connected", "success"),
    "LATE": Look("Late", "warning", "waiting"),
    "DISCONNECTED": Look("Disconnected", "failed", "failed"),
    "NEVER_CONTACTED": Look("Never contacted", "queued", "queued"),
    "GONE": Look("Gone", "skipped", "queued"),
    "DRAINING": Look("Draining", "draining", "running"),
    "PENDING_APPROVAL": Look("Waits for approval", "waiting", "waiting"),
    "REJECTED": Look("Rejected", "aborted", "aborted"),
    "DISABLED": Look("Disabled", "skipped", "queued"),
    # delegate tasks, and what a rule of routing says of a delegate
    "SUCCEEDED": Look("Succeeded", "success", "success"),
    "PASS": Look("Yes", "success", "success"),
    "FAIL": Look("No", "failed", "failed"),
    # what runs, beside what was deployed
    "IN_STEP": Look("As deployed", "success", "success"),
    "DRIFTED": Look("Changed outside", "warning", "waiting"),
    "ACCEPTED": Look("Changed, accepted", "success", "queued"),
    "DEPLOYING": Look("Being deployed", "running", "running"),
    "NOT_COMPARED": Look("Not compared", "unknown", "queued"),
    # what is taken over
    "READING": Look("Being read", "running", "running"),
    "READY": Look("Ready to adopt", "success", "success"),
    "REFUSED": Look("Cannot be adopted", "failed", "failed"),
    "ADOPTED": Look("Adopted", "success", "success"),
    # ECS tasks: one that runs on is steady, whatever word ECS has for it
    "STEADY": Look("Running", "success", "success"),
    "PROVISIONING": Look("Provisioning", "running", "running"),
    "PENDING": Look("Pending", "running", "running"),
    "ACTIVATING": Look("Activating", "running", "running"),
    "DEACTIVATING": Look("Deactivating", "draining", "queued"),
    "STOPPING": Look("Stopping", "draining", "queued"),
    "DEPROVISIONING": Look("Deprovisioning", "draining", "queued"),
    "STOPPED": Look("Stopped", "aborted", "queued"),
    # targets of a load balancer
    "HEALTHY": Look("Healthy", "success", "success"),
    "UNHEALTHY": Look("Unhealthy", "failed", "failed"),
    "UNUSED": Look("Unused", "warning", "waiting"),
    # notifications
    "DELIVERED": Look("Delivered", "success", "success"),
    # connectors
    "OK": Look("Connected", "success", "success"),
    "NOT_OK": Look("Test failed", "failed", "failed"),
    "NEVER": Look("Not tested", "queued", "queued"),
}

ENDED: Final = frozenset(
    {"SUCCESS", "FAILED", "ABORTED", "EXPIRED", "APPROVAL_REJECTED", "IGNORE_FAILED", "ROLLED_BACK"}
)


def look_of(status: str | None) -> Look:
    """This will find how a status is shown; one that is new to this page is shown by its own name."""
    if not status:
        return UNKNOWN
    return LOOKS.get(status) or Look(status.replace("_", " ").capitalize(), "unknown", "queued")
