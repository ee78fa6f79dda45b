"""ecs-deploy deploys, rolls back, runs and scales in the sandbox."""

from tests.clients.client_programs import Program
from tests.contract.endpoint import CLUSTER, Aws
from tests.fixtures.processes import wait_until

OURS = (CLUSTER, "myapp")


def steady(aws: Aws) -> str:
    service = aws.create()
    wait_until(lambda: aws.service()["deployments"][0]["rolloutState"] == "COMPLETED", "the first rollout")
    return str(service["taskDefinition"])


def test_it_deploys_another_tag(aws: Aws, ecs_deploy: Program) -> None:
    before = steady(aws)
    result = ecs_deploy("deploy", *OURS, "--tag", "v2")
    assert "Deployment successful" in result.output
    service = aws.service()
    assert service["taskDefinition"] != before
    definition = aws.ecs.describe_task_definition(taskDefinition=service["taskDefinition"])["taskDefinition"]
    assert [c["image"] for c in definition["containerDefinitions"]] == ["myapp:v2"]
    retired = aws.ecs.describe_task_definition(taskDefinition=before)["taskDefinition"]
    assert retired["status"] == "INACTIVE", "it deregisters what it replaced"


def test_it_rolls_back_when_the_new_tag_does_not_get_well(aws: Aws, ecs_deploy: Program) -> None:
    before = steady(aws)
    result = ecs_deploy("deploy", *OURS, "--tag", "crash", "--rollback", "--timeout", "6", status=1)
    assert "Rollback successful" in result.output
    service = aws.service()
    assert service["taskDefinition"] == before
    assert service["runningCount"] == 1


def test_it_says_why_when_an_image_cannot_be_pulled(aws: Aws, ecs_deploy: Program) -> None:
    steady(aws)
    result = ecs_deploy("deploy", *OURS, "--tag", "nopull", "--timeout", "20", status=1)
    assert "CannotPullContainerError" in result.output


def test_it_scales(aws: Aws, ecs_deploy: Program) -> None:
    steady(aws)
    assert "Scaling successful" in ecs_deploy("scale", *OURS, "3").output
    assert aws.service()["runningCount"] == 3


def test_it_runs_a_task_with_another_command(aws: Aws, ecs_deploy: Program) -> None:
    aws.register()
    places = [word for subnet in aws.endpoint.subnets for word in ("--subnet", subnet)]
    result = ecs_deploy(
        "run",
        CLUSTER,
        "myapp",
        "--launchtype",
        "FARGATE",
        *places,
        "--securitygroup",
        aws.endpoint.security_group,
        "--command",
        "web",
        "date",
    )
    assert "Successfully started 1 instances of task: myapp:1" in result.output
    arns = aws.ecs.list_tasks(cluster=CLUSTER)["taskArns"]
    (task,) = aws.ecs.describe_tasks(cluster=CLUSTER, tasks=arns)["tasks"]
    assert task["overrides"]["containerOverrides"][0]["command"] == ["date"]
