"""The step that runs a script at a delegate: its environment, outputs, log and end."""

from textwrap import indent

import pytest

from connectors.operations import create_secret
from connectors.required_access import MissingAccess
from connectors.usages import find_usages
from delegates.models import AllowlistEntry, BlocklistEntry, Delegate, DelegateTask
from delegates.protocol.completions import complete_task
from delegates.protocol.leases import acquire_task
from delegates.protocol.logs import append_task_lines
from delegates.task_owners import TaskAnswer
from delegates.task_queue import route_waiting_tasks
from deployments.execution.documents import build_execution_document
from deployments.execution.operations import abort_execution
from deployments.models import AwsCall, Execution, StepExecution
from pipelines.operations.pipelines import PipelineNotRunnable
from rbac.models import Scope, User
from steps.states import CallState
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.fixtures.fake_delegates import hand
from tests.fixtures.script_gates import Gate
from tests.secret_watch.marker import planted
from tests.steps.kinds.conftest import Worker
from web.clock import get_database_time

pytestmark = pytest.mark.django_db(transaction=True)


def script_step(script: str, name: str = "run", more: str = "", options: str = "") -> str:
    """A step that runs a script at delegates with the tag `scripts`."""
    return f"""
- step:
    identifier: {name}
    type: ShellScript
    delegateSelectors: [scripts]{more}
    spec:
      shell: Bash
      script: |
{indent(script, " " * 8)}
{indent(options, " " * 6)}
"""


def serve_until_over(drive: Drive, execution: Execution, worker: Worker, most: int = 60) -> Execution:
    """Advance time while a delegate works, until the execution has ended."""
    for _ in range(most):
        drive.reconcile()
        if not worker.serve():
            drive.clock.move(1)
        execution.refresh_from_db()
        if execution.is_over:
            return execution
    raise AssertionError(f"{execution} is still {execution.status}: {drive.log(execution)[-5:]}")


def _step(execution: Execution, name: str = "run") -> StepExecution:
    return StepExecution.objects.get(stage__execution=execution, identifier=name)


def test_a_script_runs_with_its_variables_and_hands_on_its_outputs(
    write: Write, drive: Drive, worker: Worker
) -> None:
    first = script_step(
        'echo "deploying <+service.name> as $WHO"\nBUILD=42\nKEY=super-secret-$((40 + 2))',
        options="environmentVariables:\n  - {name: WHO, type: String, value: <+env.name>}\n"
        "outputVariables:\n  - {name: build, type: String, value: BUILD}\n"
        "  - {name: key, type: Secret, value: KEY}\n",
    )
    second = script_step(
        'echo "build <+steps.run.output.build> opens with $K, ${#K} long"',
        "use",
        options=("environmentVariables: [{name: K, type: String, value: <+steps.run.output.key>}]\n"),
    )
    ready = write(pipeline_text(stage_text(first + second)))
    execution = serve_until_over(drive, ready.start(), worker)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), execution.failure
    log = drive.log(execution)
    assert "deploying My app as Development" in log
    assert "build 42 opens with •••, 15 long" in log
    assert _step(execution).outputs == {"build": "42", "key": "•••"}
    assert "super-secret-42" not in str([call.preview for call in AwsCall.objects.all()])


def test_what_an_expression_comes_to_never_becomes_a_part_of_the_script(
    write: Write, drive: Drive, worker: Worker
) -> None:
    text = pipeline_text(stage_text(script_step('echo "<+variables.who>"')), variables="{who: x}")
    evil = '"; echo owned; echo "$(id)'
    execution = serve_until_over(drive, write(text).start(inputs={"who": evil}), worker)
    assert execution.status == "SUCCESS"
    assert evil in drive.log(execution)
    assert "owned" not in drive.log(execution)


def test_a_script_that_fails_fails_the_step_with_its_exit_code(
    write: Write, drive: Drive, worker: Worker
) -> None:
    ready = write(pipeline_text(stage_text(script_step("echo no such thing; exit 3"))))
    execution = serve_until_over(drive, ready.start(), worker)
    assert execution.failure is not None
    assert (execution.failure["code"], execution.failure["exit_code"]) == ("SCRIPT_FAILED", 3)
    assert "no such thing" in drive.log(execution)


