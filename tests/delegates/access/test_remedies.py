"""What to do next after a failed test of a connector."""

import json
from pathlib import Path

import pytest

from aws.errors import AwsError, Denied, Invalid, NotSent, Throttled, Unanswered, Unauthenticated
from connectors.specs.aws import AwsSpec
from delegates.access import remedies
from delegates.access.remedies import find_remedy

ROLE = "arn:aws:iam::210987654321:role/deployer"
SESSION = "arn:aws:sts::123456789012:assumed-role/slipway/i-0abc"
KEY = AwsSpec("AccessKey", access_key_id="AKIA1")


@pytest.mark.parametrize(
    ("error", "spec", "remedy"),
    [
        (Unauthenticated("InvalidClientTokenId", ""), KEY, "Unknown access key AKIA1"),
        (Unauthenticated("SignatureDoesNotMatch", ""), KEY, "rotate the secret"),
        (Unauthenticated("ExpiredToken", ""), KEY, "expired"),
        (Unauthenticated("NoCredentialsError", ""), AwsSpec(), "assign an IAM role to its task or instance"),
        (Unauthenticated("MissingAuthenticationToken", ""), KEY, "Check the access key"),
        (NotSent("ConnectTimeoutError", ""), KEY, "reaches AWS in eu-west-1"),
        (NotSent("X", ""), AwsSpec(endpoint_url="http://127.0.0.1:9"), "reaches http://127.0.0.1:9"),
        (Throttled("Throttling", ""), KEY, "Wait a minute"),
        (Unanswered("ReadTimeoutError", ""), KEY, "AWS Health Dashboard"),
        (Invalid("ValidationError", ""), KEY, "region eu-west-1 is enabled"),
    ],
)
def test_each_failure_has_a_next_step(error: AwsError, spec: AwsSpec, remedy: str) -> None:
    assert remedy in find_remedy(error, spec, "eu-west-1").text


def test_a_missing_permission_comes_with_the_policy_for_the_role_behind_the_session() -> None:
    message = f"User: {SESSION} is not authorized to perform: ecs:ListClusters on resource: *"
    step = find_remedy(Denied("AccessDenied", message, "ecs", "ListClusters"), KEY, "eu-west-1")
    assert "arn:aws:iam::123456789012:role/slipway" in step.text
    assert json.loads(step.policy)["Statement"] == [
        {"Effect": "Allow", "Action": "ecs:ListClusters", "Resource": "*"}
    ]


def test_a_role_that_cannot_be_assumed_comes_with_its_trust_policy() -> None:
    message = f"User: {SESSION} is not authorized to perform: sts:AssumeRole on resource: {ROLE}"
    spec = AwsSpec("AssumeRole", role_arn=ROLE, external_id="slipway-1")
    step = find_remedy(Denied("AccessDenied", message, "sts", "AssumeRole"), spec, "eu-west-1")
    assert ROLE in step.text
    assert json.loads(step.policy)["Statement"] == [
        {
            "Effect": "Allow",
            "Principal": {"AWS": "arn:aws:iam::123456789012:role/slipway"},
            "Action": "sts:AssumeRole",
            "Condition": {"StringEquals": {"sts:ExternalId": "slipway-1"}},
        }
    ]


# Messages of git, ssh and TLS libraries.
FOREIGN = {
    "authentication failed",
    "certificate",
    "could not read username",
    "find remote ref",
    "libcrypto",
    "not found",
    "permission denied (publickey",
}


def test_each_remedy_is_for_a_message_that_is_still_raised() -> None:
    sources = [
        path
        for name in ("delegates", "connectors", "aws", "guards", "catalog")
        for path in Path(name).rglob("*.py")
    ]
    source_texts = [path.read_text().lower() for path in sources if path.name != "remedies.py"]
    parts = [part for part, _ in remedies._SITE_REMEDIES if part not in FOREIGN]
    assert [part for part in parts if not any(part in text for text in source_texts)] == []
