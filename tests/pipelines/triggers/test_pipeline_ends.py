"""Runs in a row: which ends of a pipeline start another one, and that no two start each other for ever."""

from datetime import UTC, datetime
from typing import Any

import pytest

from deployments.execution.events import record_end
from deployments.models import Execution
from pipelines import tasks
from pipelines.models import Pipeline, Trigger, TriggerFiring
from pipelines.triggers import operations
from rbac.models import Scope, User
from steps.states import Outcome, Status
from tests.api.sample_project import World
from web.http.problems import BadInput

pytestmark = pytest.mark.django_db


@pytest.fixture
def smoke(world: World) -> Pipeline:
    """A pipeline that runs after the other one."""
    TriggerFiring.objects.all().delete()
    yaml = world.pipeline.yaml.replace("identifier: rolling", "identifier: smoke", 1)
    return Pipeline.objects.create(scope=world.scope, identifier="smoke", name="Smoke", yaml=yaml)


def follow(world: World, actor: User, follower: Pipeline, leader: str, result: str = "succeeded") -> Trigger:
    """Have a pipeline run after each end of another one."""
    spec = operations.TriggerSpec(
        name=f"After {leader}",
        spec={"pipeline": leader, "result": result},
        service_account=world.service_account,
        tag="<+trigger.tag>",
    )
    return operations.create_trigger(
        actor=actor, pipeline=follower, identifier=f"after_{leader}", kind="pipeline", spec=spec
    )[0]


def end(execution: Execution, status: str = Status.SUCCESS, outcome: str = Outcome.COMPLETED) -> None:
    """End an execution as the engine does, and have a worker handle what follows."""
    execution.status, execution.outcome = status, outcome
    record_end(execution)
    tasks.process_firings()


def test_the_end_of_a_run_starts_the_next_pipeline_with_its_tag(
    world: World, smoke: Pipeline, admin: User
) -> None:
    trigger = follow(world, admin, smoke, "rolling")
    end(world.execution)
    execution = Execution.objects.get(pipeline=smoke)
    assert execution.artifact["tag"] == world.execution.artifact["tag"]
    assert execution.cause == "After rolling: rolling #1 succeeded"
    # The engine may write an end twice, where its answer was lost.
    end(world.execution)
    assert TriggerFiring.objects.filter(trigger=trigger).count() == 1


def test_an_execution_that_is_retried_and_fails_again_starts_another_run(
    world: World, smoke: Pipeline, admin: User
) -> None:
    follow(world, admin, smoke, "rolling", "failed")
    for minute in (1, 2):
        world.execution.ended_at = datetime(2026, 1, 1, 12, minute, tzinfo=UTC)
        end(world.execution, Status.FAILED, "")
    assert TriggerFiring.objects.filter(status="STARTED").count() == 2


@pytest.mark.parametrize(
    ("status", "outcome", "result"),
    [
        (Status.SUCCESS, Outcome.COMPLETED, "succeeded"),
        (Status.IGNORE_FAILED, Outcome.COMPLETED, "succeeded"),
        (Status.FAILED, "", "failed"),
        (Status.FAILED, Outcome.ROLLED_BACK, "failed"),
        (Status.ROLLED_BACK, Outcome.ROLLED_BACK, "failed"),
        (Status.ABORTED, "", "aborted"),
    ],
)
@pytest.mark.parametrize("wanted", ["succeeded", "failed", "aborted", "any"])
def test_the_result_decides(
    world: World, smoke: Pipeline, admin: User, status: str, outcome: str, result: str, wanted: str
) -> None:
    follow(world, admin, smoke, "rolling", wanted)
    end(world.execution, status, outcome)
    firing = TriggerFiring.objects.get()
    assert firing.values["result"] == result
    assert firing.status == ("STARTED" if wanted in (result, "any") else "IGNORED")


def test_two_pipelines_that_follow_each_other_stop_after_one_round(
    world: World, smoke: Pipeline, admin: User
) -> None:
    follow(world, admin, smoke, "rolling")
    follow(world, admin, world.pipeline, "smoke")
    end(world.execution)
    end(Execution.objects.get(pipeline=smoke))
    last = TriggerFiring.objects.latest("received_at")
    assert last.status == "IGNORED"
    assert "They would start each other: rolling → smoke → rolling." in last.reason
    assert Execution.objects.count() == 2


def test_a_disabled_trigger_and_another_scope_hear_nothing(
    world: World, smoke: Pipeline, admin: User, other_project: Scope
) -> None:
    trigger = follow(world, admin, smoke, "rolling")
    operations.set_enabled(actor=admin, trigger=trigger, is_enabled=False)
    foreign = Pipeline.objects.create(scope=other_project, identifier="smoke", name="S", yaml=smoke.yaml)
    Trigger.objects.create(pipeline=foreign, identifier="a", name="A", kind="pipeline", spec=trigger.spec)
    end(world.execution)
    assert not TriggerFiring.objects.exists()


@pytest.mark.parametrize(
    ("leader", "message"), [("smoke", "cannot follow itself"), ("missing", "There is no pipeline missing")]
)
def test_a_pipeline_that_cannot_be_followed_is_refused(
    world: World, smoke: Pipeline, admin: User, leader: str, message: str
) -> None:
    with pytest.raises(BadInput) as refused:
        follow(world, admin, smoke, leader)
    assert message in refused.value.errors[0]["message"]


def test_a_trial_needs_a_result(world: World, smoke: Pipeline, admin: User, browse: Any) -> None:
    trigger = follow(world, admin, smoke, "rolling")
    address = f"/triggers/{trigger.pk}/try/"
    assert "needs result" in browse(admin).post(address, {"payload": "{}"}).content.decode()
    payload = '{"result": "failed", "tag": "v1", "number": 3}'
    page = browse(admin).post(address, {"payload": payload}).content.decode()
    assert "rolling #3 failed: would be ignored" in page
