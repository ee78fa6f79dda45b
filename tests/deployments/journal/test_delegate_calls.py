"""A deployment whose calls delegates make: through tasks, with tags, handed over when a delegate is lost."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from pytest_django import Settings

import aws.caller
from aws.caller import BotoCaller
from aws.clients import AccessKey
from connectors.models import Connector, EventQueue
from delegates.models import Delegate, DelegateTask
from delegates.task_owners import TaskAnswer, register_task_owner
from delegates.task_queue import route_waiting_tasks
from deployments.engine.service_waits import NOT_OBSERVED
from deployments.execution.documents import build_call_document, build_execution_document
from deployments.execution.operations import abort_execution, roll_back_execution
from deployments.journal.aws_access import CALL_OWNER, open_engine_access
from deployments.journal.call_owner import CallOwner
from deployments.journal.runtime import EngineRuntime
from deployments.models import AwsCall, Execution, RollbackCheck, StepExecution
from tests.delegates.agent.held_tasks import run_task
from tests.deployments.engine.conftest import pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.fixtures.fake_delegates import Hand, hand
from tests.stories.run_task.conftest import DEFINITION, inline, request_text
from tests.stories.run_task.conftest import pipeline_text as run_task_pipeline
from web.clock import get_database_time
from web.http.problems import BadInput

pytestmark = pytest.mark.django_db(transaction=True)

TAGS = ["prod", "eu"]


@pytest.fixture
def remote(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> Iterator[Drive]:
    """The demo, whose connector goes through delegates with tags, with the delegate's own credentials."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "of-the-delegate")
    connector = Connector.objects.get(identifier="sandbox_aws")
    _change_connector(connector, credentials="Delegate", connect_through="Delegate", delegate_selectors=TAGS)
    runtime = EngineRuntime(open_engine_access, drive.clock.now, drive.clock.monotonic)
    monkeypatch.setattr(Drive, "runtime", runtime)
    register_task_owner(CALL_OWNER, CallOwner(runtime))
    yield drive
    register_task_owner(CALL_OWNER, CallOwner())


def _change_connector(connector: Connector, **spec: object) -> None:
    base_spec = {"endpoint_url": connector.spec["endpoint_url"]}
    connector.spec, connector.secret = {**base_spec, **spec}, None
    connector.save()


def _run_to_end(drive: Drive, execution: Execution, *hand_agents: Hand, seconds: int = 900) -> Execution:
    for _ in range(seconds):
        drive.reconcile()
        if not sum(hand_agent.serve() for hand_agent in hand_agents):
            drive.clock.move(1)
            drive.sandbox.advance(1)
        execution.refresh_from_db()
        if execution.is_over:
            return execution
    raise AssertionError(f"{execution} is still {execution.status}: {drive.log(execution)[-5:]}")


def _serve_until_taken(drive: Drive, hand_agent: Hand, operation: str) -> DelegateTask:
    """Serve until a call of this operation was taken, and leave that one unanswered."""
    for _ in range(600):
        drive.reconcile()
        route_waiting_tasks(get_database_time())
        task = hand_agent.take()
        if task is None:
            drive.clock.move(1)
            drive.sandbox.advance(1)
        elif hand_agent.taken_operations[-1] == operation:
            return task
        else:
            hand_agent.complete(task, hand_agent.perform(task))
    raise AssertionError(f"{operation} never came")


