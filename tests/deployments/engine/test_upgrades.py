"""What an upgrade in the middle of an execution must not break."""

import pytest

from deployments.execution.operations import abort_execution
from deployments.models import ActionRun, Execution
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)


def _rename_action(execution: Execution, old: str, new: str) -> None:
    updated_rows = ActionRun.objects.filter(step__stage__execution=execution, name=old).update(name=new)
    assert updated_rows == 1


def test_an_action_that_this_version_does_not_know_waits_for_a_person_and_goes_on(drive: Drive) -> None:
    execution = drive.start("1.27")
    _rename_action(execution, "SuspendAutoScaling", "PauseAutoScaling")
    drive.pass_time(5)
    execution.refresh_from_db()
    assert execution.status == "INTERVENTION_WAITING"
    row = ActionRun.objects.get(step__stage__execution=execution, name="PauseAutoScaling")
    assert "Unknown action in this version of Slipway: PauseAutoScaling" in row.detail
    _rename_action(execution, "PauseAutoScaling", "SuspendAutoScaling")
    drive.pass_time(62)
    execution.refresh_from_db()
    assert execution.status == "RUNNING"
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED")


def test_an_execution_that_waits_for_a_person_can_be_aborted(drive: Drive) -> None:
    execution = drive.start("1.27")
    _rename_action(execution, "RegisterTaskDefinition", "Nonsense")
    drive.pass_time(3)
    abort_execution(actor=drive.deployer, execution=Execution.objects.get(pk=execution.pk))
    drive.until_over(execution)
    assert execution.status == "ABORTED"
    assert drive.effects() == []
