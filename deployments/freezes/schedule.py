"""Schedule of freeze windows, and of others with such times: pure functions of their local times."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo

from deployments.models import FreezeWindow

LOCAL_TIME_FORMAT = "%Y-%m-%dT%H:%M"
WEEK = timedelta(days=7)


class WindowTimes(Protocol):
    """Local begin and end (2026-12-24T18:00) of a window in its time zone, once or each week."""

    @property
    def time_zone(self) -> str: ...
    @property
    def begins(self) -> str: ...
    @property
    def ends(self) -> str: ...
    @property
    def weekly(self) -> bool: ...


@dataclass(frozen=True)
class FreezePeriod:
    """One stretch of time in which a window is in force, in UTC."""

    begins: datetime
    ends: datetime


@dataclass(frozen=True)
class FreezeTarget:
    """Service and environment of a stage for matching windows."""

    service: str
    environment: str
    kind: str


def get_period_at(window: WindowTimes, moment: datetime) -> FreezePeriod | None:
    """Return the period of a window at a moment, or None."""
    return next(
        (period for period in _list_periods(window, moment) if period.begins <= moment < period.ends), None
    )


def get_next_period(window: WindowTimes, moment: datetime) -> FreezePeriod | None:
    """Return the next period of a window after a moment, or None."""
    return next((period for period in _list_periods(window, moment) if period.begins > moment), None)


def describe_times(window: FreezeWindow) -> str:
    """Return the times of a window in its time zone; weekdays for a weekly one."""
    shape = "%A %H:%M" if window.weekly else "%Y-%m-%d %H:%M"
    return f"{parse_local_time(window.begins):{shape}} to {parse_local_time(window.ends):{shape}}"


def matches_target(window: FreezeWindow, place: FreezeTarget) -> bool:
    """Return whether a window blocks deployments of this service to this environment."""
    is_service_matched = not window.services or place.service in window.services
    return is_service_matched and matches_environment(window, place.environment, place.kind)


def matches_environment(window: FreezeWindow, identifier: str, kind: str) -> bool:
    """Return whether a window blocks deployments of some service to this environment."""
    return (not window.environments or identifier in window.environments) and (
        not window.environment_kind or kind == window.environment_kind
    )


def list_blocking_windows(
    windows: Iterable[FreezeWindow], places: Iterable[FreezeTarget], moment: datetime
) -> list[tuple[FreezeWindow, FreezePeriod]]:
    """Return the active windows for any of these targets, the one that ends last first."""
    targets = list(places)
    blocking_windows = [
        (window, period)
        for window in windows
        if window.enabled
        and any(matches_target(window, place) for place in targets)
        and (period := get_period_at(window, moment)) is not None
    ]
    return sorted(blocking_windows, key=lambda pair: pair[1].ends, reverse=True)


def to_utc(local: datetime, zone: ZoneInfo, *, late: bool = False) -> datetime:
    """Return a local time in UTC. An ambiguous time means the first one, or with `late` the second.

    A skipped local time is as long after the clock change as the time on the clock is into the gap.
    """
    first, second = (local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    # In a gap they are in reverse order: the second one is before the change.
    return max(first, second) if late else first


def parse_local_time(text: str) -> datetime:
    """Return a parsed local time of a window. Raises `ValueError`."""
    return datetime.strptime(text, LOCAL_TIME_FORMAT)  # noqa: DTZ007 - a wall clock, whose zone is kept beside it


def _list_periods(window: WindowTimes, moment: datetime) -> list[FreezePeriod]:
    """Return the stretches around a moment, in order."""
    zone = ZoneInfo(window.time_zone)
    begins, ends = parse_local_time(window.begins), parse_local_time(window.ends)
    if not window.weekly:
        return [_build_period(begins, ends, zone)]
    wall = moment.astimezone(zone).replace(tzinfo=None)
    week = max((wall - begins) // WEEK, 0)
    shifts = [timedelta(weeks=number) for number in (week - 1, week, week + 1) if number >= 0]
    return [_build_period(begins + shift, ends + shift, zone) for shift in shifts]


def _build_period(begins: datetime, ends: datetime, zone: ZoneInfo) -> FreezePeriod:
    return FreezePeriod(to_utc(begins, zone), to_utc(ends, zone, late=True))
