"""Typed access to AWS responses: missing or malformed values become empty ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from inventory.sync import column_values

# The limit of AWS.
MAX_SERVICE_NAME_LENGTH: Final = 255


@dataclass(frozen=True)
class AwsPayload:
    """One object of a response, with typed access."""

    raw: Mapping[str, Any]

    def text(self, name: str, max_length: int = 512) -> str:
        return column_values.clean_text(self.raw.get(name), max_length)

    def number(self, name: str) -> int | None:
        return column_values.parse_integer(self.raw.get(name))

    def moment(self, name: str) -> datetime | None:
        return column_values.parse_datetime(self.raw.get(name))

    def rows(self, name: str) -> "list[AwsPayload]":
        return list_payloads(self.raw, name)


def list_payloads(response: object, member: str) -> list[AwsPayload]:
    """Return the objects of a list; other values are left out."""
    items = response.get(member) if isinstance(response, Mapping) else None
    return (
        [AwsPayload(item) for item in items if isinstance(item, Mapping)]
        if isinstance(items, list | tuple)
        else []
    )


def list_arns(response: object, member: str) -> list[str]:
    """Return the ARNs of a list; malformed ones are left out."""
    items = response.get(member) if isinstance(response, Mapping) else None
    arns = items if isinstance(items, list | tuple) else ()
    return [arn for arn in arns if isinstance(arn, str) and arn and column_values.clean_text(arn, 512) == arn]


def parse_account_id(arn: str) -> str:
    """Return the account of an ARN, empty without one."""
    parts = arn.split(":")
    account = parts[4] if len(parts) > 5 else ""
    return account if len(account) == 12 and account.isascii() and account.isdigit() else ""
