"""The verbs against the pretend AWS account: the same suite that keeps both from drifting apart."""

import pytest

from aws.apis.ecs import EcsClient, select_update_fields
from aws.apis.elb import ElbClient
from aws.apis.iam import StsClient
from aws.apis.logs import LogsClient
from aws.apis.scaling import ScalingClient
from aws.caller import BotoCaller
from aws.clients import AccessKey
from aws.errors import AwsError, Denied, Invalid, NotFound, Throttled, Unanswered
from sandbox.process import SandboxProcess
from tests.aws.fake_caller import skip_sleep

CLUSTER = "demo"


@pytest.fixture
def caller(sandbox: SandboxProcess) -> BotoCaller:
    return BotoCaller(AccessKey("AKIASANDBOX", "secret"), "us-east-1", sandbox.url, sleep=skip_sleep)


@pytest.fixture
def ecs(caller: BotoCaller) -> EcsClient:
    return EcsClient(caller)


def task_definition(sandbox: SandboxProcess, tag: str = "1") -> dict[str, object]:
    return {
        "family": "myapp",
        "requiresCompatibilities": ["FARGATE"],
        "networkMode": "awsvpc",
        "cpu": "256",
        "memory": "512",
        "executionRoleArn": _fact(sandbox, "role"),
        "containerDefinitions": [
            {
                "name": "web",
                "image": f"library/nginx:{tag}",
                "logConfiguration": {
                    "logDriver": "awslogs",
                    "options": {
                        "awslogs-group": "/ecs/myapp",
                        "awslogs-region": "us-east-1",
                        "awslogs-stream-prefix": "web",
                    },
                },
            }
        ],
    }


def service_definition(sandbox: SandboxProcess) -> dict[str, object]:
    return {
        "serviceName": "myapp",
        "desiredCount": 1,
        "launchType": "FARGATE",
        "networkConfiguration": {"awsvpcConfiguration": {"subnets": sandbox.seed()["subnets"]}},
        "tags": [{"key": "team", "value": "a"}],
    }


def _fact(sandbox: SandboxProcess, part: str) -> object:
    return next(value for key, value in sandbox.seed().items() if part in key)


def deploy(ecs: EcsClient, sandbox: SandboxProcess, tag: str = "1") -> str:
    registered = ecs.register_task_definition(task_definition(sandbox, tag), {"slipway:intent": tag})
    definition = {**service_definition(sandbox), "taskDefinition": registered.arn}
    if ecs.describe_service(CLUSTER, "myapp") is None:
        answered = ecs.create_service(definition, CLUSTER, "token-1")
    else:
        answered = ecs.update_service(CLUSTER, "myapp", select_update_fields(definition))
    assert answered.primary is not None
    return answered.primary.id


def test_revisions_are_registered_found_and_let_go(ecs: EcsClient, sandbox: SandboxProcess) -> None:
    assert ecs.get_latest_revision("myapp") == 0
    first = ecs.register_task_definition(task_definition(sandbox), {"slipway:intent": "x"})
    assert ecs.get_latest_revision("myapp") == first.revision
    definition = ecs.describe_task_definition(first.arn, with_tags=True)
    assert definition.is_active
    assert definition.tags == {"slipway:intent": "x"}
    ecs.deregister_task_definition(first.arn)
    assert not ecs.describe_task_definition(first.arn).is_active
    with pytest.raises(NotFound):
        ecs.describe_task_definition("nobody:7")


def test_a_service_is_deployed_updated_and_deleted(ecs: EcsClient, sandbox: SandboxProcess) -> None:
    first = deploy(ecs, sandbox)
    sandbox.advance(120)
    service = ecs.describe_service(CLUSTER, "myapp")
    assert service is not None
    assert service.primary is not None
    assert (service.running, service.primary.id, service.primary.rollout_state) == (1, first, "COMPLETED")
    assert any("has reached a steady state" in event.message for event in service.events)
    assert service.events[0].at is not None
    assert service.events[0].at.tzinfo is not None
    (task,) = ecs.describe_tasks(CLUSTER, ecs.list_tasks(CLUSTER, "myapp"))
    assert (task.last_status, task.started_by, task.containers[0].name) == ("RUNNING", first, "web")
    second = deploy(ecs, sandbox, "2")
    assert second != first
    sandbox.advance(300)
    assert [deployment.status for deployment in ecs.list_service_deployments(CLUSTER, "myapp")][
        0
    ] == "SUCCESSFUL"
    revisions = [deployment.target_revision for deployment in ecs.list_service_deployments(CLUSTER, "myapp")]
    targets = {
        revision.task_definition.rsplit(":", 1)[1] for revision in ecs.describe_service_revisions(revisions)
    }
    assert targets == {"1", "2"}
    ecs.add_tags(service.arn, {"extra": "1"})
    ecs.remove_tags(service.arn, ["team"])
    assert ecs.list_tags(service.arn) == {"extra": "1"}
    assert ecs.delete_service(CLUSTER, "myapp", force=True).status == "DRAINING"
    sandbox.advance(120)
    deleted = ecs.describe_service(CLUSTER, "myapp")
    assert deleted is not None
    assert not deleted.is_active