def test_a_deployment_and_its_rollback_run_through_a_delegate_with_its_own_credentials(remote: Drive) -> None:
    prod = hand("prod-eu", tags=("prod", "eu", "more"))
    _run_to_end(remote, remote.start("1.27"), prod)
    before = remote.mark()
    execution = _run_to_end(remote, remote.start("1.28"), prod)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED")
    calls = [build_call_document(call) for call in execution.calls.select_related("step", "action")]
    assert {call["by"] for call in calls} == {"prod-eu on ip-10-0-1-7"}
    assert {call["delegate_instance"] for call in calls} == {"prod-eu on ip-10-0-1-7"}
    assert {call["duration"] for call in calls} == {0.007}
    assert all(call["task"] for call in calls)
    assert remote.effects(before).count("UpdateService") == 1
    roll_back_execution(actor=remote.deployer, execution=execution)
    execution = _run_to_end(remote, execution, prod)
    assert execution.outcome == "ROLLED_BACK"
    # Who says who it is tells its account, and the stage stays in it.
    assert Delegate.objects.get(name="prod-eu").aws_account == "123456789012"
    task = DelegateTask.objects.filter(title__startswith="ecs:").latest("queued_at")
    assert (task.aws_account, task.selectors, task.selectors_from) == (
        "123456789012",
        sorted(TAGS),
        "CONNECTOR",
    )
    assert task.environment.endswith("/dev") or task.environment.startswith("account/")


def test_the_checklist_of_a_rollback_makes_each_of_its_reads_once(remote: Drive) -> None:
    prod = hand("prod-eu", tags=("prod", "eu"))
    _run_to_end(remote, remote.start("1.27"), prod)
    execution = _run_to_end(remote, remote.start("1.28"), prod)
    roll_back_execution(actor=remote.deployer, execution=execution)
    for _ in range(300):
        # A read counts only if it is younger than the writes before it.
        remote.pass_time(1)
        prod.serve()
        execution.refresh_from_db()
        if execution.is_over:
            break
    assert execution.outcome == "ROLLED_BACK"
    reads = execution.calls.filter(phase__startswith="verify")
    assert reads.values("action").distinct().count() > 1
    assert set(reads.values_list("send_number", "result")) == {(1, "")}


def test_a_checklist_is_read_through_a_delegate_after_the_time_out_of_the_rollback(remote: Drive) -> None:
    prod = hand("prod-eu", tags=("prod", "eu"))
    _run_to_end(remote, remote.start("1.27"), prod)
    execution = _run_to_end(remote, remote.start("1.28"), prod)
    roll_back_execution(actor=remote.deployer, execution=execution)
    while not execution.calls.filter(phase__startswith="verify").exists():
        remote.pass_time(1)
        prod.serve()
    # Delegate tasks expire by the clock of the database.
    passed = get_database_time() - timedelta(seconds=1)
    steps = StepExecution.objects.filter(stage__execution=execution, section="ROLLBACK")
    steps.update(timeout_at=passed)
    for _ in range(300):
        remote.pass_time(1)
        prod.serve()
        execution.refresh_from_db()
        if execution.is_over:
            break
    checks = RollbackCheck.objects.filter(step__stage__execution=execution)
    assert checks.exists()
    assert not checks.filter(passed=False).exists(), list(checks.values("subject", "actual", "note"))
    assert execution.outcome == "ROLLED_BACK"


def test_events_replace_reads_by_a_delegate_until_one_shows_a_change_without_an_event(remote: Drive) -> None:
    prod = hand("prod-eu", tags=("prod", "eu"))
    execution = remote.start("1.27")
    while execution.observed_state in ("", NOT_OBSERVED) and not execution.is_over:
        remote.reconcile()
        if not prod.serve():
            remote.clock.move(1)
            remote.sandbox.advance(1)
        execution.refresh_from_db()
    now = remote.clock.now()
    queue = EventQueue.objects.create(
        connector=Connector.objects.get(identifier="sandbox_aws"),
        region="us-east-1",
        queue_url="http://localhost/123456789012/events",
        read_at=now + timedelta(hours=1),
        last_event_at=now,
    )
    Execution.objects.filter(pk=execution.pk).update(event_at=now)
    reads_before = prod.taken_operations.count("DescribeServices")
    execution = _run_to_end(remote, execution, prod)
    assert execution.status == "SUCCESS", execution.failure
    queue.refresh_from_db()
    assert queue.silent_since is not None
    # By polling every five seconds, a dozen.
    assert prod.taken_operations.count("DescribeServices") - reads_before <= 4


