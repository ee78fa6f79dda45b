"""Plans that a later step applies, going back to what was before, and destroying."""

from datetime import timedelta
from textwrap import indent

import pytest

from delegates.task_owners import TaskAnswer
from deployments.models import (
    AppliedConfiguration,
    Execution,
    RollbackCheck,
    RollbackValue,
    StepExecution,
    StoredPlan,
)
from deployments.preview.documents import PreviewDetails
from deployments.preview.operations import preview_pipeline
from deployments.retention import PLAN_RETENTION
from pipelines.operations.pipelines import PipelineNotRunnable
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.steps.kinds.conftest import Worker
from tests.steps.kinds.test_script import _take_task, script_step, serve_until_over
from tests.stories.terraform.conftest import MAIN, States, needs_terraform, terraform_step

pytestmark = [needs_terraform, pytest.mark.django_db(transaction=True)]
BROKEN = (
    MAIN
    + 'resource "terraform_data" "broken" {\n  provisioner "local-exec" {\n    command = "exit 7"\n  }\n}\n'
)


def _pipeline(*steps: str) -> str:
    text = stage_text("".join(steps))
    return pipeline_text(text.replace("type: EcsRollingRollback", "type: TerraformRollback"))


def _named(name: str) -> str:
    return f"variables: [{{name: name, type: String, value: {name}}}]"


def _inheriting(name: str, type_: str, way: str) -> str:
    return f"""
- step:
    identifier: {name}
    type: Terraform{type_}
    delegateSelectors: [scripts]
    spec: {{provisionerIdentifier: network, configuration: {way}}}
"""


def _run(write: Write, drive: Drive, worker: Worker, *steps: str) -> Execution:
    return serve_until_over(drive, write(_pipeline(*steps)).start(), worker)


def _list_applied() -> list[AppliedConfiguration]:
    return list(AppliedConfiguration.objects.filter(removed_at=None))


def test_a_plan_is_shown_kept_applied_and_dropped(
    write: Write, drive: Drive, worker: Worker, states: States
) -> None:
    show = script_step(
        'echo "<+steps.plan.output.add> to add, <+steps.plan.output.hasChanges>"\n'
        'echo "<+steps.plan.output.humanReadablePlan>" | grep "will be created"',
        "show",
    )
    execution = _run(
        write,
        drive,
        worker,
        terraform_step(states, "plan", "Plan", variables=_named("planned")),
        show,
        _inheriting("apply", "Apply", "InheritFromPlan"),
    )
    assert execution.status == "SUCCESS", execution.failure
    log = drive.log(execution)
    assert "1 to add, true" in log
    assert "  # terraform_data.cluster will be created" in log
    assert states.inputs() == ["planned"]
    assert StepExecution.objects.get(identifier="apply").outputs["cluster_name"] == "planned"
    assert StoredPlan.objects.get().content == ""
    assert len(_list_applied()) == 1


def test_a_plan_is_for_what_it_was_made_for(
    write: Write, drive: Drive, worker: Worker, states: States
) -> None:
    execution = _run(
        write,
        drive,
        worker,
        terraform_step(states, "plan", "Plan", fields="command: Destroy"),
        _inheriting("apply", "Apply", "InheritFromPlan"),
    )
    assert execution.failure is not None
    assert execution.failure["code"] == "PLAN_OF_ANOTHER_SORT"
    plan = StoredPlan.objects.get()
    assert plan.destroys
    assert PLAN_RETENTION.prune(plan.planned_at + timedelta(days=6)) == 0
    assert PLAN_RETENTION.prune(plan.planned_at + timedelta(days=8)) == 1
    plan.refresh_from_db()
    assert plan.content == ""


def test_a_rollback_applies_what_was_applied_before(
    write: Write, drive: Drive, worker: Worker, states: States
) -> None:
    _run(write, drive, worker, terraform_step(states, variables=_named("first")))
    (first,) = _list_applied()
    execution = _run(
        write, drive, worker, terraform_step(states, variables=_named("second")), script_step("exit 1")
    )
    assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK"), execution.failure
    assert states.inputs() == ["first"]
    assert _list_applied() == [first]
    checked = RollbackCheck.objects.get()
    assert (checked.subject, checked.passed) == ("network", True)


def test_a_rollback_of_the_first_apply_destroys_what_it_made(
    write: Write, drive: Drive, worker: Worker, states: States
) -> None:
    execution = _run(write, drive, worker, terraform_step(states, main=BROKEN))
    assert execution.failure is not None
    assert execution.failure["code"] == "TERRAFORM_FAILED"
    assert "exit status 7" in execution.failure["message"]
    assert execution.outcome == "ROLLED_BACK"
    assert (states.inputs(), _list_applied()) == ([], [])


