"""A person stops a deployment, in any of its steps, with a rollback or without."""

import pytest

from deployments.models import Execution
from tests.stories.strategies.scenario import Play, list_broken_lines

pytestmark = pytest.mark.django_db(transaction=True)

# What runs however a step ends: auto scaling is given back, of a run task step nothing is left.
ALWAYS = {"RegisterScalableTarget", "StopTask", "DeregisterTaskDefinition"}


def test_an_abort_in_any_step_is_undone_at_once_or_later(play: Play) -> None:
    for step in play.strategy.steps:
        _check_rollback_abort(play, step)
        _check_plain_abort(play, step)


def _check_rollback_abort(play: Play, step: str) -> None:
    execution = _aborted(play, step, roll_back=True)
    outcome = "ROLLED_BACK" if play.strategy.rolls_back else "ABORTED"
    assert play.get_result(execution) == ("ABORTED", outcome), (step, play.log(execution))
    assert play.list_changes() == [], (step, play.log(execution))
    assert bool(play.checklist(execution)) == play.strategy.rolls_back, step
    assert list_broken_lines(play.checklist(execution)) == [], step


def _check_plain_abort(play: Play, step: str) -> None:
    """Check that an abort changes nothing and can be rolled back later."""
    execution = _aborted(play, step, roll_back=False)
    assert play.get_result(execution) == ("ABORTED", "ABORTED"), step
    if play.strategy.rolls_back:
        play.roll_back(execution)
    assert play.list_changes() == [], (step, play.log(execution))
    assert list_broken_lines(play.checklist(execution)) == [], step


def _aborted(play: Play, step: str, *, roll_back: bool) -> Execution:
    """An execution that was aborted in this step, right after its first write."""
    execution = play.start(play.second)
    play.until_step(execution, step)
    mark = play.drive.mark()
    play.abort(execution, roll_back=roll_back)
    play.until_over(execution)
    assert roll_back or set(play.drive.effects(mark)) <= ALWAYS, step
    return execution
