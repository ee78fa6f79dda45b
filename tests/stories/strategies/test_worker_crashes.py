"""Workers die wherever they can, in every strategy: the end is the same, and nothing is written twice."""

import os
from collections import Counter
from collections.abc import Callable

import pytest
from django.db import connection

from deployments.journal.runtime import FAILPOINTS, set_hook
from deployments.log import iterate_lines
from deployments.models import AwsCall, Execution
from tests.fixtures.worker_crashes import KILLED, run_in_fork
from tests.stories.strategies.scenario import Play, list_broken_lines

pytestmark = pytest.mark.django_db(transaction=True)


def _at_every_write(failpoint: str) -> Callable[[str], bool]:
    """Each write's own first pass of this place."""
    handled_ids: set[int] = set()

    def place(name: str) -> bool:
        if name != failpoint:
            return False
        rows = AwsCall.objects.filter(is_write=True, state="SENT").exclude(pk__in=handled_ids)
        fresh = list(rows.values_list("pk", flat=True))
        handled_ids.update(fresh)
        return bool(fresh)

    return place


def _now_and_then(names: tuple[str, ...], every: int) -> Callable[[str], bool]:
    """The first pass of each of these places, and every so many after it."""
    passes: Counter[str] = Counter()

    def place(name: str) -> bool:
        passes[name] += 1
        return name in names and passes[name] % every == 1

    return place


def _as_if_nobody_died(play: Play, execution: Execution, calm: Execution) -> None:
    assert play.deaths
    assert play.get_result(execution) == play.get_result(calm), (play.deaths, play.log(execution))
    assert play.effects(execution) == play.effects(calm), play.deaths
    numbers = [line["number"] for line in iterate_lines(execution.pk)]
    assert numbers == list(range(1, len(numbers) + 1)), play.deaths


def test_a_worker_that_dies_over_a_write_writes_nothing_twice(play: Play) -> None:
    calm = play.run(play.second)
    execution = play.dying_at(_at_every_write("call.sent"), play.third)
    _as_if_nobody_died(play, execution, calm)
    _survives_a_kill(play, calm)


def test_a_worker_that_dies_before_or_in_a_rollback_still_puts_all_back(play: Play) -> None:
    calm = play.run("crash")
    for place in (_at_every_write("call.sent"), _now_and_then(FAILPOINTS, 17)):
        execution = play.dying_at(place, "crash")
        _as_if_nobody_died(play, execution, calm)
        assert play.list_changes() == []
        assert list_broken_lines(play.checklist(execution)) == []
    assert set(play.deaths) == set(FAILPOINTS)


def _survives_a_kill(play: Play, calm: Execution) -> None:
    """The real thing: a process that ends without a word over its last write."""
    execution = play.start(play.second)
    write_count = len(play.writes(calm))

    def doomed() -> None:
        countdown = iter(range(write_count - 1))

        def die(name: str) -> None:
            is_write = name == "call.sent" and AwsCall.objects.filter(is_write=True, state="SENT").exists()
            if is_write and next(countdown, None) is None:
                os._exit(KILLED)

        set_hook(die)
        play.until_over(execution)

    assert run_in_fork(doomed) == KILLED
    connection.close()
    play.wait_for_the_lease()
    play.deaths.append("call.sent")
    _as_if_nobody_died(play, play.until_over(execution), calm)