def test_what_slipway_has_not_made_is_never_destroyed_by_a_rollback(
    write: Write, drive: Drive, worker: Worker, states: States
) -> None:
    _run(write, drive, worker, terraform_step(states, variables=_named("by hand")))
    AppliedConfiguration.objects.all().delete()
    execution = _run(
        write, drive, worker, terraform_step(states, variables=_named("ours")), script_step("exit 1")
    )
    assert execution.outcome == "FAILED"
    assert states.inputs() == ["ours"]
    assert any("They are not destroyed" in line for line in drive.log(execution))


def test_a_rollback_leaves_alone_what_somebody_applied_since(
    write: Write, drive: Drive, worker: Worker, states: States
) -> None:
    ready = write(_pipeline(terraform_step(states, variables=_named("ours")), script_step("exit 1")))
    execution = ready.start()
    for _ in range(40):
        drive.reconcile()
        worker.serve() or drive.clock.move(1)
        if own_row := _list_applied():
            break
    (own_row,) = _list_applied()
    AppliedConfiguration.objects.create(
        scope=own_row.scope,
        identifier="network",
        place=own_row.place,
        state_key=own_row.state_key,
        parameters=own_row.parameters,
        applied_by="demo #9",
        applied_at=own_row.applied_at + timedelta(seconds=1),
    )
    serve_until_over(drive, execution, worker)
    assert execution.outcome == "SUPERSEDED"
    assert states.inputs() == ["ours"]
    assert any("was applied by demo #9 since" in line for line in drive.log(execution))


_RETRY = """failureStrategies:
  - onFailure:
      errors: [AllErrors]
      action: {type: Retry, spec: {retryCount: 1, retryIntervals: [60s]}}
"""


def _start_until_retry(write: Write, drive: Drive, worker: Worker, step: str) -> Execution:
    """Start an execution with a failing last step; return it while its first step waits for a retry."""
    retried = step.replace("    spec:\n", indent(_RETRY, " " * 4) + "    spec:\n", 1)
    execution = write(_pipeline(retried, script_step("exit 1"))).start()
    for _ in range(40):
        drive.reconcile()
        if any("is tried again in 60 seconds" in line for line in drive.log(execution)):
            return execution
        worker.serve() or drive.clock.move(1)
    raise AssertionError(drive.log(execution)[-5:])


def test_what_somebody_applied_before_a_retry_is_not_destroyed(
    write: Write, drive: Drive, worker: Worker, states: States
) -> None:
    _run(write, drive, worker, terraform_step(states, variables=_named("by ann")))
    AppliedConfiguration.objects.all().delete()
    own_state = states.states.pop("/main")
    states.locks["/main"] = b'{"ID": "11111111-2222-3333-4444-555555555555", "Who": "ann"}'
    execution = _start_until_retry(write, drive, worker, terraform_step(states, variables=_named("ours")))
    states.locks.clear()
    states.states["/main"] = own_state
    serve_until_over(drive, execution, worker, most=120)
    assert execution.outcome == "FAILED"
    assert states.inputs() == ["ours"]
    assert any("They are not destroyed" in line for line in drive.log(execution))


def test_a_rollback_returns_to_what_another_execution_applied_before_a_retry(
    write: Write, drive: Drive, worker: Worker, states: States
) -> None:
    _run(write, drive, worker, terraform_step(states, variables=_named("first")))
    _run(write, drive, worker, terraform_step(states, variables=_named("second")))
    first, second = AppliedConfiguration.objects.order_by("applied_at")
    AppliedConfiguration.objects.filter(pk=second.pk).update(removed_at=second.applied_at)
    states.locks["/main"] = b'{"ID": "11111111-2222-3333-4444-555555555555", "Who": "ann"}'
    execution = _start_until_retry(write, drive, worker, terraform_step(states, variables=_named("ours")))
    states.locks.clear()
    AppliedConfiguration.objects.filter(pk=second.pk).update(removed_at=None)
    serve_until_over(drive, execution, worker, most=120)
    assert execution.outcome == "ROLLED_BACK", drive.log(execution)[-5:]
    assert states.inputs() == ["second"]
    assert {row.pk for row in _list_applied()} == {first.pk, second.pk}


def test_a_retry_leaves_alone_what_somebody_applied_after_the_first_attempt(
    write: Write, drive: Drive, worker: Worker, states: States
) -> None:
    _run(write, drive, worker, terraform_step(states, variables=_named("theirs")))
    (other,) = _list_applied()
    AppliedConfiguration.objects.filter(pk=other.pk).update(removed_at=other.applied_at)
    step = terraform_step(states, main=BROKEN, variables=_named("ours"))
    execution = _start_until_retry(write, drive, worker, step)
    AppliedConfiguration.objects.filter(pk=other.pk).update(removed_at=None)
    runs = len(worker.taken_operations)
    serve_until_over(drive, execution, worker, most=120)
    assert execution.failure is not None
    assert (execution.failure["code"], execution.outcome) == ("SUPERSEDED", "SUPERSEDED")
    assert len(worker.taken_operations) == runs
    assert any("was applied by" in line for line in drive.log(execution))


