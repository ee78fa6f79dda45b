"""The main job: a rolling deployment, watched from its first call to its true outcome."""

import pytest
import yaml

from catalog.models import Infrastructure, Service
from catalog.operations import ManifestSpec, OverrideSpec, override_service
from connectors.models import FileNode
from deployments.execution.documents import build_execution_document
from deployments.execution.operations import abort_execution, retry_execution, roll_back_execution
from deployments.journal.runtime import set_hook
from deployments.models import AwsCall, Execution, RollbackCheck, StepExecution
from rbac.models import User
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)

SERVICE_FILE = "/ECS Tutorial/CreateServiceRequest.yaml"
TASK_FILE = "/ECS Tutorial/RegisterTaskDefinitionRequest.yaml"
_ALARM_STATE = {"AlarmName": "errors", "StateReason": "test"}


def _get_result(execution: Execution) -> tuple[str, str]:
    return execution.status, execution.outcome


def _edit(path: str, old: str, new: str) -> None:
    node = FileNode.objects.get(path=path)
    assert old in node.content
    node.content = node.content.replace(old, new)
    node.save()


def _add_alarm(drive: Drive) -> None:
    metric = {"Namespace": "Shop", "MetricName": "Errors", "Period": 60, "EvaluationPeriods": 1}
    rule = {"Threshold": 1, "ComparisonOperator": "GreaterThanThreshold", "Statistic": "Sum"}
    drive.call("cloudwatch", "PutMetricAlarm", {"AlarmName": "errors", **metric, **rule})


def _create_service_that_never_ran(drive: Drive) -> None:
    """Create the ECS service with an image that does not exist: AWS has no deployment to return to."""
    files = {path: FileNode.objects.get(path=path).content for path in (SERVICE_FILE, TASK_FILE)}
    image = files[TASK_FILE].replace("<+primary.artifact.image>", "nginx:nopull")
    task = drive.call("ecs", "RegisterTaskDefinition", yaml.safe_load(image))["taskDefinition"]
    service = yaml.safe_load(files[SERVICE_FILE])
    drive.call(
        "ecs", "CreateService", {**service, "cluster": "demo", "taskDefinition": task["taskDefinitionArn"]}
    )
    drive.pass_time(10)


def test_a_first_deployment_creates_the_service_and_tells_it_line_by_line(drive: Drive) -> None:
    execution = drive.run("1.27")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    log = drive.log(execution)
    arn = "arn:aws:ecs:us-east-1:123456789012"
    for line in (
        "Fetching EcsTaskDefinition from File Store",
        "Fetching EcsTaskDefinition files with identifier: task def",
        f"- {TASK_FILE}",
        "Fetched all manifests from File Store",
        "Creating Task Definition with family fargate-task-definition",
        "Created Task Definition fargate-task-definition:1 with Arn "
        f"{arn}:task-definition/fargate-task-definition:1..",
        "Didn't find any Scaling Policies attached to service myapp",
        "Didn't find any Scalable Targets on service myapp",
        "Waiting for pending tasks to finish. 0/1 running ...",
        "Waiting for pending tasks to finish. 1/1 running ...",
        "Waiting for Service myapp to reach steady state",
        "Service myapp reached steady state",
        f"Created Service myapp with Arn {arn}:service/demo/myapp",
        " Deployment Successful.",
    ):
        assert log.count(line) in (1, 2), line
    assert any("has started 1 tasks: (task " in line for line in log if line.startswith("# AWS Event: 2"))


