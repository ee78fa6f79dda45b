"""Remedies after a failed call: one sentence, and an IAM policy to copy where that helps."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from aws.errors import (
    AwsError,
    Denied,
    NotFound,
    NotSent,
    Throttled,
    Unanswered,
    Unauthenticated,
    Undelivered,
)
from connectors.models import Connector
from connectors.specs.aws import AwsSpec, parse_aws_spec

_SESSION = re.compile(r"arn:(aws[a-z-]*):sts::(\d{12}):assumed-role/([^/]+)/")
_UNKNOWN_KEY = {"InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId", "AuthFailure"}
_WRONG_SECRET = {"SignatureDoesNotMatch", "InvalidSignatureException", "IncompleteSignature"}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired"}


@dataclass(frozen=True)
class Remedy:
    """What a person does next; `policy` is JSON to copy, empty where no policy is missing."""

    text: str
    policy: str = ""


def find_remedy(error: AwsError, spec: AwsSpec, region: str) -> Remedy:
    """The step that most likely makes the same call succeed."""
    if isinstance(error, Denied):
        return _trust(error, spec) if error.action == "sts:AssumeRole" else _allow(error)
    if isinstance(error, Unauthenticated):
        return Remedy(_find_credentials_remedy(error.code, spec))
    if isinstance(error, Undelivered):
        return Remedy(
            "Start a delegate that may do this, or give one the tags that the connector asks for. "
            "The page of delegates shows which are there."
        )
    if isinstance(error, NotSent):
        where = spec.endpoint_url or f"AWS in {region}"
        who = "the delegate" if spec.is_remote else "Slipway"
        return Remedy(
            f"Make sure that {who} reaches {where}: name resolution, a proxy or firewall on the way, "
            "and the region's name."
        )
    if isinstance(error, Throttled):
        return Remedy("Wait a minute, then test again.")
    if isinstance(error, Unanswered):
        return Remedy("Test again. If it stays like this, look at the health of AWS in this region.")
    return Remedy(f"Look whether the region {region} is enabled in this account, then test again.")


def _allow(error: Denied) -> Remedy:
    whom = get_role_arn(error.principal) or "the user or role behind these credentials"
    statement = {"Effect": "Allow", "Action": error.action, "Resource": error.resource or "*"}
    return Remedy(f"Add this policy to {whom}, then test again.", _policy(statement))


def _trust(error: Denied, spec: AwsSpec) -> Remedy:
    caller = get_role_arn(error.principal)
    statement: dict[str, Any] = {
        "Effect": "Allow",
        "Principal": {"AWS": caller or "the ARN of who assumes the role"},
        "Action": "sts:AssumeRole",
    }
    if spec.external_id:
        statement["Condition"] = {"StringEquals": {"sts:ExternalId": spec.external_id}}
    return Remedy(
        f"Make this the trust policy of {spec.role_arn}, and let {caller or 'the caller'} do sts:AssumeRole "
        "on that role, then test again.",
        _policy(statement),
    )


def get_role_arn(principal: str) -> str:
    """The ARN that a policy names for a principal: of a session it is the role's."""
    session = _SESSION.match(principal)
    return f"arn:{session[1]}:iam::{session[2]}:role/{session[3]}" if session else principal


def _find_credentials_remedy(code: str, spec: AwsSpec) -> str:
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


# Of what a program says, in small letters; the first that is found counts.
_SITE_REMEDIES: Final = (
    (
        "private address",
        "Let the connector go through a delegate in that network, or allow the network here.",
    ),
    ("no registered delegate", "Start a delegate, or give one the tags that the connector asks for."),
    (
        "permission denied (publickey",
        "Register the public half of the key at the Git server, then test again.",
    ),
    (
        "host key of",
        "Compare the fingerprint with the server's own, then accept the new key on the connector's page.",
    ),
    ("libcrypto", "The secret is no private SSH key: give the whole file, from BEGIN to END."),
    ("authentication failed", "Look whether user name and token are right and the token is not expired."),
    ("could not read username", "The server wants a login: choose user name and password."),
    ("lists no repositories", "Type the path of the image, such as library/nginx."),
    (
        "does not list its",
        "Type the path of the image, or give the connector a login that may see the catalog.",
    ),
    ("has no repository", "Look at the image path; Docker Hub's own images are library/NAME."),
    ("has no tag", "Push the tag, or choose another one."),
    ("does not show", "Give the connector a login that may read this repository, and look at the path."),
    ("too often", "Wait a few minutes; a connector with a login may ask more often."),
    ("has trouble", "Try again in a minute."),
    ("find remote ref", "Push this branch or tag, or name another one."),
    ("there is no file", "Look at the path, which counts from the top of the repository."),
    ("was not resolved", "Look at the host in the URL, and at the name servers of who asks."),
    ("not found", "Look at the URL; for the URL of an account, name a repository for the test."),
    ("wants a login", "The registry wants a login: choose user name and password."),
    ("gave no token", "Look whether user name and password are right."),
    ("accept the token", "Make a token of a user or a team there, and give it as this connector's secret."),
    ("an organization's token", "Make a token of a user or a team there: those can make runs."),
    ("terraform cloud at this", "Look at the URL: https://app.terraform.io, or that of your own server."),
    ("certificate", "Give whoever calls the certificate authority of this server, then test again."),
    ("is not the json", "Look at the URL: what answers there is no container registry."),
)


def find_site_remedy(problem: str) -> str:
    """What to do next after a site said this; nothing where no step is known."""
    said = problem.lower()
    return next((step for part, step in _SITE_REMEDIES if part in said), "")


def describe_with_remedy(connector: Connector, error: AwsError, region: str) -> str:
    """An error of a registry or of ECR in words, and what to do next."""
    said = error.display_message.rstrip(".")
    if connector.kind != Connector.Kind.AWS:
        step = find_site_remedy(said)
    elif isinstance(error, NotFound):
        step = f"Look at the image path, and whether the repository is in {region}."
    elif isinstance(error, Denied):
        step = f"Allow {error.action} to {get_role_arn(error.principal) or 'whom the connector stands for'}."
    else:
        step = find_remedy(error, parse_aws_spec(connector.spec), region).text
    return f"{said[:1].upper()}{said[1:]}. {step}".strip()
