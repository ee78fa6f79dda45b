"""A worker killed at any named place: the end is the same, nothing happens twice, no line is lost."""

import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from deployments.execution.operations import run_pipeline
from deployments.journal import rate_limits, runtime
from deployments.journal.runtime import FAILPOINTS, set_hook
from deployments.log import iterate_lines
from deployments.models import Execution
from pipelines.models import Pipeline
from rbac.models import User
from tests.deployments.engine.simulator import branches
from tests.deployments.engine.simulator.fake_ecs import FakeEcs
from tests.deployments.engine.simulator.invariants import list_violations
from tests.deployments.engine.simulator.schedule import Death, Odds, Schedule
from tests.deployments.engine.test_simulator import FACTS, _deploy_before
from tests.fixtures.demo import fill_in_demo
from tests.fixtures.engine_driver import Drive
from tests.fixtures.worker_crashes import KILLED, Countdown, run_in_fork

pytestmark = pytest.mark.django_db(transaction=True)

SHORT_ROLLOUT = timedelta(seconds=4)
PARTS = 4
# Uneven, or deaths before a commit alone are tried, and none after.
BRANCH_CRASH_INTERVAL = 23 * int(os.environ.get("SLIPWAY_DEATHS_APART", "1"))
CRASH_INTERVAL = int(os.environ.get("SLIPWAY_DEATHS_APART", "1"))


def _die_in_process() -> None:
    raise Death


class Quick(Schedule):
    """A schedule without any misfortune but one death, in steps of two seconds."""

    countdown: Countdown

    def _failpoint(self, name: str) -> None:
        self.countdown(name)


@pytest.fixture
def killed_at(
    transactional_db: None, account: object, monkeypatch: pytest.MonkeyPatch
) -> Callable[[int, str], tuple[Quick, Execution, str]]:
    """Run a deployment with the given tag whose worker dies at the n-th failpoint that it passes."""
    branches.register_stamps(monkeypatch)
    monkeypatch.setattr("tests.deployments.engine.simulator.fake_ecs.ROLLOUT", SHORT_ROLLOUT)
    monkeypatch.setattr("tests.deployments.engine.simulator.fake_ecs.FAILS_EVERY", SHORT_ROLLOUT / 3)
    fill_in_demo(FACTS)
    deployer = User.objects.get(username="deployer")
    pipeline = Pipeline.objects.get(identifier="rolling_demo")
    numbers = iter(range(1, 10_000))

    def run(stop_index: int, tag: str, yaml: str = "") -> tuple[Quick, Execution, str]:
        rate_limits.reset_buckets()
        rng = random.Random(7)
        ecs = FakeEcs(now=lambda: schedule.now(), rng=rng, account=f"{next(numbers):012d}")
        schedule = Quick(rng=rng, odds=Odds(), ecs=ecs)
        schedule.countdown = Countdown(stop_index, _die_in_process)
        before = _deploy_before(ecs)
        execution = run_pipeline(actor=deployer, pipeline=pipeline, artifact_tag=tag, yaml=yaml)
        schedule.run(execution)
        execution.refresh_from_db()
        return schedule, execution, before

    return run


def _list_story_lines(execution: Execution) -> list[str]:
    """Return the log without timing-dependent parts: ids, AWS events and counts in progress."""
    skipped_prefixes = ("# AWS Event", "Waiting for pending tasks")
    lines = [
        line["text"] for line in iterate_lines(execution.pk) if not line["text"].startswith(skipped_prefixes)
    ]
    return [re.sub(r"\d{12,}|\b[0-9a-f]{32}\b|\d+(?= tasks of this)", "N", text) for text in lines]


def _list_operations(schedule: Schedule) -> list[str]:
    return [effect.operation for effect in schedule.ecs.effects if effect.by == "slipway"]


@pytest.mark.parametrize("tag", ["1.27", "crash"])
@pytest.mark.parametrize("part", range(PARTS))
def test_a_death_at_any_failpoint_changes_neither_end_nor_log(
    killed_at: Callable[[int, str], tuple[Quick, Execution, str]], tag: str, part: int
) -> None:
    baseline, baseline_execution, _ = killed_at(0, tag)
    expected_story, expected_work = _list_story_lines(baseline_execution), _list_operations(baseline)
    for stop_index in range(part + 1, len(baseline.countdown.passed) + 1, PARTS * CRASH_INTERVAL):
        context = f"killed at {baseline.countdown.passed[stop_index - 1]}, the {stop_index}th"
        schedule, execution, before = killed_at(stop_index, tag)
        assert not list_violations(schedule, execution, before), context
        assert (execution.status, execution.outcome) == (
            baseline_execution.status,
            baseline_execution.outcome,
        ), context
        assert _list_operations(schedule) == expected_work, context
        assert Counter(_list_story_lines(execution)) == Counter(expected_story), context


@pytest.mark.parametrize("tag", ["1.27", "crash"])
def test_nor_does_one_while_steps_run_side_by_side(
    killed_at: Callable[[int, str, str], tuple[Quick, Execution, str]], tag: str
) -> None:
    yaml = branches.build_two_branches()
    baseline, baseline_execution, _ = killed_at(0, tag, yaml)
    for stop_index in range(3, len(baseline.countdown.passed) + 1, BRANCH_CRASH_INTERVAL):
        context = f"killed at {baseline.countdown.passed[stop_index - 1]}, the {stop_index}th"
        schedule, execution, before = killed_at(stop_index, tag, yaml)
        assert not list_violations(schedule, execution, before), context
        assert not branches.list_violations(execution, schedule.ecs.tags), context
        assert (execution.status, execution.outcome) == (
            baseline_execution.status,
            baseline_execution.outcome,
        ), context
        assert Counter(_list_operations(schedule)) == Counter(_list_operations(baseline)), context


@pytest.fixture(autouse=True)
def _remove_hook() -> Iterator[None]:
    yield
    set_hook(None)


def _list_failpoints(drive: Drive) -> list[str]:
    """Return the failpoints of one deployment without a crash, in order."""
    crash_countdown = Countdown(0, _die_in_process)
    set_hook(crash_countdown)
    drive.run("crash")
    set_hook(None)
    return crash_countdown.passed


def test_a_forked_worker_killed_at_each_kind_of_place_leaves_no_trace(
    drive: Drive,
) -> None:
    """The real thing: a process that ends without a word, in front of the real sandbox."""
    drive.run("1.27")
    passed_names = _list_failpoints(drive)
    assert set(passed_names) == set(FAILPOINTS), "every failpoint is reached"
    before = drive.service()["taskDefinition"]
    for name in FAILPOINTS:
        mark = drive.mark()
        execution = drive.start("crash")
        stop_index = passed_names.index(name, passed_names.index("call.sent")) + 1

        def crash_worker(stop_index: int = stop_index, execution: Execution = execution) -> None:
            runtime.set_hook(Countdown(stop_index, lambda: os._exit(KILLED)))
            drive.until_over(execution)

        assert run_in_fork(crash_worker) == KILLED, name
        drive.clock.move(600)
        drive.until_over(execution)
        assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK"), name
        assert drive.service()["taskDefinition"] == before, name
        writes = Counter(drive.effects(after=mark))
        assert writes["RegisterTaskDefinition"] == 1, name
        assert writes["UpdateService"] == 2, name
        numbers = [line["number"] for line in iterate_lines(execution.pk)]
        assert numbers == list(range(1, len(numbers) + 1)), name
