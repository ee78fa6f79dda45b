"""Reach of the AWS account that a connector names: what is shared with other connectors of that account.

Rate limits, pauses and event queues are shared by account. Nobody may claim an account to affect connectors
that its owner may not affect anyway.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final
from zlib import crc32

from connectors.models import Connector
from connectors.specs.aws import parse_aws_spec

_SEPARATOR: Final = ":"


class ClaimReach(Enum):
    """Connectors that share the account of a connector."""

    VERIFIED = "all connectors of the account, because Slipway asked AWS"
    SCOPE = "connectors through delegates of its scope, because a delegate reports the account"
    CONNECTOR = "none, because an endpoint of its own can claim any account"


def get_claim_reach(spec: Mapping[str, Any]) -> ClaimReach:
    """Return which connectors share the account of a connector with this spec."""
    aws = parse_aws_spec(spec)
    if aws.endpoint_url:
        return ClaimReach.CONNECTOR
    return ClaimReach.SCOPE if aws.is_remote else ClaimReach.VERIFIED


def list_isolated_connectors(connectors: Iterable[int]) -> set[int]:
    """Return those of the connectors whose account counts for nobody else, in one query."""
    specs = Connector.objects.filter(pk__in=set(connectors)).values_list("pk", "spec")
    return {pk for pk, spec in specs if get_claim_reach(spec) is ClaimReach.CONNECTOR}


def build_account_key(connector: Connector, account: str) -> str:
    """Return the key of an account that connectors share, such as `123456789012` or `scope-7:123456789012`.

    Keys of a connector with an endpoint of its own change with the endpoint. No query is made.
    """
    reach = get_claim_reach(connector.spec)
    if reach is ClaimReach.VERIFIED:
        return account
    if reach is ClaimReach.SCOPE:
        return f"scope-{connector.scope_id}{_SEPARATOR}{account}"
    endpoint = crc32(connector.spec["endpoint_url"].encode())
    return f"connector-{connector.pk}-{endpoint:08x}{_SEPARATOR}{account}"


def parse_account(account_key: str) -> str:
    """Return the account of such a key."""
    return account_key.rpartition(_SEPARATOR)[2]
