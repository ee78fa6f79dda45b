"""Hundreds of seeded schedules of the real engine on a fake ECS: deaths, two workers, lost answers."""

import dataclasses
import os
import random
from collections.abc import Callable

import pytest
from django.test import override_settings
from pytest_django import Settings

from deployments.execution.operations import run_pipeline
from deployments.journal import rate_limits
from deployments.models import Execution
from ops.demo.pipelines import SandboxFacts
from pipelines.models import Pipeline
from rbac.models import User
from tests.deployments.engine.simulator import branches
from tests.deployments.engine.simulator.fake_ecs import FakeEcs
from tests.deployments.engine.simulator.invariants import list_violations
from tests.deployments.engine.simulator.schedule import Odds, Schedule
from tests.fixtures.demo import fill_in_demo

pytestmark = pytest.mark.django_db(transaction=True)

Simulate = Callable[..., list[str]]
SCHEDULES_EACH = int(os.environ.get("SLIPWAY_SIMULATOR_SCHEDULES", "10"))
FACTS = SandboxFacts(
    "us-east-1", "demo", ("subnet-11111111",), "sg-11111111", "arn:aws:iam::123456789012:role/r"
)


@pytest.fixture
def simulate(
    transactional_db: None, account: object, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Simulate:
    """Run one schedule by its seed; gives back the promises it broke. Nobody watches."""
    branches.register_stamps(monkeypatch)
    settings.CHANNEL_LAYERS = {}
    fill_in_demo(FACTS)
    deployer = User.objects.get(username="deployer")
    pipeline = Pipeline.objects.get(identifier="rolling_demo")

    def run_seed(seed: int, *, has_branches: bool = False) -> list[str]:
        rate_limits.reset_buckets()
        rng = random.Random(seed)
        odds = Odds.from_random(rng)
        ecs = FakeEcs(now=lambda: schedule.now(), rng=rng, account=f"{seed:012d}", breaker=odds.breaker)
        schedule = Schedule(rng=rng, odds=odds, ecs=ecs)
        before = None if odds.first_deployment or odds.unchanged else _deploy_before(ecs)
        tag = "crash" if odds.bad_image and not odds.unchanged else "1.27"
        yaml = branches.build_random_yaml(rng) if has_branches else ""
        if odds.unchanged:
            schedule.odds = Odds()
            schedule.run(run_pipeline(actor=deployer, pipeline=pipeline, artifact_tag=tag, yaml=yaml))
            before = ecs.forget_effects()
            schedule = Schedule(rng=rng, odds=odds, ecs=ecs, moment=schedule.moment)
        execution = run_pipeline(actor=deployer, pipeline=pipeline, artifact_tag=tag, yaml=yaml)
        # The fixture's own way would nest one more override with every schedule, until Python gives up.
        with override_settings(AWS_QUOTA_SHARE=odds.quota_share):
            schedule.run(execution)
        execution.refresh_from_db()
        broken = list_violations(schedule, execution, before, may_differ=has_branches)
        broken += branches.list_violations(execution, ecs.tags) if has_branches and execution.is_over else []
        return [f"seed {seed}: {text}" for text in broken] and [
            *(f"seed {seed}: {text}" for text in broken),
            f"  {odds}",
            f"  ended {execution.status}/{execution.outcome} {execution.failure}",
            *(f"  {line}" for line in schedule.history),
        ]

    return run_seed


def _deploy_before(ecs: FakeEcs) -> str:
    ecs.call("RegisterTaskDefinition", {"family": "fargate-task-definition", "image": "x:1.26"}, "past")
    arn = next(iter(ecs.definitions.values()))["taskDefinition"]["taskDefinitionArn"]
    ecs.call("CreateService", {"serviceName": "myapp", "taskDefinition": arn, "desiredCount": 1}, "past")
    assert ecs.service is not None
    ecs.service["deployments"][0].update(rolloutState="COMPLETED", runningCount=1)
    ecs.service["runningCount"] = 1
    return str(arn)


@pytest.mark.parametrize("chunk", range(20))
@pytest.mark.timeout(300)
def test_no_schedule_breaks_a_promise(simulate: Simulate, chunk: int) -> None:
    first = int(os.environ.get("SLIPWAY_SIMULATOR_SEED", "0")) + chunk * SCHEDULES_EACH
    broken = [line for seed in range(first, first + SCHEDULES_EACH) for line in simulate(seed)]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("chunk", range(2))
@pytest.mark.timeout(300)
def test_no_schedule_with_branches_breaks_a_promise(simulate: Simulate, chunk: int) -> None:
    first = 50_000 + int(os.environ.get("SLIPWAY_SIMULATOR_SEED", "0")) + chunk * SCHEDULES_EACH
    seeds = range(first, first + SCHEDULES_EACH)
    broken = [line for seed in seeds for line in simulate(seed, has_branches=True)]
    assert not broken, "\n".join(broken)


def test_a_check_of_several_reads_ends_although_the_quota_grants_one_at_a_time(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token takes 5 to 10 seconds; every pass repeated the first read, and took the token of the second."""
    odds = Odds(quota_share=0.02, bad_image=True, breaker=True)
    monkeypatch.setattr(Odds, "from_random", lambda _rng: odds)
    broken = [line for seed in range(4) for line in simulate(seed, has_branches=True)]
    assert not broken, "\n".join(broken)


def test_no_schedule_with_unchanged_content_breaks_a_promise(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_odds = Odds.from_random
    monkeypatch.setattr(Odds, "from_random", lambda rng: dataclasses.replace(draw_odds(rng), unchanged=True))
    broken = [line for seed in range(60_000, 60_000 + SCHEDULES_EACH) for line in simulate(seed)]
    assert not broken, "\n".join(broken)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(100_000, 110_000, 500))
@pytest.mark.timeout(3600)
def test_ten_thousand_more_schedules_break_none_either(simulate: Simulate, first: int) -> None:
    broken = [line for seed in range(first, first + 500) for line in simulate(seed)]
    assert not broken, "\n".join(broken[:200])


def test_the_last_schedules_ended_in_every_way(simulate: Simulate) -> None:
    """A simulator whose schedules all end alike would prove nothing."""
    for seed in range(1000, 1040):
        simulate(seed)
    outcomes = set(Execution.objects.values_list("outcome", flat=True))
    assert {"COMPLETED", "ROLLED_BACK", "ABORTED"} <= outcomes
