"""A time axis keeps long waits from squeezing everything else, and says where it is cut."""

from datetime import UTC, datetime, timedelta

from deployments.execution.timeline_axis import build_axis

START = datetime(2026, 11, 21, 10, 0, 3, tzinfo=UTC)


def at(**length: float) -> datetime:
    return START + timedelta(**length)


def test_a_short_execution_is_drawn_to_scale():
    axis = build_axis([START, at(seconds=30), at(minutes=4), at(minutes=8)])
    assert not axis.cuts
    assert [axis.get_position(at(minutes=minutes)) for minutes in (0, 2, 4, 8)] == [0, 25, 50, 100]


def test_a_wait_of_hours_is_cut_to_a_sixth_of_the_rest():
    axis = build_axis([START, at(minutes=3), at(hours=9), at(hours=9, minutes=3)])
    (cut,) = axis.cuts
    assert (cut.start, cut.end) == (at(minutes=3), at(hours=9))
    # 3 minutes, 1 of 6 minutes for the cut, 3 minutes.
    assert axis.get_position(at(minutes=3)) == round(100 * 3 / 7, 3)
    assert axis.get_position(at(hours=9)) == round(100 * 4 / 7, 3)
    assert axis.get_position(at(hours=9, minutes=3)) == 100
    assert cut.start < at(hours=4) < cut.end
    assert cut.x < axis.get_position(at(hours=4)) < cut.x + cut.width


def test_many_waits_take_at_most_half_of_the_rest_together():
    moments = [moment for hour in range(20) for moment in (at(hours=hour), at(hours=hour, minutes=1))]
    axis = build_axis(moments)
    assert len(axis.cuts) == 19
    assert sum(cut.width for cut in axis.cuts) < 34


def test_a_stretch_of_minutes_in_a_long_execution_is_not_cut():
    moments = [at(minutes=minute) for minute in range(60) if not 20 < minute < 30]
    assert not build_axis(moments).cuts


def test_one_moment_and_one_long_wait_have_an_axis_too():
    assert build_axis([START]).get_position(START) == 0
    axis = build_axis([START, at(hours=5)])
    assert [cut.width for cut in axis.cuts] == [100]
    assert axis.list_ticks() == []


def test_labels_stand_at_round_times_outside_the_cuts_and_do_not_overlap():
    axis = build_axis([START, at(minutes=3), at(hours=20), at(hours=20, minutes=3)])
    ticks = axis.list_ticks()
    assert ticks
    assert all(tick.at.second == 0 for tick in ticks)
    assert all(later.x - earlier.x >= 11 for earlier, later in zip(ticks, ticks[1:], strict=False))
    (cut,) = axis.cuts
    assert not [tick for tick in ticks if cut.start < tick.at < cut.end]
    assert [tick.has_date for tick in ticks] == [tick.at.day != START.day for tick in ticks]
    assert any(tick.has_date for tick in ticks)
