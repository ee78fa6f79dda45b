"""Whoever asked is told how executions end, that they go back and why, and that they wait for people."""

import json
from typing import Any

import pytest

from catalog.models import Environment, Infrastructure
from deployments.engine.reconcile import CHECK_INTERRUPTS_SECONDS
from deployments.execution.operations import (
    abort_execution,
    decide_step,
    retry_execution,
    roll_back_execution,
    start_attempt,
)
from deployments.journal.runtime import set_hook
from deployments.models import Execution, Interrupt
from notifications.events import SUBSCRIBABLE_EVENTS, EventType
from notifications.models import Notification
from notifications.outbox_sender import send_due_notifications
from rbac.models import Scope
from tests.deployments.approvals.conftest import Panel, panel
from tests.deployments.conftest import _full_buckets, drive
from tests.deployments.engine.conftest import DEPLOY, Write, job, pipeline_text, stage_text, write
from tests.deployments.execution.conftest import Strategies, UntilAsked, strategies, until_asked
from tests.fixtures.engine_driver import Drive
from tests.notifications.conftest import Ruled
from tests.notifications.webhook_receiver import Receiver

__all__ = ["_full_buckets", "drive", "panel", "strategies", "until_asked", "write"]

EVERYTHING = tuple(
    EventType(value) for value, _ in SUBSCRIBABLE_EVENTS if value != EventType.EXECUTION_STARTED
)


def demo() -> Scope:
    return Scope.objects.get(path="account/default/demo")


def test_a_success_is_told_with_what_went_where(drive: Drive, receiver: Receiver, ruled: Ruled) -> None:
    ruled(demo(), *EVERYTHING)
    execution = drive.run("1.27")
    send_due_notifications()
    (document,) = (request.document for request in receiver.received)
    assert document["event"] == "execution.succeeded"
    assert (document["status"], document["execution"]) == ("SUCCESS", str(execution.pk))
    assert (document["services"], document["environments"], document["pipeline"]) == (
        ["myapp"],
        ["dev"],
        "rolling_demo",
    )
    assert f"#{execution.number} succeeded (myapp to dev)" in document["text"]
    assert document["url"].endswith(f"/deployments/{execution.pk}/")


def test_the_start_is_told_once(drive: Drive, receiver: Receiver, ruled: Ruled) -> None:
    ruled(demo(), EventType.EXECUTION_STARTED)
    execution = drive.run("1.27")
    send_due_notifications()
    (document,) = (request.document for request in receiver.received)
    assert (document["event"], document["status"]) == ("execution.started", "RUNNING")
    assert document["text"].endswith(f"#{execution.number} started (myapp to dev).")


def test_a_rollback_is_told_as_it_starts_with_its_cause_then_the_failure_then_its_end(
    drive: Drive, receiver: Receiver, ruled: Ruled
) -> None:
    drive.run("1.27")
    ruled(demo(), *EVERYTHING)
    execution = drive.run("crash")
    send_due_notifications()
    started, failed, ended = (request.document for request in receiver.received)
    assert (started["event"], started["status"]) == ("rollback.started", "ROLLING_BACK")
    assert (failed["event"], failed["status"]) == ("execution.failed", "FAILED")
    assert (ended["event"], ended["status"]) == ("rollback.ended", "FAILED")
    assert execution.failure is not None
    assert started["started_by"] == failed["started_by"] == "deployer"
    assert failed["last_output"]
    assert failed["last_output"] == execution.failure["last_output"][-10:]
    assert started["cause"] == failed["cause"] == " ".join(execution.failure["message"].split())
    assert "failed and was rolled back" in failed["text"]
    assert failed["advice"] == execution.failure["advice"]
    assert failed["text"].endswith(f"What to do: {failed['advice']}")


def test_a_rollback_that_somebody_asks_for_is_told_with_who_it_was(
    drive: Drive, receiver: Receiver, ruled: Ruled
) -> None:
    drive.run("1.26")
    execution = drive.run("1.27")
    ruled(demo(), *EVERYTHING)
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    send_due_notifications()
    assert receiver.events == ["rollback.started", "rollback.ended"]
    assert receiver.received[0].document["cause"] == "deployer requested a rollback"


def test_nothing_is_written_where_nobody_listens(drive: Drive, ruled: Ruled) -> None:
    ruled(demo(), EventType.DRIFT_FOUND)
    drive.run("1.27")
    assert not Notification.objects.exists()


def test_an_approval_that_waits_is_told_with_who_is_asked(
    panel: Panel, receiver: Receiver, ruled: Ruled
) -> None:
    ruled(demo(), EventType.APPROVAL_WAITING)
    panel.insert_approval(approvalMessage="Look at the plan first")
    panel.start()
    send_due_notifications()
    (document,) = (request.document for request in receiver.received)
    assert "awaits approval by" in document["text"]
    assert document["cause"] == "Look at the plan first"


def test_an_abort_is_told_as_one_and_not_as_a_failure(drive: Drive, receiver: Receiver, ruled: Ruled) -> None:
    drive.run("1.26")
    ruled(demo(), *EVERYTHING)
    execution = drive.start("1.27")
    drive.pass_time(2)
    abort_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    send_due_notifications()
    assert receiver.events == ["execution.aborted"]
    assert "was aborted" in receiver.received[0].document["text"]


