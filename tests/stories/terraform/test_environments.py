"""One provisionerIdentifier with a state for each environment, as in the starter of the step."""

import pytest

from catalog.models import Environment
from catalog.operations.environments import EnvironmentSpec, create_environment
from catalog.operations.infrastructures import InfrastructureSpec, create_infrastructure
from deployments.models import Execution
from rbac.models import User
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.steps.kinds.conftest import Worker
from tests.steps.kinds.test_script import script_step, serve_until_over
from tests.stories.terraform.conftest import States, needs_terraform, terraform_step
from tests.stories.terraform.test_plan_rollback_destroy import _inheriting

pytestmark = [needs_terraform, pytest.mark.django_db(transaction=True)]


def _make_prod() -> None:
    admin, dev = User.objects.get(username="admin"), Environment.objects.get(identifier="dev")
    place = dev.infrastructures.get(identifier="sandbox")
    prod = create_environment(
        actor=admin, scope=dev.scope, identifier="prod", spec=EnvironmentSpec("Prod", "")
    )
    create_infrastructure(
        actor=admin,
        environment=prod,
        identifier="sandbox",
        spec=InfrastructureSpec("Sandbox", place.connector, place.region, place.cluster),
    )


def _run(write: Write, drive: Drive, worker: Worker, environment: str, *steps: str) -> Execution:
    text = stage_text("".join(steps)).replace("type: EcsRollingRollback", "type: TerraformRollback")
    text = text.replace("environmentRef: dev", f"environmentRef: {environment}")
    return serve_until_over(drive, write(pipeline_text(text)).start(), worker)


def _step(states: States, value: str, **fields: str) -> str:
    variables = f"variables: [{{name: name, type: String, value: {value}}}]"
    return terraform_step(states, variables=variables, backend=states.backend("<+env.identifier>"), **fields)


def test_a_rollback_in_prod_restores_prod(write: Write, drive: Drive, worker: Worker, states: States) -> None:
    _make_prod()
    assert _run(write, drive, worker, "prod", _step(states, "one")).status == "SUCCESS"
    assert _run(write, drive, worker, "dev", _step(states, "two")).status == "SUCCESS"
    states.states["/dev"], dev = states.states["/dev"], states.states["/dev"]
    execution = _run(write, drive, worker, "prod", _step(states, "three"), script_step("exit 1"))
    assert execution.outcome == "ROLLED_BACK"
    assert states.inputs("prod") == ["one"]
    assert states.states["/dev"] == dev


def test_destroying_what_was_applied_destroys_that_of_this_environment(
    write: Write, drive: Drive, worker: Worker, states: States
) -> None:
    _make_prod()
    assert _run(write, drive, worker, "dev", _step(states, "two")).status == "SUCCESS"
    assert _run(write, drive, worker, "prod", _step(states, "one")).status == "SUCCESS"
    execution = _run(write, drive, worker, "dev", _inheriting("gone", "Destroy", "InheritFromApply"))
    assert execution.status == "SUCCESS", execution.failure
    assert states.inputs("prod") == ["one"]


def test_a_plan_is_applied_where_it_was_made(
    write: Write, drive: Drive, worker: Worker, states: States
) -> None:
    """Plan in all environments, (approve,) then apply in all of them."""
    _make_prod()

    def stage(name: str, environment: str, step: str) -> str:
        text = stage_text(step, name).replace("type: EcsRollingRollback", "type: TerraformRollback")
        return text.replace("environmentRef: dev", f"environmentRef: {environment}")

    pause = "- step: {identifier: pause, type: Wait, spec: {duration: 5s}}\n"
    text = pipeline_text(
        stage("plan_dev", "dev", _step(states, "one", name="plan1", type_="Plan")),
        stage("plan_prod", "prod", pause + _step(states, "one", name="plan2", type_="Plan")),
        stage("apply_dev", "dev", _inheriting("apply1", "Apply", "InheritFromPlan")),
    )
    execution = serve_until_over(drive, write(text).start(), worker)
    assert execution.status == "SUCCESS", execution.failure
    assert states.inputs("prod") == []
    assert states.inputs("dev") == ["one"]
