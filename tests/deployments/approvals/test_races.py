"""Decisions, the engine, and the end of the time meet in one moment: exactly one of them counts."""

import os
from collections import Counter
from datetime import timedelta

import pytest

from deployments.approvals.operations import approve_step, reject_step, request_plan_update
from deployments.execution.operations import abort_execution
from deployments.journal.runtime import set_hook
from deployments.models import Approval, ApprovalDecision, Execution
from rbac.models import AuditEntry
from tests.deployments.approvals.conftest import Panel
from tests.fixtures.threads import run_concurrently, split
from web.clock import get_database_time
from web.http.problems import Conflict

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 6
ROUNDS = int(os.environ.get("SLIPWAY_RACE_ROUNDS", "30"))
# The engine's clock of these tests is half a minute ahead: to the engine this is over, to people it is not.
STILL_OPEN = timedelta(seconds=20)


def _count_decisions(approval: Approval) -> int:
    """Return the number of decisions about the current plan."""
    approval.refresh_from_db()
    return approval.decisions.filter(plan_hash=approval.plan_hash, verdict="APPROVE").count()


def _check_decisions(panel: Panel, execution: Execution) -> None:
    """Check that the run continues only with an approval of its current plan, and that it closes once."""
    panel.drive.until_over(execution)
    approval = panel.get_approval(execution)
    closing_entries = AuditEntry.objects.filter(thing_id=str(approval.pk), actor=None).exclude(
        action="approval.ask"
    )
    assert [entry.action for entry in closing_entries] == [f"approval.{approval.status.lower()}"]
    has_enough = _count_decisions(approval) >= approval.minimum_approvals
    assert (approval.status == "APPROVED") is (execution.status == "SUCCESS")
    assert has_enough or approval.status != "APPROVED"


def test_one_person_who_approves_many_times_at_once_has_approved_once(panel: Panel) -> None:
    panel.insert_approval(approvers={"minimumCount": 2})
    execution = panel.start()
    approval = panel.get_approval(execution)
    jobs = [lambda: approve_step(actor=panel.alice, approval=approval, diff=approval.plan_hash)] * MANY
    _, errors = split(run_concurrently(*jobs))
    assert [type(error) for error in errors] == [Conflict] * (MANY - 1)
    assert ApprovalDecision.objects.count() == 1
    panel.drive.pass_time(2)
    execution.refresh_from_db()
    assert execution.status == "APPROVAL_WAITING"


def _race_verdicts(panel: Panel) -> None:
    execution = panel.start()
    approval = panel.get_approval(execution)
    mark = panel.drive.mark()
    results, errors = split(
        run_concurrently(
            lambda: approve_step(actor=panel.alice, approval=approval, diff=approval.plan_hash),
            lambda: reject_step(actor=panel.bob, approval=approval, diff=approval.plan_hash),
            panel.drive.reconcile,
        )
    )
    assert [type(error) for error in errors] == [Conflict]
    (decision,) = [result for result in results if result is not None]
    _check_decisions(panel, execution)
    assert (decision.verdict == "APPROVE") is (execution.status == "SUCCESS")
    assert decision.verdict == "APPROVE" or panel.drive.effects(after=mark) == []


def test_of_an_approval_and_a_rejection_at_once_one_counts(panel: Panel) -> None:
    _race_verdicts(panel)


def _approve_at_commit(panel: Panel, number: int) -> tuple[str, bool]:
    """Somebody approves right before that commit of the look that finds the time to be over.

    Gives back how it ended, and whether the look came so far.
    """
    execution = panel.start()
    approval = panel.get_approval(execution)
    Approval.objects.filter(pk=approval.pk).update(expires_at=get_database_time() + STILL_OPEN)
    passed_counts = Counter[str]()
    decisions: list[ApprovalDecision] = []

    def decide(name: str) -> None:
        passed_counts[name] += 1
        if name == "commit.before" and passed_counts[name] == number:
            results, _ = split(
                run_concurrently(
                    lambda: approve_step(actor=panel.alice, approval=approval, diff=approval.plan_hash)
                )
            )
            decisions.extend(results)

    panel.drive.clock.move(60)
    set_hook(decide)
    try:
        panel.drive.reconcile()
    finally:
        set_hook(None)
    _check_decisions(panel, execution)
    assert bool(decisions) is (execution.status == "SUCCESS"), (number, panel.drive.log(execution))
    return execution.status, passed_counts["commit.before"] >= number


def test_an_approval_in_the_moment_of_the_end_counts_or_is_refused(panel: Panel) -> None:
    statuses, number, is_reached = set(), 0, True
    while is_reached:
        number += 1
        status, is_reached = _approve_at_commit(panel, number)
        statuses.add(status)
    assert statuses == {"SUCCESS", "EXPIRED"}


def _race_diffs(panel: Panel) -> str:
    """Change AWS, refresh the plan, and approve the old plan at the same time."""
    execution = panel.start("1.28")
    approval = panel.get_approval(execution)
    old_hash = approval.plan_hash
    count = panel.drive.service()["desiredCount"] % 3 + 1
    panel.drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", "desiredCount": count})
    request_plan_update(actor=panel.bob, approval=approval)
    results, errors = split(
        run_concurrently(
            lambda: approve_step(actor=panel.alice, approval=approval, diff=old_hash),
            panel.drive.reconcile,
        )
    )
    assert {type(error) for error in errors} <= {Conflict}
    panel.drive.pass_time(2)
    approval.refresh_from_db()
    if approval.status == "WAITING":
        assert approval.plan_hash != old_hash
        approve_step(actor=panel.bob, approval=approval, diff=approval.plan_hash)
    _check_decisions(panel, execution)
    return execution.status


def test_an_approval_of_what_is_shown_no_more_does_not_count(panel: Panel) -> None:
    panel.deploy_without_approval("1.27")
    panel.insert_approval()
    assert _race_diffs(panel) == "SUCCESS"


def _race_abort(panel: Panel) -> None:
    execution = panel.start()
    approval = panel.get_approval(execution)
    mark = panel.drive.mark()
    results, errors = split(
        run_concurrently(
            lambda: approve_step(actor=panel.alice, approval=approval, diff=approval.plan_hash),
            lambda: abort_execution(actor=panel.drive.deployer, execution=execution),
            panel.drive.reconcile,
        )
    )
    assert {type(error) for error in errors} <= {Conflict}
    panel.drive.until_over(execution)
    assert execution.status == "ABORTED"
    assert panel.get_approval(execution).status in ("WITHDRAWN", "APPROVED")
    assert "UpdateService" not in panel.drive.effects(after=mark)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_races_end_right_again_and_again(panel: Panel) -> None:
    panel.deploy_without_approval("1.27")
    panel.insert_approval()
    for _ in range(ROUNDS):
        _race_verdicts(panel)
        _race_diffs(panel)
        _race_abort(panel)