def test_a_secret_reaches_the_script_and_no_log(write: Write, drive: Drive, worker: Worker) -> None:
    admin = User.objects.get(username="admin")
    project = Scope.objects.get(path="account/default/demo")
    create_secret(
        actor=admin, scope=project, identifier="token", name="Token", value=planted("hunter2hunter2")
    )
    options = "environmentVariables: [{name: TOKEN, type: Secret, value: token}]\n"
    script = 'echo "it is $TOKEN, or <+secrets.getValue("token")>, ${#TOKEN} long"'
    ready = write(pipeline_text(stage_text(script_step(script, options=options))))
    ready.deployer = admin
    execution = serve_until_over(drive, ready.start(), worker)
    assert "it is •••, or •••, 26 long" in drive.log(execution)
    assert worker.payloads[-1].mask == (planted("hunter2hunter2"), planted("hunter2hunter2"))
    assert "hunter2" not in "".join(call.parameters for call in AwsCall.objects.all())


def _take_task(drive: Drive, worker: Worker) -> DelegateTask:
    for _ in range(20):
        drive.reconcile()
        route_waiting_tasks(get_database_time())
        if (task := worker.take()) is not None:
            return task
        drive.clock.move(1)
    raise AssertionError("no script came")


def test_a_script_whose_delegate_is_lost_is_never_begun_again(
    write: Write, drive: Drive, worker: Worker
) -> None:
    execution = write(pipeline_text(stage_text(script_step("echo once")))).start()
    worker.lose(_take_task(drive, worker))
    drive.until_over(execution)
    assert execution.failure is not None
    assert execution.failure["code"] == "DELEGATE_LOST"
    assert AwsCall.objects.get(service="delegate").state == CallState.FAILED
    assert DelegateTask.objects.filter(kind="shell").count() == 1


def test_lines_of_a_delegate_that_gave_up_hide_none_of_the_next_one(
    write: Write, drive: Drive, worker: Worker
) -> None:
    execution = write(pipeline_text(stage_text(script_step("true")))).start()
    while not DelegateTask.objects.exists():
        drive.pass_time(1)
    second = hand("second", tags=("scripts",), hostname="ip-10-0-1-8")
    Delegate.objects.filter(name="second").update(draining=True)
    route_waiting_tasks(get_database_time())
    task = worker.take()
    assert task is not None
    append_task_lines(worker.instance, task.pk, task.fence, 0, [_line("prepared"), _line("and began")])
    drive.pass_time(1)
    Delegate.objects.filter(name="second").update(draining=False)
    error = {"kind": "TaskError", "code": "NotIsolated", "message": "no processes", "capability": True}
    worker.send(task, TaskAnswer("FAILED", error=error))
    route_waiting_tasks(get_database_time())
    assert acquire_task(second.instance, task.pk) is not None
    append_task_lines(second.instance, task.pk, 2, 0, [_line("prepared again")])
    assert complete_task(second.instance, task.pk, fence=2, answer=TaskAnswer("SUCCEEDED", _SCRIPT_RESULT))
    drive.until_over(execution)
    assert execution.status == "SUCCESS", execution.failure
    texts = [text for text in drive.log(execution) if "prepared" in text or "began" in text]
    assert texts == ["prepared", "and began", "prepared again"]


_SCRIPT_RESULT = {"exit_code": 0, "outputs": {}}


def _line(text: str) -> dict[str, object]:
    return {"t": 0, "level": "INFO", "text": text}


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"exit_code": 0, "outputs": 5}, "result.outputs must be an object, and is a number"),
        ({"outputs": {}}, "result.exit_code is missing"),
    ],
)
def test_a_script_whose_answer_does_not_fit_fails_and_says_where(
    write: Write, drive: Drive, worker: Worker, result: dict[str, object], message: str
) -> None:
    execution = write(pipeline_text(stage_text(script_step("echo once")))).start()
    worker.send(_take_task(drive, worker), TaskAnswer("SUCCEEDED", result))
    drive.until_over(execution)
    assert execution.failure is not None
    assert execution.failure["code"] == "BAD_ANSWER"
    assert message in execution.failure["message"]
    assert worker.instance.delegate.name in execution.failure["message"]
    assert DelegateTask.objects.filter(kind="shell").count() == 1


def test_an_abort_asks_the_delegate_to_stop_the_script(write: Write, drive: Drive, worker: Worker) -> None:
    execution = write(pipeline_text(stage_text(script_step("sleep 60")))).start()
    task = _take_task(drive, worker)
    abort_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    assert execution.status == "ABORTED"
    task.refresh_from_db()
    assert task.abort_requested


