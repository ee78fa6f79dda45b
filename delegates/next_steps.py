"""What to do next after a connector's test failed: one sentence, and a policy to copy where that helps."""

import json
import re
from dataclasses import dataclass
from typing import Any

from aws.errors import AwsError, Denied, NotSent, Throttled, Unanswered, Unauthenticated, Undelivered
from connectors.aws_accounts import AwsSpec

_SESSION = re.compile(r"arn:(aws[a-z-]*):sts::(\d{12}):assumed-role/([^/]+)/")
_UNKNOWN_KEY = {"InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId", "AuthFailure"}
_WRONG_SECRET = {"SignatureDoesNotMatch", "InvalidSignatureException", "IncompleteSignature"}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired"}


@dataclass(frozen=True)
class NextStep:
    """What a person does next; `policy` is JSON to copy, empty where no policy is missing."""

    text: str
    policy: str = ""


def next_step(error: AwsError, spec: AwsSpec, region: str) -> NextStep:
    """The step that most likely makes the same call succeed."""
    if isinstance(error, Denied):
        return _trust(error, spec) if error.action == "sts:AssumeRole" else _allow(error)
    if isinstance(error, Unauthenticated):
        return NextStep(_about_credentials(error.code, spec))
    if isinstance(error, Undelivered):
        return NextStep(
            "Start a delegate that may do this, or give one the tags that the connector asks for. "
            "The page of delegates shows which are there."
        )
    if isinstance(error, NotSent):
        where = spec.endpoint_url or f"AWS in {region}"
        who = "the delegate" if spec.is_remote else "Slipway"
        return NextStep(
            f"Make sure that {who} reaches {where}: name resolution, a proxy or firewall on the way, "
            "and the region's name."
        )
    if isinstance(error, Throttled):
        return NextStep("Wait a minute, then test again.")
    if isinstance(error, Unanswered):
        return NextStep("Test again. If it stays like this, look at the health of AWS in this region.")
    return NextStep(f"Look whether the region {region} is enabled in this account, then test again.")


def _allow(error: Denied) -> NextStep:
    whom = role_of(error.principal) or "the user or role behind these credentials"
    statement = {"Effect": "Allow", "Action": error.action, "Resource": error.resource or "*"}
    return NextStep(f"Add this policy to {whom}, then test again.", _policy(statement))


def _trust(error: Denied, spec: AwsSpec) -> NextStep:
    caller = role_of(error.principal)
    statement: dict[str, Any] = {
        "Effect": "Allow",
        "Principal": {"AWS": caller or "the ARN of who assumes the role"},
        "Action": "sts:AssumeRole",
    }
    if spec.external_id:
        statement["Condition"] = {"StringEquals": {"sts:ExternalId": spec.external_id}}
    return NextStep(
        f"Make this the trust policy of {spec.role_arn}, and let {caller or 'the caller'} do sts:AssumeRole "
        "on that role, then test again.",
        _policy(statement),
    )


def role_of(principal: str) -> str:
    """The ARN that a policy names for a principal: of a session it is the role's."""
    session = _SESSION.match(principal)
    return f"arn:{session[1]}:iam::{session[2]}:role/{session[3]}" if session else principal


def _about_credentials(code: str, spec: AwsSpec) -> str:
    if code in _UNKNOWN_KEY:
        return (
            f"AWS does not know the access key {spec.access_key_id}: check its id, or whether it was deleted "
            "or deactivated in IAM, then edit this connector."
        )
    if code in _WRONG_SECRET:
        return (
            f"The secret is not the one of the access key {spec.access_key_id}: rotate the secret with the "
            "right value, without spaces around it."
        )
    if code in _EXPIRED:
        return "The credentials have expired, or this machine's clock is wrong: renew them, check the clock."
    if spec.is_remote and not spec.needs_secret:
        return (
            "The delegate has no AWS credentials of its own: give its ECS task or instance a role, or choose "
            "an access key."
        )
    if not spec.needs_secret:
        return (
            "This Slipway has no AWS credentials of its own: give its task or instance a role, or choose an "
            "access key."
        )
    return "Check the access key and its secret, then test again."


def _policy(statement: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=2)