def test_a_second_deployment_replaces_the_tasks_and_shows_its_outputs(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.run("1.28")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    service = drive.service()
    step = build_execution_document(execution, drive.deployer)["stages"][0]["steps"][0]
    assert step["outputs"]["taskDefinitionArn"] == service["taskDefinition"]
    assert step["outputs"]["deploymentId"] == service["deployments"][0]["id"]
    assert step["outputs"]["version"] == "2"
    assert "Updated Service myapp with Arn " + service["serviceArn"] in drive.log(execution)


def test_a_crashing_image_is_diagnosed_and_what_ran_before_runs_again(drive: Drive) -> None:
    drive.run("1.27")
    before = drive.service()
    execution = drive.run("crash")
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK")
    assert execution.failure["container"] == "nginx"
    assert execution.failure["exit_code"] == 1
    log = drive.log(execution)
    assert "  Container nginx exited with code 1" in log
    assert any(line.startswith("  | FATAL") for line in log)
    after = drive.service()
    assert after["taskDefinition"] == before["taskDefinition"]
    assert (after["desiredCount"], after["runningCount"]) == (1, 1)
    assert RollbackCheck.objects.filter(step__stage__execution=execution, passed=True).count() == 5
    assert not RollbackCheck.objects.filter(step__stage__execution=execution, passed=False).exists()


def test_an_image_that_cannot_be_pulled_is_named_at_its_first_failure(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.run("nopull")
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK")
    assert execution.failure["code"] == "IMAGE_NOT_FOUND"
    assert "library/nginx:nopull" in execution.failure["message"]
    assert sum(line.startswith("First failure") for line in drive.log(execution)) == 1


def test_the_first_deployment_of_a_service_is_undone_by_deleting_it(drive: Drive) -> None:
    execution = drive.run("crash")
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK")
    assert drive.service().get("status", "INACTIVE") == "INACTIVE"
    assert "Deleting service myapp.." in drive.log(execution)


def test_aws_rolling_back_by_its_breaker_is_not_a_success(drive: Drive) -> None:
    _edit(
        SERVICE_FILE,
        "deploymentConfiguration:\n",
        "deploymentConfiguration:\n  deploymentCircuitBreaker: {enable: true, rollback: true}\n",
    )
    drive.run("1.27")
    before = drive.service()["taskDefinition"]
    execution = drive.run("crash")
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK_BY_AWS")
    assert drive.service()["taskDefinition"] == before
    assert "  Container nginx exited with code 1" in drive.log(execution)


@pytest.mark.parametrize(
    ("is_rolled_back", "outcome", "sentence"),
    [
        (True, "ROLLED_BACK_BY_AWS", "AWS rolled this deployment back: "),
        (False, "ROLLED_BACK", "AWS marked this deployment as failed: "),
    ],
)
def test_an_alarm_that_ends_a_deployment_is_named(
    drive: Drive, is_rolled_back: bool, outcome: str, sentence: str
) -> None:
    _add_alarm(drive)
    alarms = f"{{alarmNames: [errors], enable: true, rollback: {str(is_rolled_back).lower()}}}"
    _edit(SERVICE_FILE, "deploymentConfiguration:\n", f"deploymentConfiguration:\n  alarms: {alarms}\n")
    drive.run("1.27")
    execution = drive.start("1.28")
    drive.pass_time(15)
    drive.call("cloudwatch", "SetAlarmState", {**_ALARM_STATE, "StateValue": "ALARM"})
    for _ in range(120):
        if any(sentence in line for line in drive.log(execution)):
            break
        drive.pass_time(1)
    # It would fail the deployment of our rollback too.
    drive.call("cloudwatch", "SetAlarmState", {**_ALARM_STATE, "StateValue": "OK"})
    drive.until_over(execution)
    assert _get_result(execution) == ("FAILED", outcome), drive.log(execution)
    assert execution.failure["message"].startswith(sentence)
    assert "alarms were triggered: errors" in execution.failure["message"]


@pytest.mark.parametrize(
    ("rule", "tag", "state", "sentence"),
    [
        (
            "alarms: {alarmNames: [errors], enable: true, rollback: true}",
            "1.28",
            "ALARM",
            "alarms were triggered",
        ),
        ("deploymentCircuitBreaker: {enable: true, rollback: true}", "crash", "OK", "circuit breaker"),
    ],
    ids=["alarm", "circuit breaker"],
)
def test_a_failed_deployment_that_aws_cannot_roll_back_ends_after_about_a_minute(
    drive: Drive, rule: str, tag: str, state: str, sentence: str
) -> None:
    _create_service_that_never_ran(drive)
    _add_alarm(drive)
    _edit(SERVICE_FILE, "deploymentConfiguration:\n", f"deploymentConfiguration:\n  {rule}\n")
    execution = drive.start(tag)
    drive.pass_time(15)
    drive.call("cloudwatch", "SetAlarmState", {**_ALARM_STATE, "StateValue": state})
    while drive.service()["deployments"][0]["rolloutState"] != "FAILED":
        drive.pass_time(1)
    drive.pass_time(50)
    execution.refresh_from_db()
    assert not execution.failure
    drive.pass_time(40)
    # It would fail the deployment of our rollback too.
    drive.call("cloudwatch", "SetAlarmState", {**_ALARM_STATE, "StateValue": "OK"})
    execution.refresh_from_db()
    message = execution.failure["message"]
    assert message.startswith("AWS marked this deployment as failed and did not roll it back: ")
    assert sentence in message


def test_what_aws_rolled_back_before_its_lost_answer_was_confirmed_keeps_its_id_and_its_diagnosis(
    drive: Drive,
) -> None:
    _edit(
        SERVICE_FILE,
        "deploymentConfiguration:\n",
        "deploymentConfiguration:\n  deploymentCircuitBreaker: {enable: true, rollback: true}\n",
    )
    drive.run("1.27")
    # The clock of the engine begins thirty seconds ahead, more than Slipway allows for.
    drive.sandbox.advance(30)
    drive.sandbox.fault("lost_answer", service="ecs", operation="UpdateService", count=1)
    execution = drive.start("crash")
    started: list[str] = []

    def let_aws_roll_back(name: str) -> None:
        if not started and AwsCall.objects.filter(operation="UpdateService", state="UNKNOWN").exists():
            started.extend(row["id"] for row in drive.service()["deployments"] if row["status"] == "PRIMARY")
            drive.sandbox.advance(600)

    set_hook(let_aws_roll_back)
    try:
        drive.until_over(execution)
    finally:
        set_hook(None)
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK_BY_AWS")
    step = StepExecution.objects.get(stage__execution=execution, type="EcsRollingDeploy")
    assert [step.outputs["deploymentId"]] == started


def test_a_foreign_deployment_in_the_middle_is_superseded_and_left_alone(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.start("1.28")
    drive.pass_time(6)
    definition = {
        "family": "other",
        "containerDefinitions": [{"name": "nginx", "image": "other:1", "memory": 128}],
        "requiresCompatibilities": ["FARGATE"],
        "networkMode": "awsvpc",
        "cpu": "256",
        "memory": "512",
    }
    answer = drive.call("ecs", "RegisterTaskDefinition", definition)
    revision = answer["taskDefinition"]["taskDefinitionArn"]
    drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", "taskDefinition": revision})
    drive.until_over(execution)
    assert _get_result(execution) == ("FAILED", "SUPERSEDED")
    assert drive.service()["taskDefinition"] == revision


def test_two_runs_on_one_ecs_service_queue(drive: Drive) -> None:
    first, second = drive.start("1.27"), drive.start("1.28")
    drive.pass_time(4)
    second.refresh_from_db()
    assert second.status == "QUEUED"
    queue = build_execution_document(second, drive.deployer)["queue"]
    assert (queue["position"], queue["waits_for"]) == (1, f"#{first.number}")
    assert _get_result(drive.until_over(first)) == ("SUCCESS", "COMPLETED")
    assert _get_result(drive.until_over(second)) == ("SUCCESS", "COMPLETED")
    assert second.started_at is not None
    assert first.ended_at is not None
    created = [line for line in drive.log(second) if line.startswith("Updating Service myapp")]
    assert len(created) == 1


def test_an_abort_with_rollback_brings_back_what_ran(drive: Drive) -> None:
    drive.run("1.27")
    before = drive.service()["taskDefinition"]
    execution = drive.start("slow")
    drive.pass_time(6)
    abort_execution(actor=drive.deployer, execution=Execution.objects.get(pk=execution.pk), roll_back=True)
    drive.until_over(execution)
    assert _get_result(execution) == ("ABORTED", "ROLLED_BACK")
    assert drive.service()["taskDefinition"] == before


def test_an_abort_alone_stops_at_once_and_touches_nothing(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.start("slow")
    drive.pass_time(6)
    effects = drive.effects()
    abort_execution(actor=drive.deployer, execution=Execution.objects.get(pk=execution.pk))
    drive.until_over(execution)
    assert _get_result(execution) == ("ABORTED", "ABORTED")
    assert drive.effects() == effects


def test_a_finished_execution_is_rolled_back_when_it_is_the_newest(drive: Drive) -> None:
    drive.run("1.27")
    before = drive.service()["taskDefinition"]
    execution = drive.run("1.28")
    assert roll_back_execution(actor=drive.deployer, execution=execution) == execution
    drive.until_over(Execution.objects.get(pk=execution.pk))
    drive.pass_time(20)
    execution.refresh_from_db()
    drive.until_over(execution)
    assert _get_result(execution) == ("ROLLED_BACK", "ROLLED_BACK")
    assert drive.service()["taskDefinition"] == before


def test_an_older_execution_is_rolled_back_by_deploying_what_ran_before_it(drive: Drive) -> None:
    drive.run("1.26")
    older = drive.run("1.27")
    drive.run("1.28")
    rollback = roll_back_execution(actor=drive.deployer, execution=older)
    assert rollback != older
    assert rollback.artifact["tag"] == "1.26"
    assert _get_result(drive.until_over(rollback)) == ("SUCCESS", "COMPLETED")


def test_a_failed_step_is_tried_again_in_the_same_execution(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.run("nopull")
    first_lines = drive.log(execution)
    retry_execution(actor=drive.deployer, execution=execution)
    drive.reconcile()
    execution.refresh_from_db()
    assert not execution.is_over
    drive.until_over(execution)
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK")
    assert drive.log(execution)[: len(first_lines)] == first_lines
    assert sum(line.startswith("First failure") for line in drive.log(execution)) == 2
    step = build_execution_document(execution, drive.deployer)["stages"][0]["steps"][0]
    assert step["attempt"] == 2


def test_a_step_that_takes_too_long_ends_timed_out_and_is_undone(drive: Drive) -> None:
    drive.run("1.27")
    drive.pipeline.yaml = drive.pipeline.yaml.replace("timeout: 30m", "timeout: 20s", 1)
    assert "timeout: 20s" in drive.pipeline.yaml
    drive.pipeline.save(update_fields=["yaml"])
    execution = drive.run("slow")
    assert execution.failure["code"] == "TIMED_OUT"
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK")


@pytest.mark.parametrize(
    ("path", "old", "new", "message"),
    [
        (TASK_FILE, "networkMode: awsvpc", "netwrkMode: awsvpc", "netwrkMode"),
        (TASK_FILE, "networkMode: awsvpc", "networkMode: 7", "networkMode"),
        (TASK_FILE, "cpu: '256'", "cpu: '999'", "cpu"),
        (TASK_FILE, "<+primary.artifact.image>", "<+primary.artifact.imag>", "<+primary.artifact.image>"),
        (SERVICE_FILE, "serviceName: myapp", "serviceName: [myapp", "line"),
    ],
)
def test_a_bad_manifest_is_refused_before_any_write(
    drive: Drive, path: str, old: str, new: str, message: str
) -> None:
    _edit(path, old, new)
    execution = drive.run("1.27")
    assert _get_result(execution) == ("FAILED", "FAILED")
    assert message in execution.failure["message"]
    assert f"{path}, line " in execution.failure["message"]
    assert drive.effects() == []


def test_a_missing_file_is_named(drive: Drive) -> None:
    FileNode.objects.filter(path=SERVICE_FILE).delete()
    execution = drive.run("1.27")
    assert execution.failure["code"] == "MANIFEST_MISSING"
    assert SERVICE_FILE in execution.failure["message"]
    assert drive.effects() == []


def test_what_is_overridden_for_the_infrastructure_is_what_ecs_gets(drive: Drive) -> None:
    place = Infrastructure.objects.select_related("environment__scope").get(identifier="sandbox")
    admin = User.objects.get(username="admin")
    for infrastructure, kind, text in (
        (None, "EcsTaskDefinition", "memory: '1024'\ncpu: '512'\n"),
        (place, "EcsServiceDefinition", "desiredCount: 2\n"),
    ):
        override_service(
            actor=admin,
            environment=place.environment,
            service=Service.objects.get(identifier="myapp"),
            infrastructure=infrastructure,
            spec=OverrideSpec({}, [ManifestSpec("mine", kind, "Inline", content=text)]),
        )
    execution = drive.run("1.27")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    service = drive.service()
    assert service["desiredCount"] == 2
    query = {"taskDefinition": service["taskDefinition"]}
    registered = drive.call("ecs", "DescribeTaskDefinition", query)["taskDefinition"]
    assert (registered["cpu"], registered["memory"]) == ("512", "1024")
    log = drive.log(execution)
    assert "Overridden by mine of the environment" in log
    assert "Overridden by mine of the infrastructure" in log
