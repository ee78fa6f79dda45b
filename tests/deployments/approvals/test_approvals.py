"""A run waits for approval, people decide, and it goes on or ends."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
import yaml
from django.db import connection
from django.utils import timezone

from connectors.models import FileNode
from deployments.approvals.operations import approve_step
from deployments.approvals.queries import count_waiting_approvals, list_waiting_approvals
from deployments.execution.operations import abort_execution, decide_step
from deployments.journal.runtime import set_hook
from deployments.models import Approval, ApprovalDecision, Execution, Interrupt, StepExecution
from pipelines.models import Pipeline, Trigger, TriggerFiring
from rbac.models import AuditEntry, User
from tests.deployments.approvals.conftest import Panel
from tests.deployments.engine.simulator.schedule import Death
from tests.fixtures.worker_crashes import Countdown
from web.http.problems import Conflict

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_run_waits_until_a_member_of_the_group_approves_on_the_page(panel: Panel) -> None:
    panel.insert_approval(approvalMessage="<+service.name> goes out")
    execution = panel.start()
    approval = panel.get_approval(execution)
    browser = panel.create_browser(panel.alice)
    assert "EcsRollingDeploy" in browser.get(f"/approvals/{approval.pk}/").content.decode()
    assert str(approval.pk) in browser.get("/approvals/").content.decode()
    form = {"diff": approval.plan_hash, "verdict": "approve", "comment": "looks right"}
    response = browser.post(f"/approvals/{approval.pk}/decide/", form)
    assert response.headers["Location"] == f"/deployments/{execution.pk}/"
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
    response = panel.decide(panel.bob, panel.get_approval(execution), "reject", comment="not on a Friday")
    assert response.status_code == 202, response.json()
    panel.drive.until_over(execution)
    assert execution.status == "APPROVAL_REJECTED"
    assert "bob rejects this: not on a Friday" in panel.drive.log(execution)
    assert execution.failure["message"] == "bob rejected this: not on a Friday"
    assert panel.drive.effects(after=mark) == []
    assert ApprovalDecision.objects.get().verdict == "REJECT"


def test_who_is_in_no_group_sees_it_and_cannot_decide(panel: Panel) -> None:
    approval = panel.get_approval(panel.start())
    response = panel.decide(panel.outsider, approval)
    assert (response.status_code, response.json()["detail"]) == (
        403,
        "Only members of ops can approve or reject.",
    )
    page = panel.create_browser(panel.outsider).get(f"/approvals/{approval.pk}/").content.decode()
    assert "Only members of ops" in page
    assert "Approve</button>" not in page
    assert Approval.objects.get().decision_count == 0


def test_as_many_as_are_needed_approve_each_once_and_the_executor_never(panel: Panel) -> None:
    panel.group.users.add(panel.drive.deployer)
    panel.insert_approval(approvers={"minimumCount": 2, "disallowPipelineExecutor": True})
    execution = panel.start()
    approval = panel.get_approval(execution)
    executor = panel.decide(panel.drive.deployer, approval)
    assert (executor.status_code, "started this run" in executor.json()["detail"]) == (403, True)
    assert panel.decide(panel.alice, approval).status_code == 202
    repeat_response = panel.decide(panel.alice, approval)
    assert (repeat_response.status_code, repeat_response.json()["detail"]) == (
        409,
        "You have already decided.",
    )
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


@pytest.mark.parametrize("is_excluded", [False, True])
def test_the_log_says_that_nobody_but_the_executor_could_approve(panel: Panel, is_excluded: bool) -> None:
    panel.group.users.set([panel.drive.deployer])
    panel.insert_approval(approvers={"disallowPipelineExecutor": is_excluded})
    text = (
        "These groups have 0 members who did not start this run, and 1 have to approve: add people to them."
    )
    assert (text in panel.drive.log(panel.start())) == is_excluded


def test_who_redelivered_the_event_of_the_run_does_not_approve_it(panel: Panel) -> None:
    panel.insert_approval(approvers={"disallowPipelineExecutor": True})
    execution = panel.start()
    trigger = Trigger.objects.create(
        pipeline=panel.drive.pipeline, identifier="push", name="Push", kind="webhook"
    )
    TriggerFiring.objects.create(
        trigger=trigger,
        delivery_id="1",
        event_key="1",
        received_at=timezone.now(),
        redelivered_by=panel.alice,
        status="STARTED",
        execution_id=execution.pk,
    )
    assert [list_waiting_approvals(person).count() for person in (panel.alice, panel.bob)] == [0, 1]
    counts = count_waiting_approvals([panel.alice, panel.bob])
    assert (counts[panel.alice.pk], counts[panel.bob.pk]) == (0, 1)
    answer = panel.decide(panel.alice, panel.get_approval(execution))
    assert (answer.status_code, "started this run" in answer.json()["detail"]) == (403, True)
    assert panel.decide(panel.bob, panel.get_approval(execution)).status_code == 202


def test_who_started_an_earlier_attempt_is_not_asked_about_the_next_one(panel: Panel) -> None:
    panel.insert_approval(approvers={"disallowPipelineExecutor": True})
    execution = panel.start()
    first = panel.drive.start("1.26")
    Execution.objects.filter(pk=first.pk).update(started_by=panel.alice)
    Execution.objects.filter(pk=execution.pk).update(first_attempt=first.pk, attempt=2)
    assert panel.decide(panel.alice, panel.get_approval(execution)).status_code == 403
    assert [list_waiting_approvals(person).count() for person in (panel.alice, panel.bob)] == [0, 1]
    counts = count_waiting_approvals([panel.alice, panel.bob])
    assert (counts[panel.alice.pk], counts[panel.bob.pk]) == (0, 1)


def test_after_its_time_it_expires_and_nobody_can_approve(panel: Panel) -> None:
    panel.insert_approval(approvers={"minimumCount": 2}, timeout="2m")
    execution = panel.start()
    approval = panel.get_approval(execution)
    assert panel.decide(panel.alice, approval).status_code == 202
    Approval.objects.update(expires_at="2020-01-01T00:00:00Z")
    late_response = panel.decide(panel.bob, approval)
    assert (
        late_response.status_code,
        late_response.json()["detail"].startswith("The approval expired at"),
    ) == (409, True)
    panel.drive.until_over(execution)
    assert (execution.status, execution.failure["code"]) == ("EXPIRED", "APPROVAL_EXPIRED")
    assert panel.get_approval(execution).status == "EXPIRED"


def test_what_is_given_in_time_counts_though_it_is_read_late(panel: Panel) -> None:
    execution = panel.start()
    assert panel.decide(panel.alice, panel.get_approval(execution)).status_code == 202
    Approval.objects.update(expires_at="2020-01-01T00:00:00Z")
    panel.drive.until_over(execution)
    assert execution.status == "SUCCESS"


def test_an_abort_takes_the_question_back(panel: Panel) -> None:
    execution = panel.start()
    approval = panel.get_approval(execution)
    abort_execution(actor=panel.drive.deployer, execution=execution)
    response = panel.decide(panel.alice, approval)
    assert (response.status_code, response.json()["detail"].startswith("The execution is ending")) == (
        409,
        True,
    )
    panel.drive.until_over(execution)
    approval.refresh_from_db()
    assert (execution.status, approval.status) == ("ABORTED", "WITHDRAWN")
    assert approval.ended_at is not None


def test_an_approval_is_for_what_later_stages_would_do_too(panel: Panel) -> None:
    drive = panel.drive
    approval_pipeline, drive.pipeline = drive.pipeline, Pipeline.objects.get(identifier="canary_demo")
    first_execution = drive.run("1.27")
    assert first_execution.status == "SUCCESS", drive.log(first_execution)
    later_stage = yaml.safe_load(drive.pipeline.yaml)["pipeline"]["stages"][0]
    later_stage["stage"] |= {"identifier": "later", "name": "Later"}
    drive.pipeline = approval_pipeline
    document = yaml.safe_load(approval_pipeline.yaml)
    document["pipeline"]["stages"].append(later_stage)
    approval_pipeline.yaml = yaml.safe_dump(document, sort_keys=False)
    approval_pipeline.save(update_fields=["yaml"])
    approval = panel.get_approval(panel.start("1.28"))
    body = panel.create_api_client(panel.alice).get(f"/api/v1/approvals/{approval.pk}").json()
    stage = body["ahead"]["stages"][1]
    assert (stage["identifier"], stage["tried"]) == ("later", True)
    assert "CreateService" in [
        call["operation"] for step in stage["steps"] for call in step["would"]["calls"]
    ]
    old_hash, name = approval.plan_hash, "webshop"
    change = {"cluster": "demo", "service": name, "desiredCount": 5}
    drive.call("ecs", "UpdateService", change)
    panel.create_api_client(panel.bob).post(f"/api/v1/approvals/{approval.pk}/check")
    drive.pass_time(2)
    approval.refresh_from_db()
    assert approval.plan_hash != old_hash


@pytest.mark.parametrize("unresolved_spec", [None, {}], ids=["resolved", "unresolved"])
def test_a_plan_says_that_this_version_does_not_know_a_later_step(
    panel: Panel, unresolved_spec: dict[str, str] | None
) -> None:
    drive = panel.drive
    document = yaml.safe_load(drive.pipeline.yaml)
    steps = document["pipeline"]["stages"][0]["stage"]["spec"]["execution"]["steps"]
    spec = {"service": "myapp", "instances": 2}
    steps[:] = [*steps[::-1], {"step": {"type": "EcsScale", "identifier": "scale", "spec": spec}}]
    drive.pipeline.yaml = yaml.safe_dump(document, sort_keys=False)
    drive.pipeline.save(update_fields=["yaml"])
    execution = drive.start("1.27")
    changes = {"type": "EcsGradualScale", "unresolved_spec": unresolved_spec}
    assert StepExecution.objects.filter(stage__execution=execution, type="EcsScale").update(**changes) == 1
    drive.pass_time(90)
    execution.refresh_from_db()
    assert execution.status == "APPROVAL_WAITING", drive.log(execution)
    assert not Interrupt.objects.filter(kind="FAIL").exists()
    approval = panel.get_approval(execution)
    body = panel.create_api_client(panel.alice).get(f"/api/v1/approvals/{approval.pk}").json()
    (would,) = [step["would"] for step in body["ahead"]["stages"][0]["steps"]]
    assert would["failure"]["code"] == "UNKNOWN_ACTION"
    assert "Unknown kind of step in this version of Slipway: EcsGradualScale" in would["failure"]["message"]


def test_an_approval_is_for_what_was_shown_and_for_nothing_else(panel: Panel) -> None:
    panel.deploy_without_approval("1.27")
    panel.insert_approval(approvers={"minimumCount": 2})
    execution = panel.start("1.28")
    approval = panel.get_approval(execution)
    old_hash = approval.plan_hash
    body = panel.create_api_client(panel.alice).get(f"/api/v1/approvals/{approval.pk}").json()
    planned_step = body["ahead"]["stages"][0]["steps"][0]["would"]
    assert "UpdateService" in [call["operation"] for call in planned_step["calls"]]
    assert any(
        line["sign"] == "+" and "1.28" in line["text"]
        for line in planned_step["diffs"][0]["diff"]["hunks"][0]
    )
    assert panel.decide(panel.alice, approval).status_code == 202
    service = panel.drive.service()
    panel.drive.call(
        "ecs",
        "UpdateService",
        {"cluster": "demo", "service": "myapp", "desiredCount": service["desiredCount"] + 1},
    )
    check = panel.create_api_client(panel.bob).post(f"/api/v1/approvals/{approval.pk}/check")
    assert (check.status_code, check.json()["checking"]) == (202, True)
    panel.drive.pass_time(2)
    approval.refresh_from_db()
    assert approval.plan_hash != old_hash
    stale_response = panel.create_api_client(panel.bob).post(
        f"/api/v1/approvals/{approval.pk}/approve", {"diff": old_hash}, format="json"
    )
    assert (
        stale_response.status_code,
        stale_response.json()["detail"].startswith("The plan has changed"),
    ) == (
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


def test_a_plan_hides_the_secret_inputs_of_the_run(panel: Panel) -> None:
    panel.deploy_without_approval("1.27")
    panel.insert_approval()
    document = yaml.safe_load(panel.drive.pipeline.yaml)
    document["pipeline"]["variables"] = {"token": {"type": "Secret", "required": True}}
    panel.drive.pipeline.yaml = yaml.safe_dump(document, sort_keys=False)
    panel.drive.pipeline.save(update_fields=["yaml"])
    node = FileNode.objects.get(path="/ECS Tutorial/RegisterTaskDefinitionRequest.yaml")
    labels = "dockerLabels: {token: <+pipeline.variables.token>}"
    node.content = node.content.replace("environment: []", f"environment: []\n    {labels}")
    node.save()
    approval = panel.get_approval(panel.start("1.28", inputs={"token": "hush-hush"}))
    body = panel.create_api_client(panel.outsider).get(f"/api/v1/approvals/{approval.pk}").json()
    text = json.dumps(body["ahead"], ensure_ascii=False)
    assert "hush-hush" not in text
    planned_step = body["ahead"]["stages"][0]["steps"][0]["would"]
    (call,) = (call for call in planned_step["calls"] if call["operation"] == "RegisterTaskDefinition")
    assert call["params"]["containerDefinitions"][0]["dockerLabels"] == {"token": "•••"}
    assert "•••" in json.dumps(planned_step["diffs"], ensure_ascii=False)


def test_what_approvers_fill_in_is_checked_and_settled_by_the_first(panel: Panel) -> None:
    panel.insert_approval(
        approvers={"minimumCount": 2},
        approverInputs=[
            {"name": "ticket", "required": True},
            {"name": "size", "allowedValues": ["s", "l"], "defaultValue": "s"},
        ],
    )
    execution = panel.start()
    approval = panel.get_approval(execution)
    response = panel.decide(panel.alice, approval, inputs={"size": "xl", "more": "x"})
    assert (response.status_code, sorted(error["path"] for error in response.json()["errors"])) == (
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
    panel.insert_approval(
        approverInputs=[
            {"name": "ticket", "required": True},
            {"name": "size", "allowedValues": ["s", "l"], "defaultValue": "s"},
        ],
    )
    approval = panel.get_approval(panel.start())
    browser = panel.create_browser(panel.alice)
    form = {
        "verdict": "approve",
        "comment": "long & thought over",
        "input-ticket": "T-1",
        "input-size": "l",
    }
    response = browser.post(f"/approvals/{approval.pk}/decide/", {**form, "diff": "another"})
    page = response.content.decode()
    assert (response.status_code, "The plan has changed." in page) == (409, True)
    assert ">long &amp; thought over</textarea>" in page
    assert 'name="input-ticket" value="T-1"' in page
    assert "<option selected>l</option>" in page
    invalid_form = {**form, "diff": approval.plan_hash, "input-ticket": ""}
    response = browser.post(f"/approvals/{approval.pk}/decide/", invalid_form)
    assert (response.status_code, "ticket is required" in response.content.decode()) == (400, True)
    assert Approval.objects.get().decision_count == 0


def test_a_failed_approval_is_not_waved_through_and_a_retry_asks_again(panel: Panel) -> None:
    panel.insert_approval(
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
    assert panel.decide(panel.alice, panel.get_approval(execution), "reject").status_code == 202
    panel.drive.pass_time(3)
    execution.refresh_from_db()
    assert execution.status == "INTERVENTION_WAITING"
    for decision in ("MARK_AS_SUCCESS", "SKIP", "IGNORE"):
        with pytest.raises(Conflict):
            decide_step(actor=panel.drive.deployer, execution=execution, step="ask", decision=decision)
    decide_step(actor=panel.drive.deployer, execution=execution, step="ask", decision="RETRY")
    panel.drive.pass_time(3)
    second = panel.get_approval(execution)
    assert (second.attempt, second.status) == (2, "WAITING")
    assert panel.decide(panel.alice, second).status_code == 202
    panel.drive.until_over(execution)
    assert execution.status == "SUCCESS"


@pytest.mark.parametrize(
    "action",
    [
        {"type": "Ignore"},
        {"type": "MarkAsSuccess"},
        {
            "type": "ManualIntervention",
            "spec": {"timeout": "1m", "onTimeout": {"action": {"type": "Ignore"}}},
        },
    ],
    ids=["ignored", "marked as success", "nobody decides"],
)
def test_a_failure_strategy_lets_nothing_pass_that_was_rejected(panel: Panel, action: dict[str, Any]) -> None:
    panel.insert_approval(failureStrategies=[{"onFailure": {"errors": ["AllErrors"], "action": action}}])
    execution = panel.start()
    assert panel.decide(panel.alice, panel.get_approval(execution), "reject").status_code == 202
    panel.drive.until_over(execution)
    assert execution.status == "APPROVAL_REJECTED"
    assert not panel.drive.effects()
    [line] = [line for line in panel.drive.log(execution) if "neither ignored" in line]
    assert line == "An approval is neither ignored nor marked as success: the stage is rolled back instead"


def test_a_rejected_approval_that_is_asked_again_soon_is_not_skipped(panel: Panel) -> None:
    retry = {
        "type": "Retry",
        "spec": {
            "retryCount": 1,
            "retryIntervals": ["1h"],
            "onRetryFailure": {"action": {"type": "Abort"}},
        },
    }
    panel.insert_approval(failureStrategies=[{"onFailure": {"errors": ["AllErrors"], "action": retry}}])
    execution = panel.start()
    assert panel.decide(panel.alice, panel.get_approval(execution), "reject").status_code == 202
    panel.drive.pass_time(3)
    execution.refresh_from_db()
    assert execution.stages.get().steps.get(identifier="ask").retry_at is not None
    with pytest.raises(Conflict):
        decide_step(actor=panel.drive.deployer, execution=execution, step="ask", decision="SKIP")


def test_a_worker_that_dies_around_a_decision_loses_and_repeats_nothing(panel: Panel) -> None:
    execution = panel.start()
    assert panel.decide(panel.alice, panel.get_approval(execution)).status_code == 202
    passed_names: set[str] = set()
    for stop_index in range(1, 14):
        crash_countdown = Countdown(stop_index, _die)
        set_hook(crash_countdown)
        with suppress(Death):
            panel.drive.reconcile()
        set_hook(None)
        passed_names |= set(crash_countdown.passed)
        panel.drive.clock.move(61)
    assert {"commit.before", "commit.after", "lease.claimed", "lease.released"} <= passed_names
    panel.drive.until_over(execution)
    assert execution.status == "SUCCESS", panel.drive.log(execution)
    assert AuditEntry.objects.filter(action="approval.approved").count() == 1
    assert Approval.objects.filter(status="APPROVED").count() == 1
    assert panel.drive.effects().count("RegisterTaskDefinition") == 1
    waiting_lines = [line for line in panel.drive.log(execution) if line.startswith("Waiting for approval")]
    assert len(waiting_lines) == 1


def test_of_two_who_decide_at_once_only_as_many_count_as_are_needed(panel: Panel) -> None:
    execution = panel.start()
    approval = panel.get_approval(execution)
    row = Approval.objects.get(pk=approval.pk)
    with ThreadPoolExecutor(2) as threads:
        futures = [threads.submit(_try_approve, person, row) for person in (panel.alice, panel.bob)]
    assert sorted(future.result() for future in futures) == [False, True]
    assert ApprovalDecision.objects.count() == 1
    panel.drive.until_over(execution)
    assert execution.status == "SUCCESS"


def _try_approve(person: User, approval: Approval) -> bool:
    try:
        approve_step(actor=person, approval=approval, diff=approval.plan_hash)
    except Conflict:
        return False
    finally:
        connection.close()
    return True


def _die() -> None:
    raise Death
