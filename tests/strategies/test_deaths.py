"""Workers die wherever they can, in every strategy: the end is the same, and nothing is written twice."""

import os
from collections import Counter
from collections.abc import Callable

import pytest
from django.db import connection

from deployments.engine.failpoints import FAILPOINTS, set_hook
from deployments.log import all_lines
from deployments.models import Call, Execution
from tests.deployments.dying import KILLED, in_a_fork
from tests.strategies.playing import Play, broken

pytestmark = pytest.mark.django_db(transaction=True)


def _at_every_write(failpoint: str) -> Callable[[str], bool]:
    """Each write's own first pass of this place."""
    done: set[int] = set()

    def place(name: str) -> bool:
        if name != failpoint:
            return False
        rows = Call.objects.filter(is_write=True, state="SENT").exclude(pk__in=done)
        fresh = list(rows.values_list("pk", flat=True))
        done.update(fresh)
        return bool(fresh)

    return place


def _now_and_then(names: tuple[str, ...], every: int) -> Callable[[str], bool]:
    """Every so many passes of each of these places."""
    passed: Counter[str] = Counter()

    def place(name: str) -> bool:
        passed[name] += 1
        return name in names and passed[name] % every == 2

    return place


def _as_if_nobody_died(play: Play, execution: Execution, calm: Execution) -> None:
    assert play.deaths
    assert play.ends(execution) == play.ends(calm), (play.deaths, play.log(execution))
    assert play.effects(execution) == play.effects(calm), play.deaths
    numbers = [line["number"] for line in all_lines(execution.pk)]
    assert numbers == list(range(1, len(numbers) + 1)), play.deaths


def test_a_worker_that_dies_over_each_write_writes_nothing_twice(play: Play) -> None:
    calm = play.run(play.second)
    execution = play.dying_at(_at_every_write("call.sent"), play.third)
    _as_if_nobody_died(play, execution, calm)


def test_a_worker_that_dies_over_each_write_of_a_rollback_still_puts_all_back(play: Play) -> None:
    calm = play.run("crash")
    execution = play.dying_at(_at_every_write("call.sent"), "crash")
    _as_if_nobody_died(play, execution, calm)
    assert play.changed() == []
    assert broken(play.checklist(execution)) == []


def test_a_worker_that_dies_at_any_other_place_changes_nothing_either(play: Play) -> None:
    calm = play.run("crash")
    execution = play.dying_at(_now_and_then(FAILPOINTS, 25), "crash")
    assert set(play.deaths) == set(FAILPOINTS)
    _as_if_nobody_died(play, execution, calm)
    assert play.changed() == []
    assert broken(play.checklist(execution)) == []


def test_a_process_that_is_killed_over_its_last_write_is_survived(play: Play) -> None:
    calm = play.run(play.second)
    execution = play.start(play.third)
    sent = len(play.writes(calm))

    def doomed() -> None:
        left = iter(range(sent - 1))

        def die(name: str) -> None:
            is_write = name == "call.sent" and Call.objects.filter(is_write=True, state="SENT").exists()
            if is_write and next(left, None) is None:
                os._exit(KILLED)

        set_hook(die)
        play.until_over(execution)

    assert in_a_fork(doomed) == KILLED
    connection.close()
    play.wait_for_the_lease()
    play.deaths.append("call.sent")
    _as_if_nobody_died(play, play.until_over(execution), calm)
