"""A person stops a deployment, in any of its steps, with a rollback or without."""

import pytest

from tests.strategies.playing import Play, broken

pytestmark = pytest.mark.django_db(transaction=True)

# What runs however a step ends: auto scaling is given back, of a run task step nothing is left.
ALWAYS = {"RegisterScalableTarget", "StopTask", "DeregisterTaskDefinition"}


def test_an_abort_with_rollback_in_any_step_leaves_the_account_as_it_was(play: Play) -> None:
    for step in play.strategy.steps:
        execution = play.start(play.second)
        play.until_step(execution, step)
        play.abort(execution, roll_back=True)
        play.until_over(execution)
        assert play.ends(execution) == ("ABORTED", play.undone.replace("FAILED", "ABORTED")), (
            step,
            play.log(execution),
        )
        assert play.changed() == [], (step, play.log(execution))
        assert bool(play.checklist(execution)) == play.strategy.rolls_back, step
        assert broken(play.checklist(execution)) == [], step


def test_an_abort_alone_touches_nothing_and_can_be_rolled_back_later(play: Play) -> None:
    for step in play.strategy.steps:
        execution = play.start(play.second)
        play.until_step(execution, step)
        mark = play.drive.mark()
        play.abort(execution, roll_back=False)
        play.until_over(execution)
        assert play.ends(execution) == ("ABORTED", "ABORTED"), step
        assert set(play.drive.effects(mark)) <= ALWAYS, step
        if play.strategy.rolls_back:
            play.roll_back(execution)
        assert play.changed() == [], (step, play.log(execution))
        assert broken(play.checklist(execution)) == [], step
