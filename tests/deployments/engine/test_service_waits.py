"""When waiting executions have their turns."""

from datetime import UTC, datetime, timedelta

import pytest

from deployments.engine.service_waits import get_next_check

NOW = datetime(2026, 3, 1, 12, 0, 0, 300_000, tzinfo=UTC)


def turns(waited: float, group: str = "g", seconds: float = 60) -> list[datetime]:
    """The turns of the next seconds of what has waited for so long now."""
    since, moment, found = NOW - timedelta(seconds=waited), NOW, []
    while (moment := get_next_check(moment, since, group)) < NOW + timedelta(seconds=seconds):
        found.append(moment)
    return found


@pytest.mark.parametrize(("waited", "apart"), [(0, 2), (300, 5), (900, 10)])
def test_turns_are_close_at_first_and_wider_later(waited: float, apart: float) -> None:
    first, second, *_ = turns(waited)
    assert (second - first).total_seconds() == apart


def test_a_rollout_of_a_minute_takes_at_most_seventeen_looks_with_the_one_that_sees_its_end() -> None:
    counts = [len(turns(0, group=f"g{number}", seconds=63)) + 1 for number in range(50)]
    assert max(counts) <= 17


def test_nobody_looks_within_two_seconds_of_the_write() -> None:
    firsts = [turns(0, group=f"g{number}")[0] - NOW for number in range(50)]
    assert timedelta(seconds=2) < min(firsts) <= max(firsts) <= timedelta(seconds=4)


def test_who_waits_in_one_group_shares_its_turns() -> None:
    assert set(turns(900)) < set(turns(300))
    assert turns(20.0) == turns(300)


def test_groups_do_not_all_have_theirs_at_once() -> None:
    assert len({turns(900, group=f"g{number}")[0] for number in range(50)}) > 5
