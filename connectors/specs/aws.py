"""Spec of AWS connectors, and the credentials and endpoint built from it (R152)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from django.conf import settings

from aws.clients import AccessKey, AssumedRole, Credentials, DefaultChain, WebIdentity
from connectors.models import Connector
from connectors.secret_values import read_secret_value
from connectors.specs.aws_sessions import (
    DEFAULT_SESSION_NAME,
    ROLE,
    find_session_problems,
    get_run_key,
    parse_list,
    render_session_name,
    render_session_tags,
)
from connectors.specs.base import ConnectorSpec, build_spec_problem
from guards.address_policy import PRIVATE_ALLOWED, AddressPolicy
from guards.urls import describe_url_problem
from web.http.client import get_outgoing_reach

ACCESS_KEY, ASSUME_ROLE, DEFAULT_CHAIN = "AccessKey", "AssumeRole", "DefaultChain"
WEB_IDENTITY = "WebIdentity"
"""A role assumed with an OIDC token from a file of the worker or delegate that makes the call."""
DELEGATE_CREDENTIALS = "Delegate"
"""Credentials of the environment of the delegate."""

_CREDENTIALS: Final = (ACCESS_KEY, ASSUME_ROLE, WEB_IDENTITY, DEFAULT_CHAIN, DELEGATE_CREDENTIALS)
_ASSUMING: Final = (ASSUME_ROLE, WEB_IDENTITY)

_MANAGER_CREDENTIALS_REFUSAL = (
    "This installation does not allow the use of its own AWS credentials: enter an access key, connect "
    "through a delegate, or set SLIPWAY_ALLOW_MANAGER_CREDENTIALS."
)
_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+){1,2}-\d{1,2}\Z")
_TOKEN_FILE = re.compile(r"/[^\x00-\x1f\x7f]{1,500}\Z")
_ACCESS_KEY_ID = re.compile(r"\w{4,128}\Z")
_EXTERNAL_ID = re.compile(r"[\w+=,.@:/-]{2,1224}\Z")


class ConnectorIncomplete(Exception):
    """Error raised when a connector has no complete credentials."""


@dataclass(frozen=True)
class AwsSpec(ConnectorSpec):
    """Spec of an AWS connector.

    AssumeRole uses the access key if set, else the credentials of the calling process. `via_roles` are roles
    that are assumed before the last one, with commas between them. `session_name` and the values of
    `session_tags`, such as `team=shop, run={execution}`, may contain {pipeline} and {execution}.
    """

    credentials: str = DEFAULT_CHAIN
    access_key_id: str = ""
    role_arn: str = ""
    external_id: str = ""
    web_identity_token_file: str = ""
    via_roles: str = ""
    session_name: str = ""
    session_tags: str = ""
    transitive_tag_keys: str = ""
    test_region: str = "us-east-1"
    endpoint_url: str = ""

    @property
    def needs_secret(self) -> bool:
        """Return whether an access key, and with it its secret, takes part."""
        return self.credentials == ACCESS_KEY or bool(self.access_key_id)

    @property
    def session_texts(self) -> dict[str, str]:
        """Return the settings of the session of a role."""
        return {
            "via_roles": self.via_roles,
            "session_name": self.session_name,
            "session_tags": self.session_tags,
            "transitive_tag_keys": self.transitive_tag_keys,
        }


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
    if spec.credentials == WEB_IDENTITY:
        _get_manager_credentials(connector)
        return _build_web_identity(spec)
    if not spec.needs_secret:
        base: AccessKey | DefaultChain = _get_manager_credentials(connector)
    elif connector.secret is None:
        raise ConnectorIncomplete(f"The connector {connector} has an access key but no secret for it.")
    else:
        value = read_secret_value(connector.secret, reader=f"connector {connector}")
        base = AccessKey(spec.access_key_id, value, _read_session_token(connector))
    if spec.credentials == ASSUME_ROLE:
        return _build_role_chain(spec, base, [*parse_list(spec.via_roles), spec.role_arn])
    return base


def _read_session_token(connector: Connector) -> str:
    token = connector.session_token
    return read_secret_value(token, reader=f"connector {connector}") if token is not None else ""


def _build_web_identity(spec: AwsSpec) -> WebIdentity | AssumedRole:
    first, *others = [*parse_list(spec.via_roles), spec.role_arn]
    identity = WebIdentity(first, spec.web_identity_token_file, render_session_name(spec.session_name))
    return _build_role_chain(spec, identity, others) if others else identity


def _build_role_chain(
    spec: AwsSpec, base: AccessKey | DefaultChain | WebIdentity, roles: Sequence[str]
) -> AssumedRole:
    """Return the last of several roles, each assumed by the one before.

    A tag that is transitive is set once: AWS refuses to set it again in a later session.
    """
    tags, transitive = render_session_tags(spec.session_tags), tuple(parse_list(spec.transitive_tag_keys))
    current: AccessKey | DefaultChain | WebIdentity | AssumedRole = base
    for number, role_arn in enumerate(roles, start=1):
        is_first, is_last = number == 1, number == len(roles)
        current = AssumedRole(
            role_arn,
            current,
            external_id=spec.external_id if is_last else "",
            session_name=render_session_name(spec.session_name),
            tags=tuple(tag for tag in tags if (is_first if tag[0] in transitive else is_last)),
            transitive_tag_keys=transitive if is_first else (),
        )
    return cast("AssumedRole", current)


def get_session_key(connector: Connector) -> str:
    """Return the current run if the sessions of a connector are named or tagged with it, else ""."""
    spec = parse_aws_spec(connector.spec)
    return get_run_key(spec.session_name or DEFAULT_SESSION_NAME, spec.session_tags)


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
            "credentials", "A delegate does not have Slipway's credentials. Choose Delegate credentials."
        )
    elif not spec.is_remote and spec.credentials == DELEGATE_CREDENTIALS:
        yield build_spec_problem(
            "credentials", "Delegate credentials require a connection through a delegate."
        )


def _find_field_problems(spec: AwsSpec) -> Iterator[dict[str, str]]:
    if spec.credentials not in _CREDENTIALS:
        yield build_spec_problem("credentials", f"Use one of {', '.join(_CREDENTIALS)}.")
    elif not (spec.needs_secret or spec.is_remote or settings.ALLOW_MANAGER_CREDENTIALS):
        yield build_spec_problem(
            "access_key_id" if spec.credentials == ASSUME_ROLE else "credentials",
            _MANAGER_CREDENTIALS_REFUSAL,
        )
    yield from _find_role_problems(spec)
    if not _REGION.match(spec.test_region):
        yield build_spec_problem("test_region", "This is not the name of a region, such as us-east-1.")
    if spec.endpoint_url and not settings.ALLOW_AWS_ENDPOINTS:
        yield build_spec_problem("endpoint_url", "This installation does not allow custom endpoints.")
    elif spec.endpoint_url and (why := describe_url_problem(spec.endpoint_url, _get_address_policy(spec))):
        yield build_spec_problem("endpoint_url", f"This address cannot be used: {why}.")


def _find_role_problems(spec: AwsSpec) -> Iterator[dict[str, str]]:
    yield from find_session_problems(**spec.session_texts)
    has_session = any(spec.session_texts.values())
    if has_session and spec.credentials not in _ASSUMING:
        yield build_spec_problem("via_roles", "Roles, names and tags of a session require a role.")
    if spec.credentials == WEB_IDENTITY:
        if not _TOKEN_FILE.match(spec.web_identity_token_file):
            yield build_spec_problem(
                "web_identity_token_file", "Enter the absolute path of the token's file."
            )
        if not spec.via_roles and (spec.session_tags or spec.external_id):
            yield build_spec_problem(
                "session_tags",
                "The token sets the tags of its session: enter them for a chain of roles.",
            )
    elif spec.web_identity_token_file:
        yield build_spec_problem("web_identity_token_file", "A token file requires WebIdentity credentials.")


def _find_credential_problems(spec: AwsSpec, has_secret: bool) -> Iterator[dict[str, str]]:
    if spec.needs_secret and not _ACCESS_KEY_ID.match(spec.access_key_id):
        yield build_spec_problem("access_key_id", "Enter an access key ID, such as AKIAIOSFODNN7EXAMPLE.")
    if spec.needs_secret and not has_secret:
        yield build_spec_problem("secret", "An access key needs its secret: create a secret and choose it.")
    if spec.credentials in (DEFAULT_CHAIN, DELEGATE_CREDENTIALS, WEB_IDENTITY) and spec.access_key_id:
        yield build_spec_problem("access_key_id", "These credentials need no access key; leave this empty.")
    if spec.credentials in _ASSUMING and not ROLE.match(spec.role_arn):
        yield build_spec_problem(
            "role_arn", "Enter a role ARN, such as arn:aws:iam::123456789012:role/deployer."
        )
    if spec.credentials not in _ASSUMING and (spec.role_arn or spec.external_id):
        yield build_spec_problem("role_arn", "A role requires AssumeRole credentials.")
    if spec.external_id and not _EXTERNAL_ID.match(spec.external_id):
        yield build_spec_problem("external_id", "Use 2 to 1224 letters, digits and + = , . @ : / - _.")


def _get_address_policy(spec: AwsSpec) -> AddressPolicy:
    """Return the address policy: delegates reach private networks, Slipway only the configured ones."""
    return PRIVATE_ALLOWED if spec.is_remote else get_outgoing_reach()
