"""Approvals of an execution that a restore has paused: first a person decides whether it goes on."""

from datetime import timedelta

import pytest
import yaml

from deployments.approvals.operations import approve_step, request_plan_update
from deployments.execution.operations import decide_step
from deployments.execution.restored_executions import pause_open_executions
from deployments.models import ApprovalDecision, Execution, StepExecution
from tests.deployments.approvals.conftest import Panel
from web.http.problems import Conflict

pytestmark = pytest.mark.django_db


def test_nobody_approves_a_plan_of_before_the_restore(panel: Panel) -> None:
    panel.insert_approval()
    execution = panel.start()
    approval = panel.get_approval(execution)
    now = panel.drive.clock.now()
    assert pause_open_executions(taken_at=now, now=now) == 1

    with pytest.raises(Conflict, match="restored from a backup"):
        approve_step(actor=panel.alice, approval=approval, diff=approval.plan_hash)
    with pytest.raises(Conflict, match="restored from a backup"):
        request_plan_update(actor=panel.alice, approval=approval)
    assert not ApprovalDecision.objects.exists()


def go_on(panel: Panel, execution: Execution) -> None:
    """Pause the execution as a restore does, and let it go on."""
    now = panel.drive.clock.now()
    assert pause_open_executions(taken_at=now - timedelta(minutes=1), now=now) == 1
    step = StepExecution.objects.filter(stage__execution=execution).exclude(intervention=None).get()
    decide_step(actor=panel.drive.deployer, execution=execution, step=step.identifier, decision="GO_ON")
    panel.drive.pass_time(3)
    execution.refresh_from_db()


def wait_before_the_deployment(panel: Panel) -> None:
    document = yaml.safe_load(panel.drive.pipeline.yaml)
    steps = document["pipeline"]["stages"][0]["stage"]["spec"]["execution"]["steps"]
    steps.insert(1, {"step": {"type": "Wait", "identifier": "pause", "spec": {"duration": "5m"}}})
    panel.drive.pipeline.yaml = yaml.safe_dump(document, sort_keys=False)
    panel.drive.pipeline.save(update_fields=["yaml"])


def test_what_was_approved_and_has_not_begun_is_approved_again(panel: Panel) -> None:
    wait_before_the_deployment(panel)
    execution = panel.start()
    approve_step(actor=panel.alice, approval=panel.get_approval(execution), diff=plan_hash(panel, execution))
    panel.drive.pass_time(5)
    assert panel.get_approval(execution).status == "APPROVED"
    mark = panel.drive.mark()

    go_on(panel, execution)
    assert execution.status == "APPROVAL_WAITING"
    renewed = panel.get_approval(execution)
    assert (renewed.status, renewed.attempt) == ("WAITING", 2)
    assert any("older than the restore" in line for line in panel.drive.log(execution))
    panel.drive.pass_time(600, step=30)
    assert panel.drive.effects(mark) == []
    approve_step(actor=panel.alice, approval=renewed, diff=plan_hash(panel, execution))
    assert panel.drive.until_over(execution).status == "SUCCESS"


def test_an_approval_that_no_pass_has_counted_is_asked_again(panel: Panel) -> None:
    execution = panel.start()
    approve_step(actor=panel.alice, approval=panel.get_approval(execution), diff=plan_hash(panel, execution))
    go_on(panel, execution)
    assert execution.status == "APPROVAL_WAITING"
    assert panel.get_approval(execution).attempt == 2


def test_a_deployment_that_had_begun_is_not_asked_again(panel: Panel) -> None:
    execution = panel.start()
    approve_step(actor=panel.alice, approval=panel.get_approval(execution), diff=plan_hash(panel, execution))
    panel.drive.pass_time(20)
    assert panel.drive.effects()
    go_on(panel, execution)
    assert panel.drive.until_over(execution).status == "SUCCESS"
    assert panel.get_approval(execution).attempt == 1


def plan_hash(panel: Panel, execution: Execution) -> str:
    """Return the hash of the newest plan, once it is computed."""
    panel.drive.pass_time(3)
    return panel.get_approval(execution).plan_hash
