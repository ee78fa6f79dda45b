"""When a freeze window is in force, and what it holds back: pure functions of its local times."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from deployments.models import FreezeWindow

LOCAL = "%Y-%m-%dT%H:%M"
WEEK = timedelta(days=7)


@dataclass(frozen=True)
class Period:
    """One stretch of time in which a window is in force, in UTC."""

    begins: datetime
    ends: datetime


@dataclass(frozen=True)
class Place:
    """What a stage deploys and where, as windows name it."""

    service: str
    environment: str
    kind: str


def period_at(window: FreezeWindow, moment: datetime) -> Period | None:
    """The stretch of a window that a moment lies in, None if it is not in force then."""
    return next((one for one in _periods(window, moment) if one.begins <= moment < one.ends), None)


def next_period(window: FreezeWindow, moment: datetime) -> Period | None:
    """The first stretch of a window that has not begun at a moment, None if there is none."""
    return next((one for one in _periods(window, moment) if one.begins > moment), None)


def spoken_times(window: FreezeWindow) -> str:
    """From when until when, by the wall clock of the window: days of the week for one that comes again."""
    shape = "%A %H:%M" if window.weekly else "%Y-%m-%d %H:%M"
    return f"{local_of(window.begins):{shape}} to {local_of(window.ends):{shape}}"


def concerns(window: FreezeWindow, place: Place) -> bool:
    """Whether a window holds back deployments of this service to this environment."""
    return (
        (not window.services or place.service in window.services)
        and (not window.environments or place.environment in window.environments)
        and (not window.environment_kind or place.kind == window.environment_kind)
    )


def holding_back(
    windows: Iterable[FreezeWindow], places: Iterable[Place], moment: datetime
) -> list[tuple[FreezeWindow, Period]]:
    """The windows in force that concern any of these places, the one that ends last first."""
    wanted = list(places)
    found = [
        (window, period)
        for window in windows
        if window.enabled
        and any(concerns(window, place) for place in wanted)
        and (period := period_at(window, moment)) is not None
    ]
    return sorted(found, key=lambda one: one[1].ends, reverse=True)


def moment_of(local: datetime, zone: ZoneInfo, *, late: bool = False) -> datetime:
    """A local time in UTC. One that comes twice means the first of them, or with `late` the second.

    One that a clock jumps over means as long after the jump as it would have been after its beginning.
    """
    return local.replace(tzinfo=zone, fold=int(late)).astimezone(UTC)


def local_of(text: str) -> datetime:
    """A local time as windows keep it. Raises `ValueError`."""
    return datetime.strptime(text, LOCAL)  # noqa: DTZ007 - a wall clock, whose zone is kept beside it


def _periods(window: FreezeWindow, moment: datetime) -> list[Period]:
    """The stretches around a moment, in order."""
    zone = ZoneInfo(window.time_zone)
    begins, ends = local_of(window.begins), local_of(window.ends)
    if not window.weekly:
        return [_period(begins, ends, zone)]
    wall = moment.astimezone(zone).replace(tzinfo=None)
    week = max((wall - begins) // WEEK, 0)
    shifts = [timedelta(weeks=number) for number in (week - 1, week, week + 1) if number >= 0]
    return [_period(begins + shift, ends + shift, zone) for shift in shifts]


def _period(begins: datetime, ends: datetime, zone: ZoneInfo) -> Period:
    return Period(moment_of(begins, zone), moment_of(ends, zone, late=True))
