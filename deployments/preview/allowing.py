"""Which of the IAM actions that a preview needs are allowed, as far as IAM says so."""

from collections.abc import Iterable, Mapping, Sequence

from aws.errors import AwsError, Denied
from aws.iam import Decision, Iam, principal_of
from aws.permissions import actions_for
from aws.preview import PreviewCaller, PreviewStopped
from aws.sts import Sts
from delegates.doors import DoorClosed
from deployments.preview.running import PreviewedStep
from steps.actions.work import SERVICE

_WORST_FIRST = (Decision.DENIED, Decision.UNKNOWN, Decision.ALLOWED)


def decided(steps: Sequence[PreviewedStep]) -> tuple[dict[str, Decision], list[str]]:
    """What IAM says of each action, the worst of several principals; and why it says nothing."""
    found: dict[str, list[Decision]] = {}
    reasons: list[str] = []
    for caller in {id(step.caller): step.caller for step in steps if step.calls}.values():
        needed = actions_for(
            (call.service, call.operation, call.params) for call in caller.made if call.service != SERVICE
        )
        said, reason = _asked(caller, needed)
        reasons += [reason] if reason else []
        for action in needed:
            found.setdefault(action, []).append(said.get(action, Decision.UNKNOWN))
    return {action: _worst(decisions) for action, decisions in found.items()}, reasons


def _asked(caller: PreviewCaller, actions: Sequence[str]) -> tuple[Mapping[str, Decision], str]:
    try:
        identity = Sts(caller.looking).identity().arn
        principal = principal_of(identity)
        if not principal:
            return {}, f"IAM cannot be asked about {identity}: it is neither a user nor a role."
        return Iam(caller.looking).simulate(principal, actions), ""
    except Denied as denied:
        return {}, f"IAM could not be asked what is allowed: {denied.action} is not."
    except AwsError as error:
        return {}, f"IAM could not be asked what is allowed: {error.sentence}"
    except (DoorClosed, PreviewStopped) as stopped:
        return {}, f"IAM was not asked what is allowed: {stopped}"


def _worst(decisions: Iterable[Decision]) -> Decision:
    given = set(decisions)
    return next(one for one in _WORST_FIRST if one in given)
