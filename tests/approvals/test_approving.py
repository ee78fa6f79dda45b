"""A run waits for approval, people decide, and it goes on or ends."""

import pytest

from deployments.models import Approval, ApprovalDecision
from rbac.models import AuditEntry
from tests.approvals.conftest import Panel

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


def test_a_run_waits_until_a_member_of_the_group_approves_on_the_page(panel: Panel) -> None:
    panel.asks(approvalMessage="<+service.name> goes out")
    execution = panel.start()
    approval = panel.approval(execution)
    browser = panel.browser(panel.alice)
    assert "EcsRollingDeploy" in browser.get(f"/approvals/{approval.pk}/").content.decode()
    assert str(approval.pk) in browser.get("/approvals/").content.decode()
    form = {"diff": approval.diff, "verdict": "approve", "comment": "looks right"}
    answer = browser.post(f"/approvals/{approval.pk}/decide/", form)
    assert answer.headers["Location"] == f"/deployments/{execution.pk}/"
    panel.drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), panel.drive.log(execution)
    step = execution.stages.get().steps.get(identifier="ask")
    assert step.outputs["approvers"] == ["alice"]
    assert str(approval.pk) not in browser.get("/approvals/").content.decode()
    actions = AuditEntry.objects.filter(action__startswith="approval.").values_list("action", "actor_name")
    assert set(actions) == {
        ("approval.ask", "slipway"),
        ("approval.approve", "alice"),
        ("approval.approved", "slipway"),
    }


def test_a_rejection_ends_the_run_before_anything_was_done(panel: Panel) -> None:
    execution = panel.start()
    mark = panel.drive.mark()
    answer = panel.decide(panel.bob, panel.approval(execution), "reject", comment="not on a Friday")
    assert answer.status_code == 202, answer.json()
    panel.drive.until_over(execution)
    assert execution.status == "APPROVAL_REJECTED"
    assert execution.failure["message"] == "bob rejected this: not on a Friday"
    assert panel.drive.effects(after=mark) == []
    assert ApprovalDecision.objects.get().verdict == "REJECT"


def test_who_is_in_no_group_sees_it_and_cannot_decide(panel: Panel) -> None:
    approval = panel.approval(panel.start())
    answer = panel.decide(panel.outsider, approval)
    assert (answer.status_code, answer.json()["detail"]) == (
        403,
        "Only members of ops can decide about this.",
    )
    page = panel.browser(panel.outsider).get(f"/approvals/{approval.pk}/").content.decode()
    assert "Only members of ops" in page
    assert "Approve</button>" not in page
    assert Approval.objects.get().decided == 0
