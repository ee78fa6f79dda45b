"""Reads what an answer of AWS tells, whatever kind of value stands there."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from inventory.sync import columns

# Of an ECS service.
LONGEST_NAME: Final = 255


@dataclass(frozen=True)
class Told:
    """One object of an answer: each value as what it should be, or as nothing."""

    raw: Mapping[str, Any]

    def text(self, name: str, most: int = 512) -> str:
        return columns.text(self.raw.get(name), most)

    def number(self, name: str) -> int | None:
        return columns.number(self.raw.get(name))

    def moment(self, name: str) -> datetime | None:
        return columns.moment(self.raw.get(name))

    def rows(self, name: str) -> "list[Told]":
        return rows_of(self.raw, name)


def rows_of(answer: object, member: str) -> list[Told]:
    """The objects of a list; what is none is left out."""
    found = answer.get(member) if isinstance(answer, Mapping) else None
    return [Told(one) for one in found if isinstance(one, Mapping)] if isinstance(found, list | tuple) else []


def arns_of(answer: object, member: str) -> list[str]:
    """The ARNs of a list. AWS's own are clean and short: what is not could neither be asked for nor kept."""
    found = answer.get(member) if isinstance(answer, Mapping) else None
    listed = found if isinstance(found, list | tuple) else ()
    return [one for one in listed if isinstance(one, str) and one and columns.text(one, 512) == one]


def account_of(arn: str) -> str:
    """The account that an ARN names, empty if it names none."""
    parts = arn.split(":")
    found = parts[4] if len(parts) > 5 else ""
    return found if len(found) == 12 and found.isascii() and found.isdigit() else ""
