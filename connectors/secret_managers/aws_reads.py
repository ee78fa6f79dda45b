"""Reads of AWS secret managers through AWS connectors, and the fixes of their errors."""

import re
from collections.abc import Mapping
from typing import Any

from aws.caller import BotoCaller, Caller
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
from connectors.secret_managers.base import SecretManager, SecretPending, SecretReference, SecretUnreadable
from connectors.specs.aws import ConnectorIncomplete, get_credentials, get_endpoint, parse_aws_spec
from web.http.client import get_outgoing_reach

_ARN_REGION = re.compile(r"arn:aws[a-z-]*:\w+:([a-z0-9-]+):\d{12}:")
# AWS names a missing secret or parameter in these ways.
_MISSING = ("ResourceNotFoundException", "ParameterNotFound", "ParameterVersionNotFound")


def read_aws_secret(
    manager: SecretManager,
    reference: SecretReference,
    operation: tuple[str, str],
    params: Mapping[str, Any],
    caller: Caller | None,
) -> dict[str, Any]:
    """Return the response of one read. Raises `SecretUnreadable` with the missing permission or the fix.

    `operation` is service and operation; without a `caller`, this process makes the call.
    """
    try:
        return (caller or _open_caller(reference)).call(*operation, params)
    except ConnectorIncomplete as incomplete:
        raise manager.describe_failure(reference, "its connector is incomplete", str(incomplete)) from None
    except SecretPending:
        raise
    except SecretUnreadable as unreadable:
        raise manager.describe_failure(
            reference, "the secret of its connector cannot be read", str(unreadable)
        ) from None
    except AwsError as error:
        raise manager.describe_failure(
            reference, error.display_message, _find_fix(reference, error)
        ) from None


def _open_caller(reference: SecretReference) -> Caller:
    return BotoCaller(
        get_credentials(reference.connector),
        get_region(reference),
        get_endpoint(reference.connector),
        get_outgoing_reach(),
    )


def get_region(reference: SecretReference) -> str:
    """Return the region of an ARN; a name is looked up in the test region of the connector."""
    arn = _ARN_REGION.match(reference.path)
    return arn[1] if arn else parse_aws_spec(reference.connector.spec).test_region


def _find_fix(reference: SecretReference, error: AwsError) -> str:
    if isinstance(error, Denied):
        where = error.resource or reference.path
        return f"Allow {error.action} on {where}, and kms:Decrypt on its key if that is your own."
    if isinstance(error, NotFound) or error.code in _MISSING:
        return f"Check the path and the version; a name is looked up in {get_region(reference)}."
    if isinstance(error, Unauthenticated):
        return f"Test the connector {reference.connector} and correct its credentials."
    if isinstance(error, Throttled | NotSent | Unanswered):
        who = "the delegate" if reference.is_remote else "Slipway"
        return f"Check that {who} reaches AWS in {get_region(reference)}, then try again."
    if isinstance(error, Undelivered):
        return f"Check the delegates of the connector {reference.connector}."
    return "Correct the reference."
