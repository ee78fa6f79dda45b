"""The end of an execution, as the engine tells it to triggers of other pipelines."""

import pytest

from pipelines.models import Pipeline, Trigger, TriggerFiring
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db


def test_the_engine_writes_the_end_of_a_run_for_those_that_follow(drive: Drive) -> None:
    leader = drive.pipeline
    follower = Pipeline.objects.create(
        scope=leader.scope, identifier="follower", name="Follower", yaml=leader.yaml
    )
    spec = {"pipeline": leader.identifier, "result": "any"}
    Trigger.objects.create(pipeline=follower, identifier="a", name="A", kind="pipeline", spec=spec)
    execution = drive.run()
    values = TriggerFiring.objects.get().values
    assert (values["execution"], values["result"]) == (str(execution.pk), "succeeded")
