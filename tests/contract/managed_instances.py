"""A cluster with managed instances and daemons, made through any client's view of an endpoint."""

from typing import Any

from tests.contract.endpoint import CLUSTER, Aws

PROVIDER, DAEMON = "managed", "monitoring"


def create_provider(aws: Aws, name: str = PROVIDER) -> str:
    """Create a capacity provider of managed instances, and return its ARN."""
    vpc = aws.network()["awsvpcConfiguration"]
    template = {
        "ec2InstanceProfileArn": "arn:aws:iam::123456789012:instance-profile/ecsInstanceRole",
        "networkConfiguration": {name: vpc[name] for name in ("subnets", "securityGroups")},
    }
    configuration = {
        "infrastructureRoleArn": "arn:aws:iam::123456789012:role/ecsInfrastructureRole",
        "instanceLaunchTemplate": template,
    }
    response = aws.ecs.create_capacity_provider(
        name=name, cluster=CLUSTER, managedInstancesProvider=configuration
    )
    return str(response["capacityProvider"]["capacityProviderArn"])


def register_daemon(aws: Aws, tag: str = "v1") -> str:
    container = {"name": "agent", "image": f"monitoring-agent:{tag}", "essential": True}
    response = aws.ecs.register_daemon_task_definition(
        family="monitoring-agent", cpu="128", memory="256", containerDefinitions=[container]
    )
    return str(response["daemonTaskDefinitionArn"])


def get_cluster_arn(aws: Aws) -> str:
    return str(aws.ecs.describe_clusters(clusters=[CLUSTER])["clusters"][0]["clusterArn"])


def create_daemon(
    aws: Aws, provider: str, tag: str = "v1", *, name: str = DAEMON, **changes: Any
) -> dict[str, Any]:
    response: dict[str, Any] = aws.ecs.create_daemon(
        daemonName=name,
        clusterArn=get_cluster_arn(aws),
        daemonTaskDefinitionArn=register_daemon(aws, tag),
        capacityProviderArns=[provider],
        **changes,
    )
    return response


def run_managed_task(aws: Aws, memory: str = "512") -> dict[str, Any]:
    """Run a task on the capacity provider, and return it."""
    definition = aws.register(requiresCompatibilities=["MANAGED_INSTANCES"], memory=memory)
    response = aws.ecs.run_task(
        cluster=CLUSTER,
        taskDefinition=definition,
        networkConfiguration=aws.network(),
        capacityProviderStrategy=[{"capacityProvider": PROVIDER, "weight": 1}],
    )
    task: dict[str, Any] = response["tasks"][0]
    return task


def describe_daemon(aws: Aws, arn: str) -> dict[str, Any]:
    daemon: dict[str, Any] = aws.ecs.describe_daemon(daemonArn=arn)["daemon"]
    return daemon
