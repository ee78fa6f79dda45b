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


def _build_window(begins: str, ends: str, **fields: object) -> FreezeWindow:
    return FreezeWindow(begins=begins, ends=ends, **{"time_zone": ZURICH, **fields})


def _parse_utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment_text", "is_frozen"),
    [
        ("2026-12-24T16:59", False),
        ("2026-12-24T17:00", True),
        ("2026-12-26T22:59", True),
        ("2026-12-26T23:00", False),
    ],
)
def test_it_begins_and_ends_by_the_clock_on_its_wall(moment_text: str, is_frozen: bool) -> None:
    window = _build_window("2026-12-24T18:00", "2026-12-27T00:00")
    assert (get_period_at(window, _parse_utc(moment_text)) is not None) is is_frozen


def test_a_weekly_one_keeps_its_local_hour_in_summer_and_in_winter() -> None:
    fridays = _build_window("2026-01-02T16:00", "2026-01-05T06:00", weekly=True)
    assert get_period_at(fridays, _parse_utc("2026-01-02T14:59")) is None
    winter, summer = (
        get_period_at(fridays, _parse_utc(text)) for text in ("2026-03-27T15:00", "2026-04-03T14:00")
    )
    assert winter is not None
    assert summer is not None
    assert (winter.begins, winter.ends) == (_parse_utc("2026-03-27T15:00"), _parse_utc("2026-03-30T04:00"))
    assert (summer.begins, summer.ends) == (_parse_utc("2026-04-03T14:00"), _parse_utc("2026-04-06T04:00"))
    next_period = get_next_period(fridays, summer.begins)
    assert next_period is not None
    assert next_period.begins == _parse_utc("2026-04-10T14:00")


def test_an_hour_that_comes_twice_is_frozen_both_times_and_one_that_is_missing_does_no_harm() -> None:
    autumn = get_period_at(
        _build_window("2026-10-25T02:30", "2026-10-25T02:45"), _parse_utc("2026-10-25T01:35")
    )
    assert autumn is not None
    assert autumn.ends - autumn.begins == timedelta(minutes=75)
    spring = get_period_at(
        _build_window("2026-03-29T02:30", "2026-03-29T04:00"), _parse_utc("2026-03-29T01:45")
    )
    assert spring is not None
    assert (spring.begins, spring.ends) == (_parse_utc("2026-03-29T01:30"), _parse_utc("2026-03-29T02:00"))


@pytest.mark.parametrize(
    ("begins", "ends", "weekly", "moment"),
    [
        ("2026-03-28T18:00", "2026-03-29T02:30", False, "2026-03-29T01:29"),
        ("2026-03-21T18:00", "2026-03-22T02:30", True, "2026-03-29T01:29"),
        ("2026-03-29T02:05", "2026-03-29T02:55", False, "2026-03-29T01:10"),
    ],
)
def test_an_end_in_the_missing_hour_is_not_before_it(
    begins: str, ends: str, weekly: bool, moment: str
) -> None:
    window = _build_window(begins, ends, weekly=weekly)
    period = get_period_at(window, _parse_utc(moment))
    assert period is not None
    assert period.ends in (_parse_utc("2026-03-29T01:30"), _parse_utc("2026-03-29T01:55"))


def test_it_holds_back_what_it_concerns_and_nothing_else() -> None:
    window = _build_window(
        "2026-01-01T00:00", "2026-02-01T00:00", services=["shop"], environment_kind="Production"
    )
    moment = _parse_utc("2026-01-10T00:00")
    shop = FreezeTarget("shop", "live", "Production")
    assert list_blocking_windows([window], [shop], moment)
    assert not list_blocking_windows([window], [FreezeTarget("shop", "dev", "PreProduction")], moment)
    assert not list_blocking_windows([window], [FreezeTarget("blog", "live", "Production")], moment)
    window.enabled = False
    assert not list_blocking_windows([window], [shop], moment)


def test_it_is_spoken_of_by_days_of_the_week_where_it_comes_again() -> None:
    weekend = _build_window("2026-01-02T16:00", "2026-01-05T06:00", weekly=True)
    assert describe_times(weekend) == "Friday 16:00 to Monday 06:00"
    assert (
        describe_times(_build_window("2026-01-02T16:00", "2026-01-05T06:00"))
        == "2026-01-02 16:00 to 2026-01-05 06:00"
    )
