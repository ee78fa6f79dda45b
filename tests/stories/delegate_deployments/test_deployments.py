"""A deployment and its rollback through real agents, and what happens when one dies in the middle."""

import random
import time

import pytest

from delegates.agent.task_runner import FAILPOINTS
from deployments.execution.operations import roll_back_execution
from deployments.models import AwsCall, Execution
from tests.fixtures.processes import wait_until
from tests.stories.delegate_deployments.conftest import StartDying
from tests.stories.delegate_deployments.demo_deployments import Work

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = 10


def _handed_over(work: Work, execution: Execution) -> bool:
    """Return whether a call moved from one delegate to another."""
    return any(
        "LOST" in {hand["end"] for hand in hands} or len({hand["delegate"] for hand in hands}) > 1
        for hands in work.list_served_by(execution)
    )


def test_a_deployment_and_its_rollback_run_through_an_agent(work: Work, start: StartDying) -> None:
    start("prod-eu")
    work.check_once(work.deploy("1.27"), after=0)
    after = work.mark()
    execution = work.deploy("1.28")
    work.check_once(execution, after=after)
    calls = AwsCall.objects.filter(execution=execution)
    assert {server["delegate"].split(" on ")[0] for call in calls for server in call.served_by} == {"prod-eu"}
    roll_back_execution(actor=work.deployer, execution=execution)
    wait_until(lambda: not Execution.objects.get(pk=execution.pk).is_over, "the rollback's beginning")
    assert work.until_over(execution).outcome == "ROLLED_BACK"


@pytest.mark.parametrize("dies_at", ["task.acquired:RegisterTaskDefinition", "task.performed:CreateService"])
def test_when_one_of_two_agents_dies_the_other_goes_on(work: Work, start: StartDying, dies_at: str) -> None:
    dying = start("one", dies_at=dies_at)
    execution = work.run("1.27")
    wait_until(lambda: not dying.is_alive, f"the death at {dies_at}", 60)
    start("two")
    work.check_once(work.until_over(execution), after=0)
    assert _handed_over(work, execution)


@pytest.mark.parametrize(
    ("pipeline", "dies_at", "writes"),
    [
        (
            "canary_demo",
            "task.performed:DeleteService",
            {"RegisterTaskDefinition": 2, "CreateService": 2, "DeleteService": 1},
        ),
        (
            "blue_green_demo",
            "task.acquired:ModifyListener",
            {"RegisterTaskDefinition": 1, "CreateService": 1, "TagResource": 2, "ModifyListener": 2},
        ),
    ],
    ids=["canary", "blue_green"],
)
def test_other_strategies_go_on_as_well_when_their_agent_dies(
    work: Work, start: StartDying, pipeline: str, dies_at: str, writes: dict[str, int]
) -> None:
    dying = start("one", dies_at=dies_at)
    execution = work.run("1.27", pipeline)
    wait_until(lambda: not dying.is_alive, f"the death at {dies_at}", 90)
    start("two")
    work.until_over(execution)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), execution.failure
    assert work.effects(after=0) == writes
    assert _handed_over(work, execution)


@pytest.mark.soak
@pytest.mark.parametrize("operation", ["DescribeServices", "RegisterTaskDefinition", "CreateService"])
@pytest.mark.parametrize("point", FAILPOINTS)
def test_a_death_at_any_failpoint_harms_no_deployment(
    work: Work, start: StartDying, point: str, operation: str
) -> None:
    dying = start("one", dies_at=f"{point}:{operation}")
    execution = work.run("1.27")
    wait_until(lambda: not dying.is_alive, f"the death at {point}", 60)
    start("two")
    work.check_once(work.until_over(execution), after=0)
    assert point == "task.completed" or _handed_over(work, execution)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_ten_deaths_at_random_moments_harm_no_deployment(work: Work, start: StartDying) -> None:
    agents = {"one": start("one"), "two": start("two")}
    for number in range(ROUNDS):
        after, execution = work.mark(), work.run(f"1.{number + 27}")
        time.sleep(random.uniform(0, 12))
        dying = agents[random.choice(("one", "two"))]
        dying.kill()
        work.check_once(work.until_over(execution), after=after)
        dying.start()
