"""A person stops a deployment, in any of its steps, with a rollback or without."""

import pytest

from tests.strategies.playing import Play, broken

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_abort_with_rollback_in_any_step_leaves_the_account_as_it_was(play: Play) -> None:
    for step in play.strategy.steps:
        execution = play.start("1.28")
        play.until_step(execution, step)
        play.abort(execution, roll_back=True)
        play.until_over(execution)
        assert play.ends(execution) == ("ABORTED", "ROLLED_BACK"), (step, play.log(execution))
        assert play.changed() == [], (step, play.log(execution))
        assert play.checklist(execution), step
        assert broken(play.checklist(execution)) == [], step


def test_an_abort_alone_touches_nothing_and_can_be_rolled_back_later(play: Play) -> None:
    for step in play.strategy.steps:
        execution = play.start("1.28")
        play.until_step(execution, step)
        mark = play.drive.mark()
        play.abort(execution, roll_back=False)
        play.until_over(execution)
        assert play.ends(execution) == ("ABORTED", "ABORTED"), step
        # What always runs, however a step ends, gives auto scaling back.
        assert set(play.drive.effects(mark)) <= {"RegisterScalableTarget"}, step
        play.roll_back(execution)
        assert play.changed() == [], (step, play.log(execution))
        assert broken(play.checklist(execution)) == [], step
