"""A stage makes its cluster first, and deploys where its provisioner says (R184-R189)."""

import pytest

from deployments.execution.operations import retry_execution, roll_back_execution
from deployments.models import AwsCall, Execution, ServiceLockClaim, StageExecution, StepExecution
from deployments.run_expressions import Run
from steps.actions.scripts import OUTPUT_PATH_VARIABLE
from tests.deployments.engine.conftest import DEPLOY, Write, pipeline_text
from tests.fixtures.engine_driver import Drive
from tests.steps.kinds.conftest import Worker
from tests.stories.provisioning.conftest import (
    OUTPUTS,
    Place,
    build_make_script,
    script_step,
    staged,
    writing,
)

pytestmark = pytest.mark.django_db(transaction=True)


def serve(drive: Drive, execution: Execution, worker: Worker) -> Execution:
    """Let a delegate work while time advances, in AWS too."""
    for _ in range(400):
        drive.reconcile()
        if not worker.serve():
            drive.clock.move(1)
            drive.sandbox.advance(1)
        execution.refresh_from_db()
        if execution.is_over:
            return execution
    raise AssertionError(f"{execution} is still {execution.status}: {drive.log(execution)[-5:]}")


def test_a_stage_deploys_into_the_cluster_that_its_script_has_made(
    write: Write, drive: Drive, place: Place, worker: Worker
) -> None:
    place()
    ready = write(pipeline_text(staged(script_step(build_make_script(drive, **OUTPUTS)))))
    execution = ready.start("1.27")
    stage = StageExecution.objects.get(execution=execution)
    assert (stage.region, stage.cluster) == ("", "")
    serve(drive, execution, worker)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), execution.failure
    stage.refresh_from_db()
    assert (stage.region, stage.cluster, stage.values["infra"]["cluster"]) == (
        "us-east-1",
        "orders",
        "orders",
    )
    assert "Deploying to the provisioned cluster orders in us-east-1" in drive.log(execution)
    query = {"cluster": "orders", "services": ["myapp"]}
    (service,) = drive.call("ecs", "DescribeServices", query)["services"]
    assert service["runningCount"] == service["desiredCount"] > 0
    first = AwsCall.objects.filter(execution=execution, service="ecs").order_by("pk").first()
    step = StepExecution.objects.get(stage=stage, identifier="make")
    assert first is not None
    assert step.ended_at is not None
    assert first.planned_at >= step.ended_at
    assert step.outputs == OUTPUTS


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [
        ("true", "BAD_OUTPUTS", f"The script wrote no file ${OUTPUT_PATH_VARIABLE}"),
        (f'echo "[1]" > "${OUTPUT_PATH_VARIABLE}"', "BAD_OUTPUTS", "is not a JSON object"),
        (f"echo '{{a' > \"${OUTPUT_PATH_VARIABLE}\"", "BAD_OUTPUTS", "is not valid JSON:"),
        (f'printf \'{{"a": "\\\\u0000"}}\' > "${OUTPUT_PATH_VARIABLE}"', "BAD_OUTPUTS", "NUL"),
        (writing(**{"a.b": "x"}), "BAD_OUTPUTS", "'a.b' is no name of an output"),
        (f'ln -s /etc/passwd "${OUTPUT_PATH_VARIABLE}"', "BAD_OUTPUTS", "wrote no file"),
        ("exit 3", "SCRIPT_FAILED", "exit code 3"),
        (
            writing(region_name="us-east-1"),
            "PLACE_NOT_KNOWN",
            "<+provisioner.cluster_name> is unknown here",
        ),
        (writing(**OUTPUTS | {"region_name": "mars-1"}), "PLACE_NOT_KNOWN", "mars-1 is not an AWS region"),
        (writing(**OUTPUTS | {"cluster_name": ""}), "PLACE_NOT_KNOWN", "Enter the cluster name"),
        (writing(**OUTPUTS | {"cluster_name": {"a": 1}}), "PLACE_NOT_KNOWN", "Enter the cluster name"),
    ],
)
def test_what_a_script_hands_on_is_looked_at_before_anything_is_asked_of_aws(
    write: Write, drive: Drive, place: Place, worker: Worker, script: str, code: str, message: str
) -> None:
    place()
    ready = write(pipeline_text(staged(script_step(script))))
    execution = serve(drive, ready.start("1.27"), worker)
    assert execution.failure is not None
    assert execution.failure["code"] == code
    assert message in execution.failure["message"]
    assert not AwsCall.objects.filter(execution=execution, service="ecs").exists()
    assert StageExecution.objects.get(execution=execution).cluster == ""


