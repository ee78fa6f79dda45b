"""Workers and agents die in turn at every place that has a name: every branch ends as if nobody had died."""

import os
from collections import Counter
from itertools import cycle

import pytest

from deployments.journal.runtime import FAILPOINTS
from tests.survival.conftest import AGENT_DIES, Fate, Story
from tests.survival.full_pipeline import Came

pytestmark = pytest.mark.django_db(transaction=True)

GAP = 3
APART = int(os.environ.get("SLIPWAY_DEATHS_APART", "1"))
WELL = ("IGNORE_FAILED", "COMPLETED")
BACK = ("FAILED", "ROLLED_BACK")
# A run of the tag before would reuse its revision, so good runs alternate.
GOOD_TAGS = ("1.28", "1.27")
ENDS = {**dict.fromkeys(GOOD_TAGS, WELL), "crash": BACK}
TAGS = (GOOD_TAGS, ("crash", "crash"))
WRITTEN = {
    **dict.fromkeys(GOOD_TAGS, {"RegisterTaskDefinition": 1, "UpdateService": 2}),
    "crash": {"RegisterTaskDefinition": 1, "UpdateService": 2, "DeregisterTaskDefinition": 1},
}
CALM = {
    "deploy": "SUCCESS",
    "build": "SUCCESS",
    "told": "SUCCESS",
    "pause": "SUCCESS",
    "ask": "SUCCESS",
    "seen": "SUCCESS",
    "flaky": "IGNORE_FAILED",
    "never": "SKIPPED",
    "watch": "SUCCESS",
    "scale": "SUCCESS",
    "rescue": "SKIPPED",
    "after": "SUCCESS",
    "rest": "SUCCESS",
}


def _run(story: Story, tag: str, fate: Fate) -> Came:
    """A run with these deaths; it ends as its tag decides, and writes to AWS what such a run writes."""
    mark = story.drive.mark()
    came = story.run(tag, fate)
    log = story.drive.log(came.execution)[-8:]
    assert came.broken() == [], (fate, log)
    assert (came.execution.status, came.execution.outcome) == ENDS[tag], (fate, log)
    assert Counter(story.drive.effects(mark)) == WRITTEN[tag], fate
    return came


def _is_as_calm(came: Came, calm: Came) -> bool:
    """Return whether the run went as without deaths.

    The answer of the request that changes something may be lost, which nothing can find out about.
    """
    told_step = came.steps["told"]
    if told_step.status == "IGNORE_FAILED" and (told_step.failure or {})["code"] == "NO_ANSWER":
        return came.statuses == calm.statuses | {"told": "IGNORE_FAILED"}
    return came.statuses == calm.statuses and came.story() == calm.story()


def test_everything_ends_as_if_nobody_had_died(story: Story) -> None:
    calm = _run(story, "1.28", Fate())
    assert calm.statuses == CALM
    fate = Fate(gap=GAP, most=len(FAILPOINTS))
    came = _run(story, "1.27", fate)
    assert fate.deaths == list(FAILPOINTS)
    assert _is_as_calm(came, calm), (came.statuses, calm.story() - came.story(), came.story() - calm.story())


def test_a_rollback_of_everything_is_none_the_worse_for_it(story: Story) -> None:
    before = story.drive.service()["taskDefinition"]
    fate = Fate(first=3, gap=GAP, most=len(FAILPOINTS), agents=len(AGENT_DIES))
    came = _run(story, "crash", fate)
    assert set(fate.deaths) == set(FAILPOINTS)
    assert came.steps["build"].status in ("SUCCESS", "ABORTED")
    assert {came.statuses[name] for name in ("watch", "scale", "after", "rest")} == {"SKIPPED"}
    assert story.drive.service()["taskDefinition"] == before


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("tags", TAGS)
def test_one_death_at_any_place_changes_nothing(story: Story, tags: tuple[str, str]) -> None:
    undisturbed = Fate()
    calm = _run(story, tags[0], undisturbed)
    for at, tag in zip(range(0, sum(undisturbed.passed.values()), APART), cycle(tags[::-1]), strict=False):
        fate = Fate(gap=at, most=1, anywhere=True)
        came = _run(story, tag, fate)
        assert tag == "crash" or _is_as_calm(came, calm), (fate, came.statuses)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("tags", TAGS)
def test_many_deaths_of_workers_and_agents_change_nothing(story: Story, tags: tuple[str, str]) -> None:
    next_tags = cycle(tags)
    for first in range(len(FAILPOINTS)):
        for gap in (1, 3, 8, 21):
            _run(story, next(next_tags), Fate(first=first, gap=gap, most=60, agents=first % 4))
