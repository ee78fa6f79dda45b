"""Releases of the agent with their dates, and the end of their support."""

import calendar
import re
from collections.abc import Iterable, Mapping
from datetime import date
from types import MappingProxyType
from typing import Final

# `make release` refuses a version without its date here. A release without a date is not published.
RELEASE_DATES: Final[Mapping[str, date]] = MappingProxyType({})
SUPPORT_MONTHS: Final = 6
_NUMBERS: Final = re.compile(r"\d{1,9}(\.\d{1,9}){1,3}(?=\Z|[-+])")


def get_support_end(version: str) -> date | None:
    """Return the first day without support for a release; None for an unknown or unpublished one."""
    released = RELEASE_DATES.get(version)
    return None if released is None else _add_months(released, SUPPORT_MONTHS)


def list_outdated_versions(today: date) -> tuple[str, ...]:
    """Return the releases whose support has ended."""
    return tuple(version for version in RELEASE_DATES if _is_outdated(version, today))


def find_unsupported_since(versions: Iterable[str], today: date) -> date | None:
    """Return since when the first of these releases is unsupported; None if none of them is outdated."""
    ends = (get_support_end(version) for version in versions if _is_outdated(version, today))
    return min((end for end in ends if end is not None), default=None)


def is_earlier_release(version: str, other: str) -> bool:
    """Return whether a release came before another one, by the numbers of both; False for other texts."""
    numbers = [_NUMBERS.match(text) for text in (version, other)]
    first, second = (tuple(map(int, match[0].split("."))) if match else () for match in numbers)
    return bool(first and second) and first < second


def _is_outdated(version: str, today: date) -> bool:
    end = get_support_end(version)
    return end is not None and end <= today


def _add_months(day: date, months: int) -> date:
    """Return the same day some months later, or the last one of a shorter month."""
    years, month = divmod(day.month - 1 + months, 12)
    year, month = day.year + years, month + 1
    return date(year, month, min(day.day, calendar.monthrange(year, month)[1]))