def test_the_same_token_creates_one_service(ecs: EcsClient, sandbox: SandboxProcess) -> None:
    registered = ecs.register_task_definition(task_definition(sandbox))
    definition = {**service_definition(sandbox), "taskDefinition": registered.arn}
    first = ecs.create_service(definition, CLUSTER, "token-1")
    repeat = ecs.create_service(definition, CLUSTER, "token-1")
    assert first.primary is not None
    assert repeat.primary is not None
    assert repeat.primary.id == first.primary.id
    with pytest.raises(AwsError):
        ecs.create_service(definition, CLUSTER, "token-2")


def test_a_crashed_task_says_why_and_left_lines_in_its_log(
    ecs: EcsClient, caller: BotoCaller, sandbox: SandboxProcess
) -> None:
    deploy(ecs, sandbox, "crash")
    sandbox.advance(60)
    stopped = ecs.describe_tasks(CLUSTER, ecs.list_tasks(CLUSTER, "myapp", "STOPPED"))
    assert stopped[0].stop_code == "EssentialContainerExited"
    assert stopped[0].containers[0].exit_code == 1
    assert stopped[0].stopped_at is not None
    lines = LogsClient(caller).tail("/ecs/myapp", f"web/web/{stopped[0].id}", limit=2)
    assert 0 < len(lines) <= 2
    assert all(line.message for line in lines)


def test_scaling_is_suspended_and_resumed(
    ecs: EcsClient, caller: BotoCaller, sandbox: SandboxProcess
) -> None:
    deploy(ecs, sandbox)
    scaling = ScalingClient(caller)
    assert scaling.list_targets(CLUSTER, "myapp") == []
    scaling.register_target(CLUSTER, "myapp", {"MinCapacity": 1, "MaxCapacity": 3})
    tracking = {
        "TargetValue": 60.0,
        "PredefinedMetricSpecification": {"PredefinedMetricType": "ECSServiceAverageCPUUtilization"},
    }
    policy = {
        "PolicyName": "P1",
        "PolicyType": "TargetTrackingScaling",
        "TargetTrackingScalingPolicyConfiguration": tracking,
    }
    arn = scaling.put_policy(CLUSTER, "myapp", policy)
    (before,) = scaling.list_targets(CLUSTER, "myapp")
    scaling.suspend(before)
    (suspended,) = scaling.list_targets(CLUSTER, "myapp")
    assert set(suspended.suspended.values()) == {True}
    assert (suspended.min_capacity, suspended.max_capacity) == (1, 3)
    scaling.resume(before)
    assert scaling.list_targets(CLUSTER, "myapp")[0].suspended == before.suspended
    assert [
        (scaling_policy.name, scaling_policy.arn)
        for scaling_policy in scaling.list_policies(CLUSTER, "myapp")
    ] == [("P1", arn)]
    scaling.delete_policy(CLUSTER, "myapp", "P1")
    scaling.deregister_target(CLUSTER, "myapp")
    assert scaling.list_targets(CLUSTER, "myapp") == []


def test_who_we_are_and_what_there_is(ecs: EcsClient, caller: BotoCaller) -> None:
    assert StsClient(caller).get_account_id() == "123456789012"
    assert [arn.rsplit("/", 1)[-1] for arn in ecs.list_clusters()] == [CLUSTER]
    with pytest.raises(NotFound):
        ElbClient(caller).list_target_health(
            "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/none/0123456789abcdef"
        )


def test_what_aws_refuses_is_invalid(ecs: EcsClient, sandbox: SandboxProcess) -> None:
    with pytest.raises(Invalid, match="No Fargate configuration exists"):
        ecs.register_task_definition({**task_definition(sandbox), "memory": "700"})
    with pytest.raises(NotFound):
        ecs.update_service(CLUSTER, "nobody", {"desiredCount": 1})


@pytest.mark.parametrize(
    ("fault", "kind", "happened"),
    [
        ("throttle", Throttled, False),
        ("error500", Unanswered, False),
        ("denied", Denied, False),
        ("lost_answer", Unanswered, True),
    ],
)
def test_a_write_that_fails_is_sent_once_and_says_what_may_have_happened(
    ecs: EcsClient, sandbox: SandboxProcess, fault: str, kind: type[AwsError], happened: bool
) -> None:
    sandbox.fault(fault, service="ecs", operation="RegisterTaskDefinition", count=1)
    with pytest.raises(AwsError) as caught:
        ecs.register_task_definition(task_definition(sandbox))
    assert type(caught.value) is kind
    assert caught.value.may_have_happened or not happened
    assert (ecs.get_latest_revision("myapp") == 1) == happened
    calls = [entry for entry in sandbox.journal() if entry["operation"] == "RegisterTaskDefinition"]
    assert len(calls) == 1


def test_a_read_survives_two_failures(ecs: EcsClient, sandbox: SandboxProcess) -> None:
    sandbox.fault("throttle", service="ecs", operation="ListClusters", count=2)
    assert len(ecs.list_clusters()) == 1
