"""A run waits for approval, people decide, and it goes on or ends."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
import yaml
from django.db import connection

from deployments.approvals.operations import approve_step
from deployments.execution.operations import abort_execution, decide_step
from deployments.journal.runtime import set_hook
from deployments.models import Approval, ApprovalDecision
from pipelines.models import Pipeline
from rbac.models import AuditEntry, User
from tests.deployments.approvals.conftest import Panel
from tests.deployments.engine.simulator.schedule import Death
from tests.fixtures.worker_crashes import Countdown
from web.http.problems import Conflict

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_run_waits_until_a_member_of_the_group_approves_on_the_page(panel: Panel) -> None:
    panel.asks(approvalMessage="<+service.name> goes out")
    execution = panel.start()
    approval = panel.approval(execution)
    browser = panel.browser(panel.alice)
    assert "EcsRollingDeploy" in browser.get(f"/approvals/{approval.pk}/").content.decode()
    assert str(approval.pk) in browser.get("/approvals/").content.decode()
    form = {"diff": approval.plan_hash, "verdict": "approve", "comment": "looks right"}
    answer = browser.post(f"/approvals/{approval.pk}/decide/", form)
    assert answer.headers["Location"] == f"/deployments/{execution.pk}/"
    panel.drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), panel.drive.log(execution)
    step = execution.stages.get().steps.get(identifier="ask")
    assert step.outputs["approvers"] == ["alice"]
    assert "alice approves this (1 of 1): looks right" in panel.drive.log(execution)
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
    assert "bob rejects this: not on a Friday" in panel.drive.log(execution)
    assert execution.failure["message"] == "bob rejected this: not on a Friday"
    assert panel.drive.effects(after=mark) == []
    assert ApprovalDecision.objects.get().verdict == "REJECT"


def test_who_is_in_no_group_sees_it_and_cannot_decide(panel: Panel) -> None:
    approval = panel.approval(panel.start())
    answer = panel.decide(panel.outsider, approval)
    assert (answer.status_code, answer.json()["detail"]) == (
        403,
        "Only members of ops can approve or reject.",
    )
    page = panel.browser(panel.outsider).get(f"/approvals/{approval.pk}/").content.decode()
    assert "Only members of ops" in page
    assert "Approve</button>" not in page
    assert Approval.objects.get().decision_count == 0


def test_as_many_as_are_needed_approve_each_once_and_the_executor_never(panel: Panel) -> None:
    panel.group.users.add(panel.drive.deployer)
    panel.asks(approvers={"minimumCount": 2, "disallowPipelineExecutor": True})
    execution = panel.start()
    approval = panel.approval(execution)
    executor = panel.decide(panel.drive.deployer, approval)
    assert (executor.status_code, "started this run" in executor.json()["detail"]) == (403, True)
    assert panel.decide(panel.alice, approval).status_code == 202
    again = panel.decide(panel.alice, approval)
    assert (again.status_code, again.json()["detail"]) == (409, "You have already decided.")
    panel.drive.pass_time(61)
    execution.refresh_from_db()
    assert execution.status == "APPROVAL_WAITING"
    panel.group.users.remove(panel.bob)
    assert panel.decide(panel.bob, approval).status_code == 403
    panel.group.users.add(panel.bob)
    assert panel.decide(panel.bob, approval).status_code == 202
    panel.drive.until_over(execution)
    assert execution.status == "SUCCESS"
    assert execution.stages.get().steps.get(identifier="ask").outputs["approvers"] == ["alice", "bob"]
    assert panel.decide(panel.bob, approval).json()["detail"] == "The step is already approved."


def test_after_its_time_it_expires_and_nobody_can_approve(panel: Panel) -> None:
    panel.asks(approvers={"minimumCount": 2}, timeout="2m")
    execution = panel.start()
    approval = panel.approval(execution)
    assert panel.decide(panel.alice, approval).status_code == 202
    Approval.objects.update(expires_at="2020-01-01T00:00:00Z")
    late = panel.decide(panel.bob, approval)
    assert (late.status_code, late.json()["detail"].startswith("The approval expired at")) == (409, True)
    panel.drive.until_over(execution)
    assert (execution.status, execution.failure["code"]) == ("EXPIRED", "APPROVAL_EXPIRED")
    assert panel.approval(execution).status == "EXPIRED"


def test_what_is_given_in_time_counts_though_it_is_read_late(panel: Panel) -> None:
    execution = panel.start()
    assert panel.decide(panel.alice, panel.approval(execution)).status_code == 202
    Approval.objects.update(expires_at="2020-01-01T00:00:00Z")
    panel.drive.until_over(execution)
    assert execution.status == "SUCCESS"


def test_an_abort_takes_the_question_back(panel: Panel) -> None:
    execution = panel.start()
    approval = panel.approval(execution)
    abort_execution(actor=panel.drive.deployer, execution=execution)
    refused = panel.decide(panel.alice, approval)
    assert (refused.status_code, refused.json()["detail"].startswith("The execution is ending")) == (
        409,
        True,
    )
    panel.drive.until_over(execution)
    assert (execution.status, panel.approval(execution).status) == ("ABORTED", "WITHDRAWN")


def test_an_approval_is_for_what_later_stages_would_do_too(panel: Panel) -> None:
    drive = panel.drive
    asking, drive.pipeline = drive.pipeline, Pipeline.objects.get(identifier="canary_demo")
    deployed = drive.run("1.27")
    assert deployed.status == "SUCCESS", drive.log(deployed)
    later = yaml.safe_load(drive.pipeline.yaml)["pipeline"]["stages"][0]
    later["stage"] |= {"identifier": "later", "name": "Later"}
    drive.pipeline = asking
    document = yaml.safe_load(asking.yaml)
    document["pipeline"]["stages"].append(later)
    asking.yaml = yaml.safe_dump(document, sort_keys=False)
    asking.save(update_fields=["yaml"])
    approval = panel.approval(panel.start("1.28"))
    shown = panel.program(panel.alice).get(f"/api/v1/approvals/{approval.pk}").json()
    stage = shown["ahead"]["stages"][1]
    assert (stage["identifier"], stage["tried"]) == ("later", True)
    assert "CreateService" in [
        call["operation"] for step in stage["steps"] for call in step["would"]["calls"]
    ]
    old, name = approval.plan_hash, "webshop"
    change = {"cluster": "demo", "service": name, "desiredCount": 5}
    drive.call("ecs", "UpdateService", change)
    panel.program(panel.bob).post(f"/api/v1/approvals/{approval.pk}/check")
    drive.pass_time(2)
    approval.refresh_from_db()
    assert approval.plan_hash != old


def test_an_approval_is_for_what_was_shown_and_for_nothing_else(panel: Panel) -> None:
    panel.deploys("1.27")
    panel.asks(approvers={"minimumCount": 2})
    execution = panel.start("1.28")
    approval = panel.approval(execution)
    old = approval.plan_hash
    shown = panel.program(panel.alice).get(f"/api/v1/approvals/{approval.pk}").json()
    would = shown["ahead"]["stages"][0]["steps"][0]["would"]
    assert "UpdateService" in [call["operation"] for call in would["calls"]]
    assert any(
        line["sign"] == "+" and "1.28" in line["text"] for line in would["diffs"][0]["diff"]["hunks"][0]
    )
    assert panel.decide(panel.alice, approval).status_code == 202
    service = panel.drive.service()
    panel.drive.call(
        "ecs",
        "UpdateService",
        {"cluster": "demo", "service": "myapp", "desiredCount": service["desiredCount"] + 1},
    )
    check = panel.program(panel.bob).post(f"/api/v1/approvals/{approval.pk}/check")
    assert (check.status_code, check.json()["checking"]) == (202, True)
    panel.drive.pass_time(2)
    approval.refresh_from_db()
    assert approval.plan_hash != old
    stale = panel.program(panel.bob).post(
        f"/api/v1/approvals/{approval.pk}/approve", {"diff": old}, format="json"
    )
    assert (stale.status_code, stale.json()["detail"].startswith("The plan has changed")) == (
        409,
        True,
    )
    assert panel.decide(panel.bob, approval).status_code == 202
    panel.drive.pass_time(61)
    execution.refresh_from_db()
    assert execution.status == "APPROVAL_WAITING"
    assert panel.decide(panel.alice, approval).status_code == 202
    panel.drive.until_over(execution)
    assert execution.status == "SUCCESS", panel.drive.log(execution)


def test_what_approvers_fill_in_is_checked_and_settled_by_the_first(panel: Panel) -> None:
    panel.asks(
        approvers={"minimumCount": 2},
        approverInputs=[
            {"name": "ticket", "required": True},
            {"name": "size", "allowedValues": ["s", "l"], "defaultValue": "s"},
        ],
    )
    execution = panel.start()
    approval = panel.approval(execution)
    refused = panel.decide(panel.alice, approval, inputs={"size": "xl", "more": "x"})
    assert (refused.status_code, sorted(one["path"] for one in refused.json()["errors"])) == (
        400,
        ["inputs.more", "inputs.size", "inputs.ticket"],
    )
    assert panel.decide(panel.alice, approval, inputs={"ticket": "T-1"}).status_code == 202
    assert panel.decide(panel.bob, approval, inputs={"ticket": "T-2"}).status_code == 409
    assert panel.decide(panel.bob, approval).status_code == 202
    panel.drive.until_over(execution)
    outputs = execution.stages.get().steps.get(identifier="ask").outputs
    assert outputs["approverInputs"] == {"ticket": "T-1", "size": "s"}


def test_what_was_entered_on_the_page_stands_there_again_when_it_is_refused(panel: Panel) -> None:
    panel.asks(
        approverInputs=[
            {"name": "ticket", "required": True},
            {"name": "size", "allowedValues": ["s", "l"], "defaultValue": "s"},
        ],
    )
    approval = panel.approval(panel.start())
    browser = panel.browser(panel.alice)
    entered = {
        "verdict": "approve",
        "comment": "long & thought over",
        "input-ticket": "T-1",
        "input-size": "l",
    }
    answer = browser.post(f"/approvals/{approval.pk}/decide/", {**entered, "diff": "another"})
    page = answer.content.decode()
    assert (answer.status_code, "The plan has changed." in page) == (409, True)
    assert ">long &amp; thought over</textarea>" in page
    assert 'name="input-ticket" value="T-1"' in page
    assert "<option selected>l</option>" in page
    wrong = {**entered, "diff": approval.plan_hash, "input-ticket": ""}
    answer = browser.post(f"/approvals/{approval.pk}/decide/", wrong)
    assert (answer.status_code, "ticket is required" in answer.content.decode()) == (400, True)
    assert Approval.objects.get().decision_count == 0


def test_a_failed_approval_is_not_waved_through_and_a_retry_asks_again(panel: Panel) -> None:
    panel.asks(
        failureStrategies=[
            {
                "onFailure": {
                    "errors": ["ApprovalRejection"],
                    "action": {
                        "type": "ManualIntervention",
                        "spec": {"timeout": "1h", "onTimeout": {"action": {"type": "Abort"}}},
                    },
                }
            }
        ]
    )
    execution = panel.start()
    assert panel.decide(panel.alice, panel.approval(execution), "reject").status_code == 202
    panel.drive.pass_time(3)
    execution.refresh_from_db()
    assert execution.status == "INTERVENTION_WAITING"
    for decision in ("MARK_AS_SUCCESS", "SKIP", "IGNORE"):
        with pytest.raises(Conflict):
            decide_step(actor=panel.drive.deployer, execution=execution, step="ask", decision=decision)
    decide_step(actor=panel.drive.deployer, execution=execution, step="ask", decision="RETRY")
    panel.drive.pass_time(3)
    second = panel.approval(execution)
    assert (second.attempt, second.status) == (2, "WAITING")
    assert panel.decide(panel.alice, second).status_code == 202
    panel.drive.until_over(execution)
    assert execution.status == "SUCCESS"


def test_a_worker_that_dies_around_a_decision_loses_and_repeats_nothing(panel: Panel) -> None:
    execution = panel.start()
    assert panel.decide(panel.alice, panel.approval(execution)).status_code == 202
    passed: set[str] = set()
    for at in range(1, 14):
        countdown = Countdown(at, _die)
        set_hook(countdown)
        with suppress(Death):
            panel.drive.reconcile()
        set_hook(None)
        passed |= set(countdown.passed)
        panel.drive.clock.move(61)
    assert {"commit.before", "commit.after", "lease.claimed", "lease.released"} <= passed
    panel.drive.until_over(execution)
    assert execution.status == "SUCCESS", panel.drive.log(execution)
    assert AuditEntry.objects.filter(action="approval.approved").count() == 1
    assert Approval.objects.filter(status="APPROVED").count() == 1
    assert panel.drive.effects().count("RegisterTaskDefinition") == 1
    waiting = [line for line in panel.drive.log(execution) if line.startswith("Waiting for approval")]
    assert len(waiting) == 1


def test_of_two_who_decide_at_once_only_as_many_count_as_are_needed(panel: Panel) -> None:
    execution = panel.start()
    approval = panel.approval(execution)
    row = Approval.objects.get(pk=approval.pk)
    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(_approved, person, row) for person in (panel.alice, panel.bob)]
    assert sorted(one.result() for one in both) == [False, True]
    assert ApprovalDecision.objects.count() == 1
    panel.drive.until_over(execution)
    assert execution.status == "SUCCESS"


def _approved(person: User, approval: Approval) -> bool:
    try:
        approve_step(actor=person, approval=approval, diff=approval.plan_hash)
    except Conflict:
        return False
    finally:
        connection.close()
    return True


def _die() -> None:
    raise Death