@pytest.fixture
def ringing_alarm(drive: Drive) -> str:
    """The name of an alarm in the demo's account, made before the connector goes through delegates."""
    params = {
        "AlarmName": "errors",
        "MetricName": "Errors",
        "Namespace": "App",
        "Statistic": "Sum",
        "Period": 60,
        "EvaluationPeriods": 1,
        "Threshold": 1.0,
        "ComparisonOperator": "GreaterThanThreshold",
    }
    drive.call("cloudwatch", "PutMetricAlarm", params)
    state = {"AlarmName": "errors", "StateValue": "ALARM", "StateReason": "5 errors were above 1"}
    drive.call("cloudwatch", "SetAlarmState", state)
    return "errors"


def test_alarms_of_a_verification_are_read_by_the_delegate(ringing_alarm: str, remote: Drive) -> None:
    prod = hand("prod-eu", tags=("prod", "eu"))
    step = f"- step: {{identifier: watch, type: Verify, spec: {{alarms: [{ringing_alarm}]}}}}"
    remote.pipeline.yaml = pipeline_text(stage_text(step))
    remote.pipeline.save()
    execution = _run_to_end(remote, remote.start(), prod)
    assert execution.failure is not None
    assert execution.failure["message"] == "Alarm errors is in ALARM: 5 errors were above 1"
    assert "DescribeAlarms" in prod.taken_operations


def test_a_read_whose_delegate_is_lost_is_made_by_the_next_one(remote: Drive) -> None:
    first = hand("first", tags=("prod", "eu"))
    execution = remote.start("1.27")
    task = _serve_until_taken(remote, first, "DescribeServices")
    Delegate.objects.filter(name="first").update(admission="DISABLED")
    second = hand("second", tags=("prod", "eu"), hostname="ip-10-0-1-8")
    first.lose(task)
    execution = _run_to_end(remote, execution, second)
    assert execution.outcome == "COMPLETED"
    servers = AwsCall.objects.get(pk=int(task.owner_ref)).served_by
    assert [(server["delegate"], server["end"]) for server in servers][:2] == [
        ("first on ip-10-0-1-7", "LOST"),
        ("second on ip-10-0-1-8", "ANSWERED"),
    ]


@pytest.mark.parametrize("is_sent", [True, False], ids=["the call was made", "it was not made"])
@pytest.mark.parametrize("operation", ["RegisterTaskDefinition", "CreateService"])
def test_a_write_whose_delegate_is_lost_takes_effect_once(
    remote: Drive, operation: str, is_sent: bool
) -> None:
    first = hand("first", tags=("prod", "eu"))
    execution = remote.start("1.27")
    task = _serve_until_taken(remote, first, operation)
    if is_sent:
        first.perform(task)
    Delegate.objects.filter(name="first").update(admission="DISABLED")
    first.lose(task)
    assert AwsCall.objects.get(pk=int(task.owner_ref)).state == "UNKNOWN"
    second = hand("second", tags=("prod", "eu"))
    execution = _run_to_end(remote, execution, second)
    assert execution.outcome == "COMPLETED"
    assert remote.effects().count(operation) == 1
    call = AwsCall.objects.get(pk=int(task.owner_ref))
    assert call.state == "ANSWERED"
    assert call.is_confirmed is is_sent
    assert call.served_by[0]["end"] == "LOST"


