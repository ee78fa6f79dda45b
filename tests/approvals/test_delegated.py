"""What would be done is worked out by delegates too, call by call, and the run goes on from there."""

import pytest

from deployments.models import Approval, Call
from tests.approvals.conftest import Panel
from tests.deployments.hands import hand
from tests.deployments.test_delegated_calls import TAGS, remote

__all__ = ["remote"]

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_delegate_reads_for_an_approval(remote: object, panel: Panel) -> None:
    one = hand("reader", tags=tuple(TAGS))
    execution = panel.drive.start("1.27")
    for _ in range(60):
        panel.drive.look()
        if not one.serve():
            panel.drive.pass_time(1)
        if Approval.objects.exclude(diff="").exists():
            break
    approval = panel.approval(execution)
    shown = panel.program(panel.alice).get(f"/api/v1/approvals/{approval.pk}").json()
    would = shown["ahead"]["stages"][0]["steps"][0]["would"]
    assert [call["operation"] for call in would["calls"]][0] == "RegisterTaskDefinition"
    assert not would["failure"]
    assert one.taken
    assert not Call.objects.filter(execution=execution, is_write=True).exists()
    assert panel.decide(panel.alice, approval).status_code == 202
    for _ in range(300):
        panel.drive.look()
        if not one.serve():
            panel.drive.pass_time(1)
        execution.refresh_from_db()
        if execution.is_over:
            break
    assert execution.status == "SUCCESS", panel.drive.log(execution)[-5:]
