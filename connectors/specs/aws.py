"""Spec of AWS connectors, and the credentials and endpoint built from it (R152)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from aws.clients import AccessKey, AssumedRole, Credentials, DefaultChain
from connectors.models import Connector
from connectors.secret_values import read_secret_value
from connectors.specs.base import ConnectorSpec, build_spec_problem
from guards.address_policy import PRIVATE_ALLOWED, AddressPolicy
from guards.urls import describe_url_problem
from web.http.client import get_outgoing_reach

ACCESS_KEY, ASSUME_ROLE, DEFAULT_CHAIN = "AccessKey", "AssumeRole", "DefaultChain"
DELEGATE_CREDENTIALS = "Delegate"
"""Credentials of the environment of the delegate."""

_MANAGER_CREDENTIALS_REFUSAL = (
    "This installation does not allow the use of its own AWS credentials: enter an access key, or set "
    "SLIPWAY_ALLOW_MANAGER_CREDENTIALS."
)
_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+){1,2}-\d{1,2}\Z")
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]{1,512}\Z")
_ACCESS_KEY_ID = re.compile(r"\w{4,128}\Z")
_EXTERNAL_ID = re.compile(r"[\w+=,.@:/-]{2,1224}\Z")


class ConnectorIncomplete(Exception):
    """Error raised when a connector has no complete credentials."""


@dataclass(frozen=True)
class AwsSpec(ConnectorSpec):
    """Spec of an AWS connector.

    AssumeRole uses the access key if set, else the credentials of the calling process.
    """

    credentials: str = DEFAULT_CHAIN
    access_key_id: str = ""
    role_arn: str = ""
    external_id: str = ""
    test_region: str = "us-east-1"
    endpoint_url: str = ""

    @property
    def needs_secret(self) -> bool:
        """Return whether an access key, and with it its secret, takes part."""
        return self.credentials == ACCESS_KEY or bool(self.access_key_id)


def parse_aws_spec(spec: Mapping[str, Any]) -> AwsSpec:
    """Return the spec of a connector without unknown keys; `find_aws_spec_problems` lists problems."""
    return AwsSpec.from_json(spec)


def find_aws_spec_problems(spec: Mapping[str, Any], *, has_secret: bool) -> list[dict[str, str]]:
    """Return the problems of a spec, each as {"path", "message"}."""
    if problems := AwsSpec.find_shape_problems(spec):
        return problems
    read = parse_aws_spec(spec)
    return [
        *_find_delegate_problems(read),
        *_find_field_problems(read),
        *_find_credential_problems(read, has_secret),
    ]


def get_credentials(connector: Connector) -> Credentials:
    """Return the credentials of a connector.

    Raises `ConnectorIncomplete` without its secret, without permission to use this process's credentials, or
    for another kind. Raises `SecretUnreadable` if the secret cannot be decrypted, or read in its manager.
    """
    if connector.kind != Connector.Kind.AWS:
        raise ConnectorIncomplete(
            f"The connector {connector} is for {connector.get_kind_display()}, not for AWS: choose another."
        )
    spec = parse_aws_spec(connector.spec)
    if not spec.needs_secret:
        base: AccessKey | DefaultChain = _get_manager_credentials(connector)
    elif connector.secret is None:
        raise ConnectorIncomplete(f"The connector {connector} has an access key but no secret for it.")
    else:
        value = read_secret_value(connector.secret, reader=f"connector {connector}")
        base = AccessKey(spec.access_key_id, value)
    if spec.credentials == ASSUME_ROLE:
        return AssumedRole(spec.role_arn, base, external_id=spec.external_id)
    return base


def _get_manager_credentials(connector: Connector) -> DefaultChain:
    if parse_aws_spec(connector.spec).is_remote:
        return DefaultChain()
    if not settings.ALLOW_MANAGER_CREDENTIALS:
        raise ConnectorIncomplete(
            f"The connector {connector} has no access key. {_MANAGER_CREDENTIALS_REFUSAL}"
        )
    return DefaultChain()


def get_endpoint(connector: Connector) -> str | None:
    """Return the connector's endpoint, or None for AWS itself.

    Raises `ConnectorIncomplete` if this installation forbids the endpoint. Falling back to AWS could reach a
    real account instead of a simulated one.
    """
    url = parse_aws_spec(connector.spec).endpoint_url
    if url and not settings.ALLOW_AWS_ENDPOINTS:
        raise ConnectorIncomplete(
            f"The connector {connector} has a custom endpoint, which this installation does not allow. "
            "Remove it, or set SLIPWAY_ALLOW_AWS_ENDPOINTS."
        )
    return url or None


def _find_delegate_problems(spec: AwsSpec) -> Iterator[dict[str, str]]:
    yield from spec.find_route_problems()
    if spec.is_remote and spec.credentials == DEFAULT_CHAIN:
        yield build_spec_problem(
            "credentials", "A delegate does not have the Slipway credentials: use Delegate."
        )
    elif not spec.is_remote and spec.credentials == DELEGATE_CREDENTIALS:
        yield build_spec_problem(
            "credentials", "Delegate credentials require a connection through a delegate."
        )


def _find_field_problems(spec: AwsSpec) -> Iterator[dict[str, str]]:
    if spec.credentials not in (ACCESS_KEY, ASSUME_ROLE, DEFAULT_CHAIN, DELEGATE_CREDENTIALS):
        yield build_spec_problem("credentials", "Use AccessKey, AssumeRole, Delegate or DefaultChain.")
    elif not (spec.needs_secret or spec.is_remote or settings.ALLOW_MANAGER_CREDENTIALS):
        yield build_spec_problem(
            "access_key_id" if spec.credentials == ASSUME_ROLE else "credentials",
            _MANAGER_CREDENTIALS_REFUSAL,
        )
    if not _REGION.match(spec.test_region):
        yield build_spec_problem("test_region", "This is not the name of a region, such as us-east-1.")
    if spec.endpoint_url and not settings.ALLOW_AWS_ENDPOINTS:
        yield build_spec_problem("endpoint_url", "This installation does not allow custom endpoints.")
    elif spec.endpoint_url and (why := describe_url_problem(spec.endpoint_url, _get_address_policy(spec))):
        yield build_spec_problem("endpoint_url", f"This address cannot be used: {why}.")


def _find_credential_problems(spec: AwsSpec, has_secret: bool) -> Iterator[dict[str, str]]:
    if spec.needs_secret and not _ACCESS_KEY_ID.match(spec.access_key_id):
        yield build_spec_problem("access_key_id", "Enter an access key ID, such as AKIAIOSFODNN7EXAMPLE.")
    if spec.needs_secret and not has_secret:
        yield build_spec_problem("secret", "An access key needs its secret: create a secret and choose it.")
    if spec.credentials in (DEFAULT_CHAIN, DELEGATE_CREDENTIALS) and spec.access_key_id:
        yield build_spec_problem("access_key_id", "These credentials need no access key; leave this empty.")
    if spec.credentials == ASSUME_ROLE and not _ROLE.match(spec.role_arn):
        yield build_spec_problem(
            "role_arn", "Enter a role ARN, such as arn:aws:iam::123456789012:role/deployer."
        )
    if spec.credentials != ASSUME_ROLE and (spec.role_arn or spec.external_id):
        yield build_spec_problem("role_arn", "A role requires AssumeRole credentials.")
    if spec.external_id and not _EXTERNAL_ID.match(spec.external_id):
        yield build_spec_problem("external_id", "Use 2 to 1224 letters, digits and + = , . @ : / - _.")


def _get_address_policy(spec: AwsSpec) -> AddressPolicy:
    """Return the address policy: delegates reach private networks, Slipway only the configured ones."""
    return PRIVATE_ALLOWED if spec.is_remote else get_outgoing_reach()