def test_a_task_whose_delegate_is_lost_runs_once_and_its_call_stays_unknown_until_it_is_repeated(
    remote: Drive,
) -> None:
    spec = inline("runTaskRequestDefinition", request_text(remote)) + inline("taskDefinition", DEFINITION)
    remote.pipeline.yaml = run_task_pipeline(spec)
    remote.pipeline.save()
    first = hand("first", tags=("prod", "eu"))
    execution = remote.start("done")
    task = _serve_until_taken(remote, first, "RunTask")
    first.perform(task)
    Delegate.objects.filter(name="first").update(admission="DISABLED")
    first.lose(task)
    second = hand("second", tags=("prod", "eu"))
    remote.sandbox.fault("throttle", service="ecs", operation="RunTask", count=2)
    call, states = AwsCall.objects.get(pk=int(task.owner_ref)), set()
    while call.state != "ANSWERED":
        remote.pass_time(1)
        second.serve()
        call.refresh_from_db()
        states.add(call.state)
    assert "NOT_SENT" not in states
    assert call.send_number > 2
    assert _run_to_end(remote, execution, second).outcome == "COMPLETED"
    assert remote.effects().count("RunTask") == 1


def _deploy_elsewhere(drive: Drive) -> None:
    caller = BotoCaller(AccessKey("AKIASANDBOX", "secret"), "us-east-1", drive.sandbox.url)
    caller.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", "forceNewDeployment": True})


def _serve_until_update_is_planned(drive: Drive, execution: Execution, hand_agent: Hand) -> None:
    writes = execution.calls.filter(operation="UpdateService", state="PLANNED")
    for _ in range(600):
        drive.reconcile()
        if writes.exists():
            return
        if not hand_agent.serve():
            drive.clock.move(1)
            drive.sandbox.advance(1)
    raise AssertionError("UpdateService was never planned")


def test_a_write_of_a_step_that_was_stopped_with_its_branch_is_not_sent(remote: Drive) -> None:
    hand_agent = hand("one", tags=("prod", "eu"))
    _run_to_end(remote, remote.start("1.27"), hand_agent)
    execution = remote.start("1.28")
    _serve_until_update_is_planned(remote, execution, hand_agent)
    execution.stages.get().steps.filter(section="EXECUTION").update(status="ABORTED")
    mark = remote.mark()
    hand_agent.serve()
    execution.refresh_from_db()
    assert execution.status == "RUNNING"
    assert remote.effects(mark) == []


def test_a_rollback_does_not_wait_for_a_write_that_no_delegate_has_taken(remote: Drive) -> None:
    hand_agent = hand("one", tags=("prod", "eu"))
    _run_to_end(remote, remote.start("1.27"), hand_agent)
    execution = remote.start("1.28")
    _serve_until_update_is_planned(remote, execution, hand_agent)
    mark = remote.mark()
    abort_execution(actor=remote.deployer, execution=execution, roll_back=True)
    execution = _run_to_end(remote, execution, hand_agent, seconds=300)
    assert execution.status == "ABORTED", remote.log(execution)[-5:]
    assert "UpdateService" not in remote.effects(mark)


def test_a_write_that_no_delegate_took_in_time_rests_on_new_reads(remote: Drive) -> None:
    hand_agent = hand("one", tags=("prod", "eu"))
    _run_to_end(remote, remote.start("1.27"), hand_agent)
    execution = remote.start("1.28")
    _serve_until_update_is_planned(remote, execution, hand_agent)
    _deploy_elsewhere(remote)
    mark = remote.mark()
    remote.clock.move(40)
    remote.sandbox.advance(40)
    _run_to_end(remote, execution, hand_agent)
    assert (execution.status, execution.outcome) == ("FAILED", "SUPERSEDED"), remote.log(execution)[-5:]
    assert "UpdateService" not in remote.effects(mark)


def test_a_write_whose_reads_were_answered_long_ago_rests_on_new_ones(remote: Drive) -> None:
    hand_agent = hand("one", tags=("prod", "eu"))
    _run_to_end(remote, remote.start("1.27"), hand_agent)
    execution = remote.start("1.28")
    # The last read before the update: its answer is here, and no worker takes it up for a minute.
    task = _serve_until_taken(remote, hand_agent, "DescribeScalableTargets")
    hand_agent.complete(task, hand_agent.perform(task))
    task = _serve_until_taken(remote, hand_agent, "DescribeServices")
    hand_agent.complete(task, hand_agent.perform(task))
    _deploy_elsewhere(remote)
    mark = remote.mark()
    remote.clock.move(60)
    remote.sandbox.advance(60)
    _run_to_end(remote, execution, hand_agent)
    assert (execution.status, execution.outcome) == ("FAILED", "SUPERSEDED"), remote.log(execution)[-5:]
    assert "UpdateService" not in remote.effects(mark)


