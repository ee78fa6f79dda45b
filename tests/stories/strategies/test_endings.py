"""However a deployment ends, it says so truly, and what it found in the account is there again."""

from collections import Counter

import pytest

from deployments.models import Execution
from ops.demo.pipelines import SERVICE_DEFINITION, TASK_DEFINITION
from tests.stories.strategies.scenario import Play, list_broken_lines
from tests.stories.strategies.strategies import STRATEGIES, Strategy

pytestmark = pytest.mark.django_db(transaction=True)

OTHER_IMAGE = {
    "containerDefinitions": [
        {"name": "nginx", "image": "other:1", "memory": 128, "portMappings": [{"containerPort": 80}]}
    ],
    "requiresCompatibilities": ["FARGATE"],
    "networkMode": "awsvpc",
    "cpu": "256",
    "memory": "512",
}
BREAKER = "deploymentCircuitBreaker: {enable: true, rollback: true}"


def _told_of(strategies: list[Strategy]) -> pytest.MarkDecorator:
    """A story that only these strategies have."""
    return pytest.mark.parametrize("play", strategies, indirect=True, ids=lambda strategy: strategy.name)


def _as_before(play: Play, execution: Execution, story: str) -> None:
    """Check that the rollback is in the checklist and in the account."""
    assert play.get_result(execution) == ("FAILED", play.undo_outcome), (
        story,
        execution.failure,
        play.log(execution),
    )
    assert play.list_changes() == [], (story, play.log(execution))
    checklist = play.checklist(execution)
    assert bool(checklist) == play.strategy.rolls_back, story
    assert list_broken_lines(checklist) == [], story


def test_what_goes_wrong_is_told_and_leaves_the_account_as_it_was(play: Play) -> None:
    for tag in ("crash", "nopull", "sick"):
        _does_not_run(play, tag)
    calm = play.run(play.second)
    play.remember()
    for write in dict.fromkeys(play.writes(calm)):
        _is_denied(play, *write.split())
    _is_throttled(play, calm)


def _does_not_run(play: Play, tag: str) -> None:
    """A version that crashes, cannot be pulled, or never gets healthy."""
    execution = play.run(tag)
    _as_before(play, execution, tag)
    is_named = f"library/nginx:{tag}" in str(execution.failure) or execution.failure["container"] == "nginx"
    assert is_named, (tag, execution.failure)


def _is_denied(play: Play, service: str, operation: str) -> None:
    """A write is denied: it is named, and everything before it is undone."""
    play.drive.sandbox.fault("denied", service=service, operation=operation, count=1)
    execution = play.run(play.third)
    if play.get_result(execution) == ("SUCCESS", "COMPLETED"):
        # What does not decide whether a deployment succeeds is said, and done without.
        assert any(operation in line for line in play.log(execution)), operation
        play.remember()
        return
    assert execution.failure["code"] == "ACCESS_DENIED", operation
    assert operation in execution.failure["message"], operation
    assert play.list_changes() == [], (operation, play.log(execution))
    assert list_broken_lines(play.checklist(execution)) == [], operation


def _is_throttled(play: Play, calm: Execution) -> None:
    """A throttled API changes neither the end nor what is written."""
    for service in ("ecs", "elbv2", "application-autoscaling"):
        play.drive.sandbox.fault("throttle", service=service, count=4)
    # A tag that runs already, as after a denied write that decides nothing, is deployed as it is.
    throttled = play.run(play.fourth)
    assert play.get_result(throttled) == ("SUCCESS", "COMPLETED")
    assert Counter(play.effects(throttled)) == Counter(play.effects(calm))


@_told_of([strategy for strategy in STRATEGIES if strategy.has_breaker])
def test_a_deployment_that_aws_rolled_back_is_no_success(play: Play) -> None:
    breaking = f"deploymentConfiguration:\n  {BREAKER}\n"
    play.edit(SERVICE_DEFINITION, "deploymentConfiguration:\n", breaking)
    assert play.run(play.second).outcome == "COMPLETED"
    play.remember()
    execution = play.start(play.third)
    (planned,) = execution.stages.values_list("sources", flat=True)
    for step in play.strategy.steps[:-1]:
        play.until_step(execution, step)
    # All steps of a run are made of the same files: it has to forget them for its last one to find another.
    execution.stages.update(sources=planned)
    play.edit(TASK_DEFINITION, "<+primary.artifact.image>", "library/nginx:crash")
    play.until_over(execution)
    assert play.get_result(execution) == ("FAILED", "ROLLED_BACK_BY_AWS")
    assert play.list_changes() == []
    assert list_broken_lines(play.checklist(execution)) == []


@_told_of([strategy for strategy in STRATEGIES if strategy.overtaken_in])
def test_what_somebody_else_deploys_meanwhile_stays(play: Play) -> None:
    execution = play.start("slow")
    play.until_step(execution, play.strategy.overtaken_in)
    play.turn(execution)
    registered = play.drive.call("ecs", "RegisterTaskDefinition", {"family": "other", **OTHER_IMAGE})
    foreign = registered["taskDefinition"]["taskDefinitionArn"]
    name = play.get_deployed_name(execution)
    play.drive.call("ecs", "UpdateService", {"cluster": "demo", "service": name, "taskDefinition": foreign})
    play.until_over(execution)
    assert play.get_result(execution) == ("FAILED", "SUPERSEDED")
    play.settle()
    assert play.drive.service(name)["taskDefinition"] == foreign
