"""Tasks of launch type EC2 find their place on container instances, or the service says why not."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.endpoint import CLUSTER, Aws


def register(aws: Aws, *, host_port: int = 8080, **changes: Any) -> str:
    """Register what the documents give a delegate on EC2: bridge network, one port of the host."""
    ports = [{"containerPort": 8080, "hostPort": host_port, "protocol": "tcp"}]
    bridge: dict[str, Any] = {"requiresCompatibilities": ["EC2"], "networkMode": "bridge"}
    sizes = {"cpu": "1024", "memory": "2048", **changes}
    container = aws.container(portMappings=ports, cpu=1, memory=2048)
    return aws.register(containerDefinitions=[container], **bridge, **sizes)


def create(aws: Aws, count: int = 1, cluster: str = CLUSTER, **changes: Any) -> None:
    definition = register(aws, **changes)
    aws.ecs.create_service(
        cluster=cluster,
        serviceName="myapp",
        taskDefinition=definition,
        desiredCount=count,
        launchType="EC2",
    )


def instances(aws: Aws, cluster: str = CLUSTER) -> list[dict[str, Any]]:
    arns = aws.ecs.list_container_instances(cluster=cluster)["containerInstanceArns"]
    descriptions: list[dict[str, Any]] = aws.ecs.describe_container_instances(
        cluster=cluster, containerInstances=arns
    )["containerInstances"]
    return descriptions


def list_remaining_resources(instance: dict[str, Any]) -> dict[str, int]:
    return {r["name"]: r["integerValue"] for r in instance["remainingResources"] if r["type"] == "INTEGER"}


def test_a_service_runs_on_the_instances_of_the_cluster(aws: Aws) -> None:
    create(aws, 2)
    aws.advance(60)
    tasks = aws.tasks()
    assert {t["lastStatus"] for t in tasks} == {"RUNNING"}
    assert {t["containerInstanceArn"] for t in tasks} == {i["containerInstanceArn"] for i in instances(aws)}
    (binding,) = tasks[0]["containers"][0]["networkBindings"]
    assert (binding["hostPort"], binding["containerPort"], binding["protocol"]) == (8080, 8080, "tcp")
    for instance in instances(aws):
        assert instance["runningTasksCount"] == 1
        assert list_remaining_resources(instance) == {"CPU": 4096 - 1024, "MEMORY": 15742 - 2048}


def test_a_third_task_finds_its_port_taken_and_the_service_says_so(aws: Aws) -> None:
    create(aws, 3)
    aws.advance(60)
    assert len(aws.tasks()) == 2
    event = next(e for e in aws.events() if "unable to place" in e)
    assert "because no container instance met all of its requirements. The closest matching" in event
    assert "is already using a port required by your task." in event
    first = instances(aws)[0]
    assert "8080" in first["remainingResources"][2]["stringSetValue"]


def test_a_freed_port_is_used_again(aws: Aws) -> None:
    create(aws, 3)
    aws.advance(60)
    before = {t["taskArn"] for t in aws.tasks()}
    aws.ecs.stop_task(cluster=CLUSTER, task=min(before))
    aws.advance(60)
    after = {t["taskArn"] for t in aws.tasks()}
    assert len(after) == 2
    assert after != before


def test_without_a_host_port_many_tasks_share_an_instance(aws: Aws) -> None:
    create(aws, 6, host_port=0)
    aws.advance(60)
    ports = {
        (t["containerInstanceArn"], t["containers"][0]["networkBindings"][0]["hostPort"]) for t in aws.tasks()
    }
    assert len(ports) == 6
    assert all(port >= 32768 for _, port in ports)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"memory": "16384"}, "has insufficient memory available."),
        ({"cpu": "8192"}, "has insufficient CPU units available."),
    ],
)
def test_a_task_too_big_for_every_instance_is_not_placed(aws: Aws, sizes: dict[str, Any], words: str) -> None:
    create(aws, **sizes)
    aws.advance(60)
    assert aws.tasks() == []
    assert words in aws.events()[-1]


def test_run_task_tells_what_is_missing(aws: Aws) -> None:
    definition = register(aws)
    response = aws.ecs.run_task(cluster=CLUSTER, taskDefinition=definition, launchType="EC2", count=3)
    assert len(response["tasks"]) == 2
    (failure,) = response["failures"]
    assert failure["reason"] == "RESOURCE:PORTS"
    assert failure["arn"] in {i["containerInstanceArn"] for i in instances(aws)}
    instance_arn = response["tasks"][0]["containerInstanceArn"]
    task_arns = aws.ecs.list_tasks(cluster=CLUSTER, containerInstance=instance_arn)["taskArns"]
    assert task_arns == [response["tasks"][0]["taskArn"]]


def test_a_new_cluster_has_instances_unless_its_tag_says_otherwise(aws: Aws) -> None:
    cluster = aws.ecs.create_cluster(clusterName="harness-delegate-cluster")["cluster"]
    assert cluster["registeredContainerInstancesCount"] == 2
    create(aws, cluster="harness-delegate-cluster")
    aws.advance(60)
    assert len(aws.ecs.list_tasks(cluster="harness-delegate-cluster")["taskArns"]) == 1
    aws.ecs.create_cluster(clusterName="bare", tags=[{"key": "sandbox:container-instances", "value": "0"}])
    assert aws.ecs.list_container_instances(cluster="bare")["containerInstanceArns"] == []


def test_machines_can_be_added(aws: Aws) -> None:
    aws.sandbox.control("POST", "container-instances", {"cluster": CLUSTER, "count": 1, "type": "t3.small"})
    assert len(instances(aws)) == 3
    create(aws, 3, memory="1024")
    aws.advance(60)
    assert len(aws.tasks()) == 3


def test_a_draining_instance_takes_no_new_task(aws: Aws) -> None:
    first, second = (i["containerInstanceArn"] for i in instances(aws))
    aws.ecs.update_container_instances_state(cluster=CLUSTER, containerInstances=[first], status="DRAINING")
    create(aws, 2)
    aws.advance(60)
    assert {t["containerInstanceArn"] for t in aws.tasks()} == {second}
    draining = aws.ecs.list_container_instances(cluster=CLUSTER, status="DRAINING")
    assert draining["containerInstanceArns"] == [first]


def test_an_instance_with_tasks_leaves_only_by_force_and_its_tasks_with_it(aws: Aws) -> None:
    create(aws)
    aws.advance(60)
    (task,) = aws.tasks()
    instance_arn = task["containerInstanceArn"]
    with pytest.raises(ClientError, match="Found running tasks on the instance"):
        aws.ecs.deregister_container_instance(cluster=CLUSTER, containerInstance=instance_arn)
    aws.ecs.deregister_container_instance(cluster=CLUSTER, containerInstance=instance_arn, force=True)
    aws.advance(60)
    (replacement,) = aws.tasks()
    assert replacement["containerInstanceArn"] != instance_arn
    (stopped,) = aws.ecs.describe_tasks(cluster=CLUSTER, tasks=[task["taskArn"]])["tasks"]
    assert stopped["stoppedReason"].startswith("Host EC2 (instance i-")
