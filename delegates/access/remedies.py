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
_WEB_IDENTITY_REMEDY = (
    "Let the trust policy of the role allow sts:AssumeRoleWithWebIdentity to the OIDC provider, with the "
    "audience and the subject of the token."
)
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired"}


@dataclass(frozen=True)
class Remedy:
    """Next action for a user; `policy` is JSON to copy, or empty if no policy is missing."""

    text: str
    policy: str = ""


def find_remedy(error: AwsError, spec: AwsSpec, region: str) -> Remedy:
    """Return the change that most likely makes the same call succeed."""
    if isinstance(error, Denied):
        if error.action == "sts:AssumeRoleWithWebIdentity":
            return Remedy(_WEB_IDENTITY_REMEDY)
        return (
            _build_trust_remedy(error, spec)
            if error.action == "sts:AssumeRole"
            else _build_policy_remedy(error)
        )
    if isinstance(error, Unauthenticated):
        return Remedy(_find_credentials_remedy(error.code, spec))
    if isinstance(error, Undelivered):
        return Remedy(_find_delegate_remedy(error.code))
    if isinstance(error, NotSent):
        where = spec.endpoint_url or f"AWS in {region}"
        client = "the delegate" if spec.is_remote else "Slipway"
        return Remedy(
            f"Make sure that {client} reaches {where}: check name resolution, proxies, firewalls and the "
            f"region name."
        )
    if isinstance(error, Throttled):
        return Remedy("Wait a minute, then test again.")
    if isinstance(error, Unanswered):
        return Remedy("Test again. If it fails again, check the AWS Health Dashboard for this region.")
    return Remedy(f"Check that the region {region} is enabled in this account, then test again.")


def _find_delegate_remedy(code: str) -> str:
    if code == "TokenFileNotAllowed":
        return "Set SLIPWAY_DELEGATE_TOKEN_FILES on the delegate, or select delegates that have it by tags."
    return (
        "Start an eligible delegate, or add the delegate selectors of the connector to a delegate. See the "
        "delegates page."
    )


def _build_policy_remedy(error: Denied) -> Remedy:
    whom = get_role_arn(error.principal) or "the user or role of these credentials"
    statement = {"Effect": "Allow", "Action": error.action, "Resource": error.resource or "*"}
    return Remedy(f"Add this policy to {whom}, then test again.", _render_policy(statement))


def _build_trust_remedy(error: Denied, spec: AwsSpec) -> Remedy:
    caller = get_role_arn(error.principal)
    statement: dict[str, Any] = {
        "Effect": "Allow",
        "Principal": {"AWS": caller or "the ARN of who assumes the role"},
        "Action": "sts:AssumeRole",
    }
    if spec.external_id:
        statement["Condition"] = {"StringEquals": {"sts:ExternalId": spec.external_id}}
    role = error.resource or spec.role_arn
    return Remedy(
        f"Make this the trust policy of {role}, and allow sts:AssumeRole on that role for "
        f"{caller or 'the caller'}, then test again.",
        _render_policy(statement),
    )


def get_role_arn(principal: str) -> str:
    """Return the ARN that a policy names for a principal: of a session it is the role's."""
    session = _SESSION.match(principal)
    return f"arn:{session[1]}:iam::{session[2]}:role/{session[3]}" if session else principal


def _find_credentials_remedy(code: str, spec: AwsSpec) -> str:
    if code in _UNKNOWN_KEY:
        return (
            f"Unknown access key {spec.access_key_id}: check the ID and whether it was deleted or "
            f"deactivated in IAM, then edit this connector."
        )
    if code in _WRONG_SECRET:
        return (
            f"The secret does not match the access key {spec.access_key_id}: rotate the secret with the "
            f"correct value, without surrounding spaces."
        )
    if code == "NoWebIdentityToken":
        where = "the delegates" if spec.is_remote else "each worker and web server"
        return f"Mount an OIDC token at {spec.web_identity_token_file} on {where}."
    if code in _EXPIRED:
        return (
            "The credentials have expired or the clock is wrong: renew the credentials and check the clock."
        )
    if spec.is_remote and not spec.needs_secret:
        return (
            "The delegate has no AWS credentials: assign an IAM role to its ECS task or instance, or use an "
            "access key."
        )
    if not spec.needs_secret:
        return (
            "Slipway has no AWS credentials: assign an IAM role to its task or instance, or use an access "
            "key."
        )
    return "Check the access key and its secret, then test again."


def _render_policy(statement: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=2)


# Parts of error messages in lower case; the first match counts.
_SITE_REMEDIES: Final = (
    (
        "private address",
        "Connect through a delegate in that network, or allow the network in SLIPWAY_PRIVATE_NETWORKS.",
    ),
    (
        "no registered delegate",
        "Start a delegate, or add the delegate selectors of the connector to a delegate.",
    ),
    (
        "permission denied (publickey",
        "Register the public half of the key at the Git server, then test again.",
    ),
    (
        "host key of",
        "Compare the fingerprint with the server, then accept the new key on the connector page.",
    ),
    ("libcrypto", "The secret is not a private SSH key: store the whole file, from BEGIN to END."),
    ("authentication failed", "Check the user name, the token and its expiry."),
    ("could not read username", "The server requires authentication: use a user name and password."),
    ("does not list repositories", "Enter the image path, such as library/nginx."),
    (
        "does not list its",
        "Enter the image path, or use credentials that can list the catalog.",
    ),
    ("has no repository", "Check the image path; official Docker Hub images are library/NAME."),
    ("has no tag", "Push the tag, or choose another tag."),
    ("denied access to", "Use credentials that can read this repository, and check the path."),
    ("refused more requests", "Wait a few minutes, or use credentials to get a higher rate limit."),
    ("has a server error", "Try again in a minute."),
    ("find remote ref", "Push this branch or tag, or use another one."),
    ("there is no file", "Check the path, relative to the root of the repository."),
    ("was not resolved", "Check the host name in the URL and the DNS of the caller."),
    ("not found", "Check the URL. For an account URL, set a test repository."),
    ("requires credentials", "Use a user name and password in the connector."),
    ("returned no token", "Check the user name and password."),
    ("accept the token", "Create a user or team token there, and use it as the secret of this connector."),
    ("an organization's token", "Create a user or team token there: these can create runs."),
    ("terraform cloud at this", "Check the URL: https://app.terraform.io or your own server."),
    ("certificate", "Add the certificate authority of this server to the caller, then test again."),
    ("is not the expected json", "Check the URL: the server is not a container registry."),
)


def find_site_remedy(problem: str) -> str:
    """Return the next action after an error of a site, or None if no remedy is known."""
    text = problem.lower()
    return next((step for part, step in _SITE_REMEDIES if part in text), "")


def describe_with_remedy(connector: Connector, error: AwsError, region: str) -> str:
    """Return the message of a registry or ECR error with its remedy."""
    message = (error.refusal if isinstance(error, Denied) else error.display_message).rstrip(".")
    if connector.kind != Connector.Kind.AWS:
        step = find_site_remedy(message)
    elif isinstance(error, NotFound):
        step = f"Check the image path and that the repository is in {region}."
    elif isinstance(error, Denied):
        step = f"Allow {error.action} to {get_role_arn(error.principal) or 'the principal of the connector'}."
    else:
        step = find_remedy(error, parse_aws_spec(connector.spec), region).text
    return f"{message[:1].upper()}{message[1:]}. {step}".strip()
