"""Whether a write to a stack whose answer was lost took effect: its events bear the token of the request."""

from aws.cloudformation import CloudFormation, Stack
from steps.actions.base import AskAgain, CallRecord, DidNot, Happened, Rollout, Verdict
from steps.actions.stack.events import has_event_of
from steps.actions.timing import is_old_enough_to_deny


def adopt_stack_write(rollout: Rollout, client: CloudFormation, call: CallRecord) -> Verdict:
    """Judge a CreateStack, UpdateStack, DeleteStack, CancelUpdateStack or ContinueUpdateRollback."""
    late = is_old_enough_to_deny(rollout, call)
    named, token = call.params["StackName"], call.params["ClientRequestToken"]
    live = client.describe(named)
    if live is None:
        # By name one that is deleted is not found, and so had its effect.
        if call.operation == "DeleteStack":
            return Happened({})
        return DidNot() if late else AskAgain()
    if has_event_of(rollout, client, live.id, token) or _shows(call.operation, live):
        return Happened({"StackId": live.id})
    return DidNot() if late else AskAgain()


def _shows(operation: str, live: Stack) -> bool:
    """What the state of a stack alone proves."""
    if operation == "CancelUpdateStack":
        return live.status.startswith("UPDATE_ROLLBACK")
    return operation == "DeleteStack" and live.status in ("DELETE_IN_PROGRESS", "DELETE_COMPLETE")
