"""However a deployment ends, it says so truly, and what it found in the account is there again."""

from collections import Counter

import pytest

from deployments.models import Execution
from tests.strategies.playing import Play, broken

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


def _as_before(play: Play, execution: Execution, story: str) -> None:
    """It was rolled back: the checklist says so, and so does the account."""
    assert play.ends(execution) == ("FAILED", "ROLLED_BACK"), (story, execution.failure, play.log(execution))
    assert play.changed() == [], (story, play.log(execution))
    checklist = play.checklist(execution)
    assert checklist, story
    assert broken(checklist) == [], story


def test_a_version_that_does_not_run_leaves_the_account_as_it_was(play: Play) -> None:
    for tag in ("crash", "nopull", "sick"):
        execution = play.run(tag)
        _as_before(play, execution, tag)
        assert (
            f"library/nginx:{tag}" in str(execution.failure) or execution.failure["container"] == "nginx"
        ), (
            tag,
            execution.failure,
        )


def test_a_throttled_api_changes_neither_the_end_nor_what_is_written(play: Play) -> None:
    calm = play.run("1.28")
    for service in ("ecs", "elbv2", "application-autoscaling"):
        play.drive.sandbox.fault("throttle", service=service, count=4)
    throttled = play.run("1.29")
    assert play.ends(throttled) == ("SUCCESS", "COMPLETED")
    assert Counter(play.effects(throttled)) == Counter(play.effects(calm))


def test_a_denied_write_is_named_and_everything_before_it_is_undone(play: Play) -> None:
    writes = dict.fromkeys(play.writes(play.run("1.28")))
    play.remember()
    for write in writes:
        service, operation = write.split()
        play.drive.sandbox.fault("denied", service=service, operation=operation, count=1)
        execution = play.run("1.29")
        if play.ends(execution) == ("SUCCESS", "COMPLETED"):
            # What does not decide whether a deployment succeeds is said, and done without.
            assert any(operation in line for line in play.log(execution)), write
            play.remember()
            continue
        assert execution.failure["code"] == "ACCESS_DENIED", write
        assert operation in execution.failure["message"], write
        assert play.changed() == [], (write, play.log(execution))
        assert broken(play.checklist(execution)) == [], write


def test_a_deployment_that_aws_rolled_back_is_no_success(play: Play) -> None:
    if not play.strategy.has_breaker:
        pytest.skip("a circuit breaker is refused for this strategy")
    breaking = f"deploymentConfiguration:\n  {BREAKER}\n"
    play.edit(play.strategy.file, "deploymentConfiguration:\n", breaking)
    assert play.run("1.28").outcome == "COMPLETED"
    play.remember()
    execution = play.start("1.29")
    for step in play.strategy.steps[:-1]:
        play.until_step(execution, step)
    # The last step reads its manifests when it begins.
    play.edit(play.strategy.task_file, "<+primary.artifact.image>", "library/nginx:crash")
    play.until_over(execution)
    assert play.ends(execution) == ("FAILED", "ROLLED_BACK_BY_AWS")
    assert play.changed() == []
    assert broken(play.checklist(execution)) == []


def test_what_somebody_else_deploys_meanwhile_stays(play: Play) -> None:
    execution = play.start("slow")
    play.until_step(execution, play.strategy.steps[-1])
    play.turn(execution)
    registered = play.drive.call("ecs", "RegisterTaskDefinition", {"family": "other", **OTHER_IMAGE})
    foreign = registered["taskDefinition"]["taskDefinitionArn"]
    name = play.deployed(execution)
    play.drive.call("ecs", "UpdateService", {"cluster": "demo", "service": name, "taskDefinition": foreign})
    play.until_over(execution)
    assert play.ends(execution) == ("FAILED", "SUPERSEDED")
    play.settle()
    assert play.drive.service(name)["taskDefinition"] == foreign