def test_an_apply_of_an_earlier_release_is_destroyed_by_the_rollback(
    write: Write, drive: Drive, worker: Worker, states: States
) -> None:
    ready = write(_pipeline(terraform_step(states, variables=_named("ours")), script_step("exit 1")))
    execution = ready.start()
    for _ in range(40):
        drive.reconcile()
        worker.serve() or drive.clock.move(1)
        if _list_applied():
            break
    step = StepExecution.objects.get(identifier="net")
    assert step.rollback_values.filter(name="found by the attempt that began").delete()[0] == 1
    for name, value in (("before", '""'), ("held resources", "false")):
        RollbackValue.objects.create(step=step, run=step.run, name=name, value=value)
    serve_until_over(drive, execution, worker)
    assert execution.outcome == "ROLLED_BACK", drive.log(execution)[-5:]
    assert (states.inputs(), _list_applied()) == ([], [])


def test_a_destroy_needs_no_configuration_of_its_own(
    write: Write, drive: Drive, worker: Worker, states: States
) -> None:
    _run(write, drive, worker, terraform_step(states))
    execution = _run(write, drive, worker, _inheriting("end", "Destroy", "InheritFromApply"))
    assert execution.status == "SUCCESS", execution.failure
    assert (states.inputs(), _list_applied()) == ([], [])
    assert StepExecution.objects.get(identifier="end").outputs == {"destroyed": 1}
    second_run = _run(write, drive, worker, _inheriting("end", "Destroy", "InheritFromApply"))
    assert second_run.failure is not None
    assert second_run.failure["code"] == "NOTHING_APPLIED"


def test_an_apply_whose_delegate_is_lost_is_never_begun_again(
    write: Write, drive: Drive, worker: Worker, states: States
) -> None:
    execution = write(_pipeline(terraform_step(states))).start()
    worker.lose(_take_task(drive, worker))
    serve_until_over(drive, execution, worker)
    assert execution.failure is not None
    assert execution.failure["code"] == "DELEGATE_LOST"
    assert "terraform force-unlock" in execution.failure["message"]
    # It may have made something, or not: what the state holds is no longer ours to destroy.
    assert execution.outcome == "FAILED"
    assert worker.taken_operations == ["terraform"]
    check = RollbackCheck.objects.get(step__stage__execution=execution)
    assert (check.actual, check.passed) == ("not known", False)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            TaskAnswer("SUCCEEDED", {"exit_code": 0, "outputs": {"url": 5}}),
            "result.outputs.url must be an object",
        ),
        (
            TaskAnswer(
                "FAILED", error={"kind": "TaskError", "code": "AnswerRefused", "message": "too large"}
            ),
            "too large",
        ),
    ],
    ids=["it does not fit", "the manager refused it"],
)
def test_after_an_apply_with_a_bad_answer_nobody_knows_how_far_it_came(
    write: Write, drive: Drive, worker: Worker, states: States, answer: TaskAnswer, reason: str
) -> None:
    execution = write(_pipeline(terraform_step(states))).start()
    worker.send(_take_task(drive, worker), answer)
    serve_until_over(drive, execution, worker)
    assert execution.failure is not None
    assert reason in execution.failure["message"]
    assert "It is unknown how far terraform apply got" in execution.failure["message"]
    assert execution.outcome == "FAILED"
    assert worker.taken_operations == ["terraform"]


def test_a_preview_says_what_would_run_and_runs_nothing(
    write: Write, drive: Drive, worker: Worker, states: States
) -> None:
    text = _pipeline(terraform_step(states, "plan", "Plan"), _inheriting("apply", "Apply", "InheritFromPlan"))
    ready = write(text)
    details = preview_pipeline(actor=drive.deployer, pipeline=ready.pipeline, artifact_tag="1.28")
    assert isinstance(details, PreviewDetails)
    results = {step.identifier: (step.changes, step.failure) for step in details.steps}
    assert results == {
        "plan": (["terraform plan runs at a delegate, with 1 file."], None),
        "apply": (["The plan of an earlier step is applied with terraform at a delegate."], None),
    }
    assert (worker.taken_operations, StoredPlan.objects.count()) == ([], 0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("configFiles: {}", "it needs configFiles under spec"),
        ('backendConfig: password=<+secrets.getValue("token")>', "is written into a file"),
        ("targets: [-destroy]", "none of which begins with a dash"),
        ("command: Apply", "has no field command"),
        ("configuration: InheritFromPlan", "it takes everything from there: remove configFiles"),
    ],
)
def test_what_a_run_could_not_do_is_refused_when_it_is_saved(write: Write, wrong: str, message: str) -> None:
    name = wrong.partition(":")[0]
    fields = {"provisionerIdentifier": "network", "configFiles": "{type: Inline, spec: {content: x}}"}
    fields[name] = wrong.partition(":")[2].strip()
    spec = "".join(f"\n      {name}: {value}" for name, value in fields.items())
    step = f"- step:\n    identifier: net\n    type: TerraformApply\n    spec:{spec}\n"
    with pytest.raises(PipelineNotRunnable) as refused:
        write(_pipeline(step))
    assert message in str(refused.value.errors)