def test_outputs_are_known_everywhere_and_secret_ones_to_nobody(
    write: Write, drive: Drive, place: Place, worker: Worker
) -> None:
    place()
    # The script itself works out what is secret: its own text is no secret.
    outputs = build_make_script(drive, **OUTPUTS, key="super-secret-$((40 + 2))", count=3).replace(
        "'END'", "END"
    )
    make = script_step(outputs, more="secretOutputs: [key]\n")
    use = """
- step:
    identifier: use
    type: ShellScript
    delegateSelectors: [scripts]
    when: {stageStatus: Success, condition: '<+provisioner.count> > 2 && <+infra.cluster> == "orders"'}
    spec:
      script: |
        echo "key <+provisioner.key> of <+infra.cluster>, <+provisioner.count> in <+infra.region>"
"""
    execution = write(pipeline_text(staged(make, use + DEPLOY))).start("1.27")
    serve(drive, execution, worker)
    assert execution.status == "SUCCESS", execution.failure
    assert "key ••• of orders, 3 in us-east-1" in drive.log(execution)
    assert StepExecution.objects.get(stage__execution=execution, identifier="make").outputs["key"] == "•••"
    run = Run(execution)
    completions = {
        completion.path: completion.text
        for completion in run.list_completions(run.moment("app/deploy"), drive.deployer)
    }
    assert completions["provisioner.cluster_name"] == completions["infra.cluster"] == "orders"
    assert completions["provisioner.key"] == "****"
    assert "super-secret-42" not in str([call.preview for call in AwsCall.objects.all()])


def test_a_retry_goes_on_in_the_cluster_that_was_settled(
    write: Write, drive: Drive, place: Place, worker: Worker
) -> None:
    place()
    execution = write(pipeline_text(staged(script_step(build_make_script(drive, **OUTPUTS))))).start("crash")
    serve(drive, execution, worker)
    assert execution.status == "FAILED"
    scripts = len(worker.taken_operations)
    retry_execution(actor=drive.deployer, execution=execution)
    stage = StageExecution.objects.get(execution=execution)
    drive.reconcile()
    stage.refresh_from_db()
    assert (stage.region, stage.cluster) == ("us-east-1", "orders")
    serve(drive, execution, worker)
    assert len(worker.taken_operations) == scripts
    assert {claim.key.split("/")[2] for claim in ServiceLockClaim.objects.filter(stage=stage)} == {"orders"}


def test_a_rollback_brings_back_what_ran_in_the_cluster_that_was_settled(
    write: Write, drive: Drive, place: Place, worker: Worker
) -> None:
    place()
    ready = write(pipeline_text(staged(script_step(build_make_script(drive, **OUTPUTS)))))
    serve(drive, ready.start("1.27"), worker)
    execution = serve(drive, ready.start("1.28"), worker)
    assert execution.status == "SUCCESS", execution.failure
    roll_back_execution(actor=drive.deployer, execution=execution)
    execution.refresh_from_db()
    serve(drive, execution, worker)
    assert execution.outcome == "ROLLED_BACK", execution.failure
    (service,) = drive.call("ecs", "DescribeServices", {"cluster": "orders", "services": ["myapp"]})[
        "services"
    ]
    definition = drive.call("ecs", "DescribeTaskDefinition", {"taskDefinition": service["taskDefinition"]})[
        "taskDefinition"
    ]
    assert definition["containerDefinitions"][0]["image"].endswith(":1.27")


def test_a_step_of_the_provisioner_that_was_skipped_keeps_no_retry_from_going_on(
    write: Write, drive: Drive, place: Place, worker: Worker
) -> None:
    place()
    never = "- step: {identifier: never, type: Wait, spec: {duration: 1m}, when: {condition: 'false'}}\n"
    provisioner_step = script_step(build_make_script(drive, **OUTPUTS)) + never
    fails = "- step: {identifier: check, type: ShellScript, delegateSelectors: [scripts], "
    fails += "spec: {script: 'exit 1'}, failureStrategies: [{onFailure: {errors: [AllErrors], "
    fails += "action: {type: Abort}}}]}\n"
    execution = write(pipeline_text(staged(provisioner_step, DEPLOY + fails))).start("1.27")
    serve(drive, execution, worker)
    stage = StageExecution.objects.get(execution=execution)
    claims = set(ServiceLockClaim.objects.filter(stage=stage).values_list("pk", flat=True))
    assert claims
    retry_execution(actor=drive.deployer, execution=execution)
    drive.reconcile()
    stage.refresh_from_db()
    assert stage.cluster == "orders"
    assert set(ServiceLockClaim.objects.filter(stage=stage).values_list("pk", flat=True)) == claims
