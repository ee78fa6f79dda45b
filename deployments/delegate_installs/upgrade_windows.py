"""Operations on the weekly windows of automatic upgrades, and their times."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.db import transaction

from delegates.agent import VERSION
from delegates.install.images import parse_image
from delegates.install.plan import SpecPlan
from delegates.models import Delegate
from delegates.operations.installation import INSTALL_PERMISSION, build_spec_request
from deployments.delegate_installs.operations import plan_delegate_deployment
from deployments.delegate_installs.records import list_installation_places
from deployments.freezes.schedule import (
    LOCAL_TIME_FORMAT,
    FreezePeriod,
    get_next_period,
    get_period_at,
    parse_local_time,
)
from deployments.models import DelegateUpgradeWindow
from rbac.audit import record_audit_entry
from rbac.models import User
from rbac.policy import require
from web.clock import get_database_time
from web.http.problems import BadInput, Conflict

WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
# Long enough for a beat that was away for a while; the next day has its own window.
DURATION_MINUTES: Final = range(15, 24 * 60 + 1)
_TIME: Final = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
# A Monday before all windows: each recurs from then on.
_FIRST_MONDAY: Final = "2024-01-01"


@dataclass(frozen=True)
class UpgradeTimes:
    """Times of a window: weekdays from Monday, 0, local begin (02:00), minutes, and time zone."""

    days: tuple[int, ...]
    begins: str
    duration_minutes: int
    time_zone: str = "UTC"

    @classmethod
    def from_window(cls, window: DelegateUpgradeWindow) -> "UpgradeTimes":
        """Return the times of a stored window."""
        return cls(tuple(window.days), window.begins, window.duration_minutes, window.time_zone)

    def __str__(self) -> str:
        names = [WEEKDAYS[day] for day in self.days]
        days = "every day" if len(names) == len(WEEKDAYS) else f"on {', '.join(names)}"
        return f"{days} from {self.begins} for {describe_length(self.duration_minutes)} ({self.time_zone})"

    def get_open_period(self, moment: datetime) -> FreezePeriod | None:
        """Return the period that is open at a moment, or None."""
        periods = (get_period_at(day, moment) for day in self._list_day_times())
        return next((period for period in periods if period is not None), None)

    def compute_next_begin(self, moment: datetime) -> datetime:
        """Return when the window opens next after a moment."""
        periods = (get_next_period(day, moment) for day in self._list_day_times())
        return min(period.begins for period in periods if period is not None)

    def _list_day_times(self) -> list["_DayTimes"]:
        first = parse_local_time(f"{_FIRST_MONDAY}T{self.begins}")
        begins = [first + timedelta(days=day) for day in self.days]
        length = timedelta(minutes=self.duration_minutes)
        return [
            _DayTimes(self.time_zone, f"{begin:{LOCAL_TIME_FORMAT}}", f"{begin + length:{LOCAL_TIME_FORMAT}}")
            for begin in begins
        ]


def describe_length(minutes: int) -> str:
    """Return a length in words, in hours if it has no other minutes."""
    hours, rest = divmod(minutes, 60)
    return f"{minutes} minutes" if rest else f"{hours} hour{'' if hours == 1 else 's'}"


@dataclass(frozen=True)
class _DayTimes:
    """Times on one weekday, as the schedule of windows takes them."""

    time_zone: str
    begins: str
    ends: str
    weekly: bool = True


def set_upgrade_window(*, actor: User, delegate: Delegate, times: UpgradeTimes) -> DelegateUpgradeWindow:
    """Let Slipway upgrade a delegate in a weekly window, with the rights of `actor`.

    Raises `BadInput` with the fields of `UpgradeTimes` as paths, `Conflict` for a delegate that Slipway did
    not deploy or cannot upgrade by itself, and the errors of its deployment.
    """
    require(actor, INSTALL_PERMISSION, delegate)
    times = _clean_times(times)
    place = next(iter(list_installation_places(delegate)), None)
    if place is None:
        raise Conflict(f"Slipway did not deploy {delegate}. Deploy it from its page first.")
    if problem := describe_image_problem(delegate):
        raise Conflict(problem)
    plan_delegate_deployment(
        actor=actor, delegate=delegate, project=place.environment.scope, connector=place.connector
    )
    now = get_database_time()
    due_at = now if times.get_open_period(now) else times.compute_next_begin(now)
    values = {
        "infrastructure": place,
        "days": list(times.days),
        "begins": times.begins,
        "duration_minutes": times.duration_minutes,
        "time_zone": times.time_zone,
        "allowed_by": actor,
        "due_at": due_at,
    }
    with transaction.atomic():
        before = DelegateUpgradeWindow.objects.select_related("allowed_by").filter(delegate=delegate).first()
        former = _build_audit_values(before) if before else None
        window, is_new = DelegateUpgradeWindow.objects.update_or_create(delegate=delegate, defaults=values)
        record_audit_entry(
            actor=actor,
            action=f"delegateupgradewindow.{'create' if is_new else 'update'}",
            thing=window,
            before=former,
            after=_build_audit_values(window),
        )
    return window


def remove_upgrade_window(*, actor: User, delegate: Delegate) -> None:
    """End the automatic upgrades of a delegate; one that runs goes on."""
    require(actor, INSTALL_PERMISSION, delegate)
    delete_upgrade_window(actor=actor, delegate=delegate)


def delete_upgrade_window(*, actor: User, delegate: Delegate) -> None:
    """Delete the window of a delegate, if it has one; the caller has checked a permission."""
    with transaction.atomic():
        window = DelegateUpgradeWindow.objects.select_related("allowed_by").filter(delegate=delegate).first()
        if window is not None:
            record_audit_entry(
                actor=actor,
                action="delegateupgradewindow.delete",
                thing=window,
                before=_build_audit_values(window),
            )
            window.delete()


def choose_release_image(delegate: Delegate) -> str:
    """Return the image of this server's release, in the repository of the delegate's own image."""
    request = build_spec_request(delegate)
    # Without an image of its own it has that of the installation, which is configured with its version.
    return parse_image(request.image).with_tag(VERSION) if delegate.spec.get("image") else request.image


def describe_image_problem(delegate: Delegate) -> str:
    """Return why nobody but a person can choose the image of the next release; empty if Slipway can."""
    plan = SpecPlan(build_spec_request(delegate))
    if plan.is_mirrored:
        return "The image of the delegate is mirrored by hand. Let it pull the image from its own registry."
    if delegate.spec.get("image") and parse_image(plan.request.image).digest:
        return "The delegate's image is named by its digest, which is one release for ever. Use a tag."
    return ""


def _clean_times(times: UpgradeTimes) -> UpgradeTimes:
    if not times.days or not set(times.days) <= set(range(len(WEEKDAYS))):
        raise _build_refusal("days", "Choose at least one day of the week.")
    if not _TIME.fullmatch(times.begins):
        raise _build_refusal("begins", "Enter a time such as 02:00.")
    if times.duration_minutes not in DURATION_MINUTES:
        message = f"A window lasts {DURATION_MINUTES.start} to {DURATION_MINUTES.stop - 1} minutes."
        raise _build_refusal("duration_minutes", message)
    try:
        ZoneInfo(times.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise _build_refusal("time_zone", "Enter a time zone such as Europe/Berlin or UTC.") from exc
    return UpgradeTimes(tuple(sorted(set(times.days))), times.begins, times.duration_minutes, times.time_zone)


def _build_refusal(path: str, message: str) -> BadInput:
    return BadInput(message, errors=[{"path": path, "message": message}])


def _build_audit_values(window: DelegateUpgradeWindow) -> dict[str, Any]:
    return {
        "delegate": window.delegate.name,
        "days": _list_day_names(window.days),
        "begins": window.begins,
        "duration_minutes": window.duration_minutes,
        "time_zone": window.time_zone,
        "allowed_by": str(window.allowed_by) if window.allowed_by else None,
    }


def _list_day_names(days: Sequence[int]) -> list[str]:
    return [WEEKDAYS[day] for day in days]