def test_a_script_that_takes_too_long_is_stopped(write: Write, drive: Drive, worker: Worker) -> None:
    execution = write(pipeline_text(stage_text(script_step("sleep 60", more="\n    timeout: 1m")))).start()
    task = _take_task(drive, worker)
    # The engine's clock is ahead of the real one here.
    assert 50 <= task.timeout_seconds <= 95
    drive.until_over(execution)
    assert execution.failure is not None
    assert execution.failure["code"] == "TIMED_OUT"
    task.refresh_from_db()
    assert task.abort_requested


def test_a_script_without_a_delegate_says_what_to_do(write: Write, drive: Drive, worker: Worker) -> None:
    Delegate.objects.filter(name="scripts").delete()
    execution = write(pipeline_text(stage_text(script_step("echo hello")))).start()
    drive.reconcile()
    route_waiting_tasks(get_database_time())
    drive.until_over(execution)
    assert execution.failure is not None
    assert execution.failure["code"] == "NO_DELEGATE"
    assert "scripts" in execution.failure["message"]


def test_a_script_waits_for_the_shell_that_its_only_delegate_lacks_and_says_so(
    write: Write, drive: Drive, worker: Worker
) -> None:
    execution = write(pipeline_text(stage_text(script_step("echo hello", more="\n    timeout: 1m")))).start()
    reason = "this delegate has no bash"
    error = {"kind": "TaskError", "code": "NoInterpreter", "message": reason, "capability": True}
    for _ in range(20):
        drive.reconcile()
        route_waiting_tasks(get_database_time())
        if (task := worker.take()) is not None:
            worker.send(task, TaskAnswer("FAILED", error=error))
    assert worker.taken_operations == ["shell"]
    assert BlocklistEntry.objects.get().reason == reason
    drive.pass_time(1)
    delegate_wait = build_execution_document(execution, drive.deployer)["waits_for_delegate"]
    assert delegate_wait is not None
    assert f"It could not run bash: {reason}." in delegate_wait["reason"]
    drive.until_over(execution)
    assert execution.failure is not None
    assert (execution.failure["code"], execution.failure["outcome"]) == ("NO_DELEGATE", "TIMED_OUT")
    assert f"It could not run bash: {reason}." in execution.failure["message"]


def test_scripts_spread_over_delegates_that_ran_some(write: Write, drive: Drive, worker: Worker) -> None:
    execution = write(pipeline_text(stage_text(script_step("echo hello")))).start()
    task = _take_task(drive, worker)
    worker.send(task, worker.perform(task))
    drive.until_over(execution)
    assert execution.outcome == "COMPLETED"
    assert not AllowlistEntry.objects.exists()


def test_who_may_not_use_a_secret_may_neither_save_nor_run_a_script_with_it(
    write: Write, drive: Drive
) -> None:
    admin = User.objects.get(username="admin")
    account = Scope.objects.get(path="account")
    secret = create_secret(
        actor=admin, scope=account, identifier="token", name="Token", value=planted("hunter2hunter2")
    )
    ready = write(pipeline_text(stage_text(script_step('echo <+secrets.getValue("account.token")>'))))
    with pytest.raises(MissingAccess) as refused:
        ready.start()
    assert "core_secret_access on the secret account.token" in str(refused.value.errors)
    assert "pipeline Flow" in str(find_usages(secret, admin))


def test_a_secret_that_nobody_made_is_refused_when_saved(write: Write) -> None:
    with pytest.raises(PipelineNotRunnable) as refused:
        write(pipeline_text(stage_text(script_step('echo <+secrets.getValue("tokne")>'))))
    assert "No secret tokne" in str(refused.value.errors)


def test_a_script_that_failed_is_run_again_where_the_pipeline_says_so(
    write: Write, drive: Drive, worker: Worker, gate: Gate
) -> None:
    failure_strategy = (
        "\n    failureStrategies: [{onFailure: {errors: [AllErrors], action: "
        "{type: Retry, spec: {retryCount: 1, retryIntervals: [5s]}}}}]"
    )
    gate.is_open.set()
    script = f"{gate.passing}; [ $visit = 2 ] && echo well"
    ready = write(pipeline_text(stage_text(script_step(script, more=failure_strategy))))
    execution = serve_until_over(drive, ready.start(), worker)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), execution.failure
    assert drive.log(execution).count("well") == 1
    assert DelegateTask.objects.filter(kind="shell").count() == 2
