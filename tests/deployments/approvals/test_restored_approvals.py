"""Approvals of an execution that a restore has paused: first a person decides whether it goes on."""

import pytest

from deployments.approvals.operations import approve_step, request_plan_update
from deployments.execution.restored_executions import pause_open_executions
from deployments.models import ApprovalDecision
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
