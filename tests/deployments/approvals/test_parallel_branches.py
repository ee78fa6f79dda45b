"""Approvals in branches that run at the same time: each is about what waits for it, and nothing else."""

import pytest

from deployments.approvals.operations import approve_step, reject_step, request_plan_update
from deployments.models import Approval, Execution
from tests.deployments.approvals.conftest import Panel
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text, write

__all__ = ["write"]

pytestmark = pytest.mark.django_db(transaction=True)

APPROVAL_STEP = (
    "{{identifier: {0}, type: HarnessApproval, timeout: 1h, spec: {{approvers: {{userGroups: [ops]}}}}}}"
)
STEPS = f"""
- parallel:
    - step: {APPROVAL_STEP.format("ask")}
    - stepGroup:
        identifier: other
        steps:
          - step: {APPROVAL_STEP.format("second")}
          - step: {{identifier: pause, type: Wait, spec: {{duration: 5s}}}}
    - step: {{identifier: deploy, type: EcsRollingDeploy}}
- step: {{identifier: last, type: Wait, spec: {{duration: 5s}}}}
"""


def _wait_for_approvals(panel: Panel, execution: Execution) -> dict[str, Approval]:
    """Wait until both plans are ready, and return the approvals by step."""
    for _ in range(20):
        panel.drive.pass_time(1)
        approvals = Approval.objects.filter(execution=execution).exclude(plan_hash="").select_related("step")
        if len(approvals) == 2:
            return {approval.step.identifier: approval for approval in approvals}
    raise AssertionError(panel.drive.log(execution))


def _list_planned_steps(panel: Panel, approval: Approval) -> list[str]:
    plan = panel.create_api_client(panel.alice).get(f"/api/v1/approvals/{approval.pk}").json()["ahead"]
    return [step["identifier"] for stage in plan["stages"] for step in stage["steps"]]


def test_each_is_about_what_waits_for_it_and_stays_while_others_go_on(panel: Panel, write: Write) -> None:
    execution = write(pipeline_text(stage_text(STEPS))).start("1.27")
    approvals = _wait_for_approvals(panel, execution)
    assert _list_planned_steps(panel, approvals["ask"]) == ["last"]
    assert _list_planned_steps(panel, approvals["second"]) == ["pause", "last"]
    before = approvals["ask"].plan_hash
    approve_step(actor=panel.alice, approval=approvals["second"], diff=approvals["second"].plan_hash)
    for _ in range(200):
        panel.drive.pass_time(2)
        if (
            not execution.stages.get()
            .steps.filter(identifier__in=("deploy", "pause"))
            .exclude(status="SUCCESS")
        ):
            break
    execution.refresh_from_db()
    assert execution.status == "APPROVAL_WAITING"
    request_plan_update(actor=panel.bob, approval=approvals["ask"])
    panel.drive.pass_time(2)
    approvals["ask"].refresh_from_db()
    assert (approvals["ask"].refreshes_completed, approvals["ask"].plan_hash) == (2, before)
    approve_step(actor=panel.bob, approval=approvals["ask"], diff=before)
    panel.drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), panel.drive.log(execution)


def test_a_rejection_in_one_branch_takes_the_question_of_the_other_back(panel: Panel, write: Write) -> None:
    execution = write(pipeline_text(stage_text(STEPS))).start("1.27")
    approvals = _wait_for_approvals(panel, execution)
    reject_step(
        actor=panel.bob, approval=approvals["second"], diff=approvals["second"].plan_hash, comment="no"
    )
    panel.drive.until_over(execution)
    assert (execution.status, execution.failure["step"]) == ("APPROVAL_REJECTED", "second")
    statuses = dict(Approval.objects.values_list("step__identifier", "status"))
    assert statuses == {"ask": "WITHDRAWN", "second": "REJECTED"}
    assert panel.drive.service() == {} or panel.drive.service()["status"] != "ACTIVE"