def test_a_step_that_waits_for_a_person_is_told_with_what_failed(
    drive: Drive, receiver: Receiver, ruled: Ruled, strategies: Strategies, until_asked: UntilAsked
) -> None:
    drive.run("1.26")
    ruled(demo(), EventType.INTERVENTION_WAITING)
    strategies(
        """
- onFailure:
    errors: [AllErrors]
    action: {type: ManualIntervention, spec: {timeout: 1h, onTimeout: {action: {type: StageRollback}}}}
"""
    )
    execution = until_asked(drive.start("crash"))
    send_due_notifications()
    (document,) = (request.document for request in receiver.received)
    assert (document["event"], document["execution"]) == ("intervention.waiting", str(execution.pk))
    assert "awaits manual intervention at step" in document["text"]
    assert "exited with code 1" in document["cause"]


ASK_A_PERSON = (
    "[{onFailure: {errors: [AllErrors], action: {type: ManualIntervention, "
    "spec: {timeout: 1h, onTimeout: {action: {type: StageRollback}}}}}}]"
)


def _add_environment(identifier: str) -> None:
    """Add an environment with the infrastructure of the demo."""
    infrastructure = Infrastructure.objects.get(identifier="sandbox")
    environment = Environment.objects.create(scope=demo(), identifier=identifier, name=identifier)
    infrastructure.pk, infrastructure.environment = None, environment
    infrastructure.save(force_insert=True)


def write_two_stages(
    drive: Drive, write: Write, *, failing: str = "", fields: str = "", dev_steps: str = ""
) -> None:
    """Write a pipeline with a stage for dev and one for prod, and have the job of one fail."""
    _add_environment("prod")
    wait = "- step: {identifier: pause, type: Wait, spec: {duration: 10s}}\n"
    dev = stage_text(wait + dev_steps + (job(drive, "fails") if failing == "dev" else ""), "dev")
    prod = stage_text(wait + (job(drive, "fails") if failing == "prod" else ""), "prod", fields)
    prod = prod.replace("environmentRef: dev", "environmentRef: prod")
    write(pipeline_text(dev, prod, variables="{sha: x}"))
    drive.sandbox.fault("denied", service="ecs", operation="RunTask")


def report_to_commits(ruled: Ruled, *more: EventType) -> None:
    options = {"repository": "team/app", "commit": "sha"}
    ends = (EventType.EXECUTION_SUCCEEDED, EventType.EXECUTION_FAILED, EventType.EXECUTION_ABORTED)
    ruled(demo(), EventType.EXECUTION_STARTED, *ends, *more, kind="GitHub", secret="token", options=options)


def list_reports() -> list[dict[str, Any]]:
    """Return what is reported to commits, in order."""
    rows = Notification.objects.filter(rule__kind="GitHub").order_by("created_at")
    return [json.loads(row.body) for row in rows]


COMMIT = {"sha": "a" * 40}


@pytest.mark.parametrize(
    ("failing", "fields", "deployments", "place"),
    [
        ("", "when: {pipelineStatus: Success, condition: 'false'}", [["dev", "SUCCEEDED"]], "dev"),
        ("dev", "", [["dev", "FAILED"]], "dev"),
        ("prod", "", [["dev", "SUCCEEDED"], ["prod", "FAILED"]], "dev, prod"),
    ],
)
def test_git_services_are_told_only_of_environments_that_the_execution_reached(
    drive: Drive, ruled: Ruled, write: Write, failing: str, fields: str, deployments: list[str], place: str
) -> None:
    report_to_commits(ruled)
    write_two_stages(drive, write, failing=failing, fields=fields)
    drive.run("done", inputs=COMMIT)
    started, *_, ended = list_reports()
    assert started["deployments"] == [["dev", "RUNNING"]]
    assert started["environments"] == ended["environments"] == ["dev", "prod"]
    assert ended["deployments"] == deployments
    assert f"(myapp to {place})" in ended["text"]


def test_an_attempt_reports_no_environment_whose_results_it_reuses(
    drive: Drive, ruled: Ruled, write: Write
) -> None:
    write_two_stages(drive, write, failing="prod")
    failed = drive.run("done", inputs=COMMIT)
    report_to_commits(ruled)
    drive.until_over(start_attempt(actor=drive.deployer, execution=failed))
    started, ended = list_reports()
    assert started["deployments"] == [["prod", "RUNNING"]]
    assert ended["deployments"] == [["prod", "FAILED"]]
    assert "(myapp to prod)" in ended["text"]


@pytest.mark.parametrize(
    ("seconds", "deployments", "place"), [(0, [], ""), (5, [["dev", "ABORTED"]], "(myapp to dev)")]
)
def test_an_abort_reports_no_environment_whose_stage_had_not_begun(
    drive: Drive, ruled: Ruled, write: Write, seconds: float, deployments: list[list[str]], place: str
) -> None:
    write_two_stages(drive, write)
    report_to_commits(ruled)
    execution = drive.start("done", inputs=COMMIT)
    drive.pass_time(seconds)
    abort_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    ended = list_reports()[-1]
    assert (ended["event"], ended["deployments"]) == ("execution.aborted", deployments)
    assert ("(myapp" in ended["text"], place in ended["text"]) == (bool(place), True)


