"""Records of applied configurations by environment, infrastructure and state."""

import json
from typing import Any

import pytest

from deployments.journal.provisions import EngineProvisions
from deployments.models import AppliedConfiguration, StageExecution, StepExecution, StoredPlan
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)

WAIT = "- step: {{identifier: {}, type: Wait, spec: {{duration: 5s}}}}\n"


def _use(backend: str = "key = 1", workspace: str = "") -> dict[str, Any]:
    return {"inputs": {"backend": backend, "variables": ""}, "workspace": workspace}


@pytest.fixture
def steps(write: Write) -> list[StepExecution]:
    """Return one step each of two stages, the second one for another environment."""
    text = pipeline_text(*(stage_text(WAIT.format(name), f"in_{name}") for name in ("dev", "prod")))
    execution = write(text).start()
    environment = execution.stages.get(identifier="in_dev").environment
    execution.stages.filter(identifier="in_prod").update(environment=environment.replace("dev", "prod"))
    return [
        StepExecution.objects.get(stage__execution=execution, identifier=name) for name in ("dev", "prod")
    ]


@pytest.fixture
def provisions(steps: list[StepExecution], drive: Drive) -> list[EngineProvisions]:
    return [EngineProvisions(step, 1, drive.clock.now) for step in steps]


def _keep(provisions: EngineProvisions, used: dict[str, Any]) -> str:
    key = provisions.keep("network", used)
    provisions.flush()
    return key


def _drop_places() -> None:
    """Leave the records as earlier releases wrote them."""
    AppliedConfiguration.objects.update(place="", state_key="")
    StoredPlan.objects.update(place="")


def _get_id(provisions: EngineProvisions, used: dict[str, Any] | None = None) -> str:
    latest = provisions.latest("network", used)
    return latest.id if latest else ""


@pytest.mark.parametrize("is_earlier_release", [False, True])
def test_a_record_is_of_one_environment_and_state(
    provisions: list[EngineProvisions], is_earlier_release: bool
) -> None:
    dev, prod = provisions
    key = _keep(dev, _use())
    if is_earlier_release:
        _drop_places()
    assert (_get_id(dev), _get_id(prod)) == (key, "")
    assert _get_id(dev, _use(" key = 1\n\n", workspace="default")) == key
    assert (_get_id(dev, _use("key = 2")), _get_id(dev, _use(workspace="blue"))) == ("", "")
    for other, used in ((prod, _use()), (dev, _use("key = 2"))):
        other.forget("network", used)
        other.flush()
    assert _get_id(dev) == key
    dev.forget("network", _use())
    dev.flush()
    assert _get_id(dev) == ""


def test_a_record_of_a_deleted_execution_without_environment_is_named_and_not_used(
    provisions: list[EngineProvisions],
) -> None:
    dev, prod = provisions
    key = _keep(dev, _use())
    assert dev.find_unplaced("network") is None
    _drop_places()
    assert dev.find_unplaced("network") is None
    AppliedConfiguration.objects.update(step=None)
    assert (_get_id(dev), _get_id(prod)) == ("", "")
    unplaced = prod.find_unplaced("network")
    assert unplaced is not None
    assert unplaced.id == key


def test_a_plan_without_environment_is_used_where_the_execution_has_only_one(
    provisions: list[EngineProvisions], steps: list[StepExecution]
) -> None:
    dev, prod = provisions
    dev.keep_plan("network", _use(), "cGxhbg==", destroys=False)
    dev.flush()
    assert (dev.plan("network") is None, prod.plan("network") is None) == (False, True)
    _drop_places()
    assert (dev.plan("network"), prod.plan("network")) == (None, None)
    StageExecution.objects.filter(pk=steps[1].stage.pk).delete()
    plan = dev.plan("network")
    assert plan is not None
    assert plan.used == json.loads(json.dumps(_use()))
