"""Typed access to AWS responses: missing or malformed values become empty ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from inventory.sync import column_values

# Of an ECS service.
MAX_SERVICE_NAME_LENGTH: Final = 255


@dataclass(frozen=True)
class AwsPayload:
    """One object of an answer: each value as what it should be, or as nothing."""

    raw: Mapping[str, Any]

    def text(self, name: str, most: int = 512) -> str:
        return column_values.clean_text(self.raw.get(name), most)

    def number(self, name: str) -> int | None:
        return column_values.parse_integer(self.raw.get(name))

    def moment(self, name: str) -> datetime | None:
        return column_values.parse_datetime(self.raw.get(name))

    def rows(self, name: str) -> "list[AwsPayload]":
        return list_payloads(self.raw, name)


def list_payloads(answer: object, member: str) -> list[AwsPayload]:
    """The objects of a list; what is none is left out."""
    found = answer.get(member) if isinstance(answer, Mapping) else None
    return (
        [AwsPayload(one) for one in found if isinstance(one, Mapping)]
        if isinstance(found, list | tuple)
        else []
    )


def list_arns(answer: object, member: str) -> list[str]:
    """The ARNs of a list. AWS's own are clean and short: what is not could neither be asked for nor kept."""
    found = answer.get(member) if isinstance(answer, Mapping) else None
    listed = found if isinstance(found, list | tuple) else ()
    return [
        one for one in listed if isinstance(one, str) and one and column_values.clean_text(one, 512) == one
    ]


def parse_account_id(arn: str) -> str:
    """The account that an ARN names, empty if it names none."""
    parts = arn.split(":")
    found = parts[4] if len(parts) > 5 else ""
    return found if len(found) == 12 and found.isascii() and found.isdigit() else ""