@pytest.mark.parametrize(
    "answer",
    [
        TaskAnswer("SUCCEEDED", {"service": 5}),
        TaskAnswer("FAILED", error={"kind": "TaskError", "code": "AnswerRefused", "message": "too large"}),
        TaskAnswer("FAILED", error={"kind": "TaskError", "code": "DelegateError", "message": "a bug"}),
    ],
    ids=["it does not fit", "the manager refused it", "an earlier agent failed"],
)
def test_a_write_with_a_bad_answer_is_looked_up_and_takes_effect_once(
    remote: Drive, answer: TaskAnswer
) -> None:
    hand_agent = hand("one", tags=("prod", "eu"))
    execution = remote.start("1.27")
    task = _serve_until_taken(remote, hand_agent, "CreateService")
    hand_agent.perform(task)
    hand_agent.send(task, answer)
    assert AwsCall.objects.get(pk=int(task.owner_ref)).state == "UNKNOWN"
    assert _run_to_end(remote, execution, hand_agent).outcome == "COMPLETED"
    assert remote.effects().count("CreateService") == 1


@pytest.mark.parametrize("error", [RuntimeError("bug"), ValueError("Invalid timestamp")])
def test_a_write_that_ended_in_an_internal_error_of_the_agent_is_looked_up(
    remote: Drive, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    hand_agent = hand("one", tags=("prod", "eu"))
    execution = remote.start("1.27")
    task = _serve_until_taken(remote, hand_agent, "CreateService")

    def fail_after_the_answer(_value: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(aws.caller, "convert_to_json", fail_after_the_answer)
        outcome = run_task("AWS", dict(hand_agent.payloads[-1].params))
    hand_agent.send(task, TaskAnswer(outcome.status, outcome.result, outcome.error))
    assert AwsCall.objects.get(pk=int(task.owner_ref)).state == "UNKNOWN"
    assert _run_to_end(remote, execution, hand_agent).outcome == "COMPLETED"
    assert remote.effects().count("CreateService") == 1


def test_an_answer_that_comes_after_the_call_moved_on_changes_nothing(remote: Drive) -> None:
    first = hand("first", tags=("prod", "eu"))
    execution = remote.start("1.27")
    task = _serve_until_taken(remote, first, "CreateService")
    Delegate.objects.filter(name="first").update(admission="DISABLED")
    first.lose(task)
    second = hand("second", tags=("prod", "eu"))
    execution = _run_to_end(remote, execution, second)
    before = AwsCall.objects.get(pk=int(task.owner_ref)).result
    CallOwner(remote.runtime).complete(task, TaskAnswer("SUCCEEDED", result={"late": True}))
    assert AwsCall.objects.get(pk=int(task.owner_ref)).result == before


def test_tags_that_no_delegate_has_fail_the_execution_with_the_sentence(remote: Drive) -> None:
    hand("other", tags=("dev",))
    execution = _run_to_end(remote, remote.start("1.27"))
    assert execution.status == "FAILED"
    assert execution.failure is not None
    assert execution.failure["code"] == "NO_DELEGATE"
    assert "No registered delegate" in execution.failure["message"]


def test_an_execution_waits_for_a_delegate_that_is_away_and_says_why(remote: Drive) -> None:
    absent_agent = hand("prod-eu", tags=("prod", "eu"))
    absent_agent.instance.last_heartbeat_at = None
    absent_agent.instance.save()
    execution = remote.start("1.27")
    remote.pass_time(5)
    route_waiting_tasks(get_database_time())
    delegate_wait = build_execution_document(execution, remote.deployer)["waits_for_delegate"]
    assert delegate_wait is not None
    assert delegate_wait["selectors"] == sorted(TAGS)
    assert "prod-eu" in delegate_wait["reason"]
    absent_agent.instance.last_heartbeat_at = remote.clock.now()
    absent_agent.instance.save()
    assert _run_to_end(remote, execution, absent_agent).outcome == "COMPLETED"


@pytest.mark.parametrize(
    "capability_error",
    [{"kind": "Unauthenticated", "code": "NoCredentials"}, {"kind": "TaskError", "code": "NameNotResolved"}],
)
def test_what_a_delegate_lacks_another_one_may_have(
    remote: Drive, capability_error: dict[str, object]
) -> None:
    first, execution = hand("first", tags=("prod", "eu")), remote.start("1.27")
    task = _serve_until_taken(remote, first, "GetCallerIdentity")
    Delegate.objects.filter(name="first").update(admission="DISABLED")
    first.complete(
        task, TaskAnswer("FAILED", error={**capability_error, "message": "none", "capability": True})
    )
    assert AwsCall.objects.get(pk=int(task.owner_ref)).state == "NOT_SENT"
    assert _run_to_end(remote, execution, hand("second", tags=("prod", "eu"))).outcome == "COMPLETED"


def test_the_innermost_tags_count(remote: Drive) -> None:
    text = remote.pipeline.yaml
    text = text.replace("    type: Deployment", "    type: Deployment\n        delegateSelectors: [stage]")
    remote.pipeline.yaml = text
    remote.pipeline.save()
    hand_agent = hand("of-the-stage", tags=("stage",))
    execution = _run_to_end(remote, remote.start("1.27"), hand_agent)
    assert execution.outcome == "COMPLETED"
    selector_sources = set(DelegateTask.objects.values_list("selectors_from", flat=True))
    assert selector_sources == {"STAGE"}


def test_tags_on_a_stage_whose_connector_calls_from_here_are_refused(drive: Drive) -> None:
    text = drive.pipeline.yaml
    drive.pipeline.yaml = text.replace(
        "    type: Deployment", "    type: Deployment\n        delegateSelectors: [stage]"
    )
    drive.pipeline.save()
    with pytest.raises(BadInput) as error:
        drive.start("1.27")
    assert "set the connector to connect through a delegate" in str(error.value.errors)


def test_a_connector_of_this_slipway_needs_the_built_in_delegate(drive: Drive) -> None:
    Delegate.objects.filter(is_built_in=True).update(admission="DISABLED")
    execution = drive.run("1.27")
    assert execution.failure is not None
    assert execution.failure["code"] == "CONNECTOR_NOT_USABLE"
    assert "built-in delegate, which is disabled" in execution.failure["message"]


def test_a_refusal_by_aws_is_told_as_from_here(remote: Drive) -> None:
    remote.sandbox.fault("denied", service="ecs", operation="CreateService", count=1)
    execution = _run_to_end(remote, remote.start("1.27"), hand("prod-eu", tags=("prod", "eu")))
    assert execution.failure is not None
    assert execution.failure["code"] == "ACCESS_DENIED"
    assert "AWS denied ecs:CreateService" in execution.failure["message"]


def test_the_built_in_delegate_does_not_lend_the_credentials_of_this_slipway(
    remote: Drive, settings: Settings
) -> None:
    settings.ALLOW_MANAGER_CREDENTIALS = False
    built_in = Delegate.objects.get(is_built_in=True)
    Delegate.objects.filter(pk=built_in.pk).update(tags=TAGS)
    workers = hand("for the row", hostname="workers")
    workers.instance.delegate = built_in
    workers.instance.save()
    execution = remote.start("1.27")
    for _ in range(5):
        remote.reconcile()
        workers.serve()
        remote.clock.move(1)
    assert workers.taken_operations == []
    assert _run_to_end(remote, execution, hand("prod-eu", tags=("prod", "eu"))).outcome == "COMPLETED"
