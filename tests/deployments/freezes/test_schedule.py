"""When a window is in force: local times over changes of the clock, and every week."""

from datetime import UTC, datetime, timedelta

import pytest

from deployments.freezes.schedule import (
    FreezeTarget,
    describe_times,
    get_next_period,
    get_period_at,
    list_blocking_windows,
)
from deployments.models import FreezeWindow

ZURICH = "Europe/Zurich"


def _window(begins: str, ends: str, **more: object) -> FreezeWindow:
    return FreezeWindow(begins=begins, ends=ends, **{"time_zone": ZURICH, **more})


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "is_in"),
    [
        ("2026-12-24T16:59", False),
        ("2026-12-24T17:00", True),
        ("2026-12-26T22:59", True),
        ("2026-12-26T23:00", False),
    ],
)
def test_it_begins_and_ends_by_the_clock_on_its_wall(moment: str, is_in: bool) -> None:
    window = _window("2026-12-24T18:00", "2026-12-27T00:00")
    assert (get_period_at(window, _utc(moment)) is not None) is is_in


def test_a_weekly_one_keeps_its_local_hour_in_summer_and_in_winter() -> None:
    fridays = _window("2026-01-02T16:00", "2026-01-05T06:00", weekly=True)
    assert get_period_at(fridays, _utc("2026-01-02T14:59")) is None
    winter, summer = (get_period_at(fridays, _utc(at)) for at in ("2026-03-27T15:00", "2026-04-03T14:00"))
    assert winter is not None
    assert summer is not None
    assert (winter.begins, winter.ends) == (_utc("2026-03-27T15:00"), _utc("2026-03-30T04:00"))
    assert (summer.begins, summer.ends) == (_utc("2026-04-03T14:00"), _utc("2026-04-06T04:00"))
    following = get_next_period(fridays, summer.begins)
    assert following is not None
    assert following.begins == _utc("2026-04-10T14:00")


def test_an_hour_that_comes_twice_is_frozen_both_times_and_one_that_is_missing_does_no_harm() -> None:
    autumn = get_period_at(_window("2026-10-25T02:30", "2026-10-25T02:45"), _utc("2026-10-25T01:35"))
    assert autumn is not None
    assert autumn.ends - autumn.begins == timedelta(minutes=75)
    spring = get_period_at(_window("2026-03-29T02:30", "2026-03-29T04:00"), _utc("2026-03-29T01:45"))
    assert spring is not None
    assert (spring.begins, spring.ends) == (_utc("2026-03-29T01:30"), _utc("2026-03-29T02:00"))


def test_it_holds_back_what_it_concerns_and_nothing_else() -> None:
    window = _window("2026-01-01T00:00", "2026-02-01T00:00", services=["shop"], environment_kind="Production")
    inside = _utc("2026-01-10T00:00")
    shop = FreezeTarget("shop", "live", "Production")
    assert list_blocking_windows([window], [shop], inside)
    assert not list_blocking_windows([window], [FreezeTarget("shop", "dev", "PreProduction")], inside)
    assert not list_blocking_windows([window], [FreezeTarget("blog", "live", "Production")], inside)
    window.enabled = False
    assert not list_blocking_windows([window], [shop], inside)


def test_it_is_spoken_of_by_days_of_the_week_where_it_comes_again() -> None:
    weekend = _window("2026-01-02T16:00", "2026-01-05T06:00", weekly=True)
    assert describe_times(weekend) == "Friday 16:00 to Monday 06:00"
    assert (
        describe_times(_window("2026-01-02T16:00", "2026-01-05T06:00"))
        == "2026-01-02 16:00 to 2026-01-05 06:00"
    )
