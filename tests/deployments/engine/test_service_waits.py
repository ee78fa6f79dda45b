"""When waiting executions have their turns."""

from datetime import UTC, datetime, timedelta

import pytest

from deployments.engine.service_waits import get_next_check

NOW = datetime(2026, 3, 1, 12, 0, 0, 300_000, tzinfo=UTC)


def list_check_times(waited_seconds: float, group: str = "g", seconds: float = 60) -> list[datetime]:
    """Return the check times of the next seconds for an execution that has waited `waited_seconds`."""
    waiting_since, check_time, check_times = NOW - timedelta(seconds=waited_seconds), NOW, []
    while (check_time := get_next_check(check_time, waiting_since, group)) < NOW + timedelta(seconds=seconds):
        check_times.append(check_time)
    return check_times


@pytest.mark.parametrize(("waited_seconds", "interval"), [(0, 2), (300, 5), (900, 10)])
def test_turns_are_close_at_first_and_wider_later(waited_seconds: float, interval: float) -> None:
    first, second, *_ = list_check_times(waited_seconds)
    assert (second - first).total_seconds() == interval


def test_a_rollout_of_a_minute_takes_at_most_seventeen_looks_with_the_one_that_sees_its_end() -> None:
    counts = [len(list_check_times(0, group=f"g{number}", seconds=63)) + 1 for number in range(50)]
    assert max(counts) <= 17


def test_nobody_looks_within_two_seconds_of_the_write() -> None:
    first_delays = [list_check_times(0, group=f"g{number}")[0] - NOW for number in range(50)]
    assert timedelta(seconds=2) < min(first_delays) <= max(first_delays) <= timedelta(seconds=4)


def test_who_waits_in_one_group_shares_its_turns() -> None:
    assert set(list_check_times(900)) < set(list_check_times(300))
    assert list_check_times(20.0) == list_check_times(300)


def test_groups_do_not_all_have_theirs_at_once() -> None:
    assert len({list_check_times(900, group=f"g{number}")[0] for number in range(50)}) > 5
