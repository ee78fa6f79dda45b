"""The IAM verb that tells what a principal may do."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from aws.caller import Caller
from aws.paging import in_batches

ACTIONS_PER_CALL = 100
_USER = re.compile(r"arn:(aws[\w-]*):(?:iam|sts)::(\d{12}):user/(.+)")
_SESSION = re.compile(r"arn:(aws[\w-]*):sts::(\d{12}):assumed-role/([^/]+)/.+")


class Decision(StrEnum):
    """What IAM says of an action on all resources."""

    ALLOWED = "allowed"
    DENIED = "denied"
    UNKNOWN = "unknown"


def principal_of(identity: str) -> str:
    """The user or role behind what GetCallerIdentity answers, as IAM names it; empty for any other.

    The session of an assumed role does not say which path its role has: one with a path is not found.
    """
    if found := _SESSION.fullmatch(identity):
        return "arn:{}:iam::{}:role/{}".format(*found.groups())
    if found := _USER.fullmatch(identity):
        return "arn:{}:iam::{}:user/{}".format(*found.groups())
    return ""


@dataclass(frozen=True)
class Iam:
    """Speaks IAM through a caller."""

    caller: Caller

    def simulate(self, principal: str, actions: Sequence[str]) -> dict[str, Decision]:
        """What the policies of a principal say of actions on all resources."""
        found: dict[str, Decision] = {}
        for batch in in_batches(actions, ACTIONS_PER_CALL):
            params = {"PolicySourceArn": principal, "ActionNames": list(batch), "MaxItems": len(batch)}
            answer = self.caller.call("iam", "SimulatePrincipalPolicy", params)
            for one in answer.get("EvaluationResults", ()):
                is_allowed = one.get("EvalDecision") == "allowed"
                found[one["EvalActionName"]] = Decision.ALLOWED if is_allowed else Decision.DENIED
        return found