def abort_between_stages(drive: Drive) -> Execution:
    """Start an execution and abort it when its first stage has ended, before the second one begins."""
    execution = drive.start("1.27", inputs=COMMIT)

    def abort_once(name: str) -> None:
        has_ended = execution.stages.filter(identifier="dev", status="SUCCESS").exists()
        if name == "commit.after" and has_ended and not execution.interrupts.exists():
            abort_execution(actor=drive.deployer, execution=execution)
            # So late that the pass reads the requests of people again.
            drive.clock.move(CHECK_INTERRUPTS_SECONDS)

    set_hook(abort_once)
    try:
        return drive.until_over(execution)
    finally:
        set_hook(None)


def test_an_abort_between_two_stages_and_a_rollback_after_it_leave_the_second_one_out(
    drive: Drive, ruled: Ruled, write: Write
) -> None:
    write_two_stages(drive, write, dev_steps=DEPLOY)
    report_to_commits(ruled, EventType.ROLLBACK_STARTED, EventType.ROLLBACK_ENDED)
    execution = abort_between_stages(drive)
    assert list_reports()[-1]["deployments"] == [["dev", "SUCCEEDED"]]
    count = len(list_reports())
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    started, *ends = list_reports()[count:]
    assert started["deployments"] == [["dev", "RUNNING"]]
    assert {str(end["deployments"]) for end in ends} == {"[['dev', 'ABORTED']]"}
    prod = execution.stages.get(identifier="prod")
    assert (prod.status, prod.skip_reason) == ("ABORTED", "because the execution ended before it began")


def test_a_retry_reports_the_stage_that_an_abort_had_kept_from_beginning(
    drive: Drive, ruled: Ruled, write: Write
) -> None:
    write_two_stages(drive, write, failing="prod")
    report_to_commits(ruled, EventType.ROLLBACK_STARTED)
    execution = abort_between_stages(drive)
    retry_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    assert [report["deployments"] for report in list_reports()[-2:]] == [
        [["dev", "SUCCEEDED"], ["prod", "RUNNING"]],
        [["dev", "SUCCEEDED"], ["prod", "FAILED"]],
    ]


@pytest.mark.parametrize("is_decision", [True, False])
def test_a_stage_that_was_aborted_before_its_first_step_started_is_reported_as_aborted(
    drive: Drive, ruled: Ruled, write: Write, until_asked: UntilAsked, is_decision: bool
) -> None:
    unclear = 'when: {pipelineStatus: Success, condition: "<+pipeline.variables.sha> > 3"}'
    write_two_stages(drive, write, fields=f"{unclear}\n    failureStrategies: {ASK_A_PERSON}")
    report_to_commits(ruled)
    execution = until_asked(drive.start("done", inputs=COMMIT))
    assert list_reports()[-1]["deployments"] == [["dev", "SUCCEEDED"], ["prod", "RUNNING"]]
    if is_decision:
        decide_step(actor=drive.deployer, execution=execution, step="pause", decision=Interrupt.Kind.ABORT)
    else:
        abort_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    ended = list_reports()[-1]
    assert (ended["event"], ended["deployments"]) == (
        "execution.aborted",
        [["dev", "SUCCEEDED"], ["prod", "ABORTED"]],
    )


def test_an_abort_in_the_queue_of_a_service_is_reported_as_aborted(
    drive: Drive, ruled: Ruled, write: Write
) -> None:
    first = drive.start("1.27")
    drive.pass_time(2)
    write(pipeline_text(stage_text(DEPLOY, "dev"), variables="{sha: x}"))
    report_to_commits(ruled)
    second = drive.start("1.28", inputs=COMMIT)
    drive.pass_time(2)
    assert [stage.status for stage in second.stages.all()] == ["QUEUED"]
    abort_execution(actor=drive.deployer, execution=second)
    drive.until_over(second)
    drive.until_over(first)
    reports = [report["deployments"] for report in list_reports()]
    assert reports == [[["dev", "RUNNING"]], [["dev", "ABORTED"]]]


def test_each_stage_is_reported_to_commits_as_it_starts_and_nobody_else_is_told(
    drive: Drive, receiver: Receiver, ruled: Ruled, write: Write
) -> None:
    write_two_stages(drive, write)
    report_to_commits(ruled)
    ruled(demo(), EventType.EXECUTION_STARTED, *EVERYTHING, identifier="people")
    drive.run("done", inputs=COMMIT)
    assert [report["deployments"] for report in list_reports()] == [
        [["dev", "RUNNING"]],
        [["dev", "SUCCEEDED"], ["prod", "RUNNING"]],
        [["dev", "SUCCEEDED"], ["prod", "SUCCEEDED"]],
    ]
    Notification.objects.filter(rule__kind="GitHub").delete()
    send_due_notifications()
    assert receiver.events == ["execution.started", "execution.succeeded"]
