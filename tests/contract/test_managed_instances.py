"""Capacity providers of managed instances and their daemons, on whatever endpoint."""

import pytest
from botocore.exceptions import ClientError

from tests.contract.endpoint import CLUSTER, Aws
from tests.contract.managed_instances import (
    DAEMON,
    PROVIDER,
    create_daemon,
    create_provider,
    describe_daemon,
    get_cluster_arn,
    register_daemon,
    run_managed_task,
)

NEEDS_INSTANCES = "AWS would start EC2 instances for each test, with roles and networks of their own"
pytestmark = pytest.mark.needs_sandbox(NEEDS_INSTANCES)


@pytest.mark.source("ECS API, CreateCapacityProvider and DescribeCapacityProviders: cluster")
def test_a_capacity_provider_of_managed_instances_belongs_to_its_cluster(aws: Aws) -> None:
    arn = create_provider(aws)
    aws.ecs.create_cluster(clusterName="other")
    (provider,) = aws.ecs.describe_capacity_providers(cluster=CLUSTER)["capacityProviders"]
    assert (provider["capacityProviderArn"], provider["type"]) == (arn, "MANAGED_INSTANCES")
    assert (provider["cluster"], provider["status"]) == (CLUSTER, "ACTIVE")
    assert aws.ecs.describe_capacity_providers(cluster="other")["capacityProviders"] == []


@pytest.mark.source(
    "ECS developer guide, Amazon ECS Managed Instances: multiple smaller tasks are placed on larger instances"
)
def test_tasks_share_a_managed_instance_until_it_has_no_room(aws: Aws) -> None:
    create_provider(aws)
    tasks = [run_managed_task(aws), run_managed_task(aws), run_managed_task(aws, memory="15600")]
    assert {(t["launchType"], t["capacityProviderName"]) for t in tasks} == {("MANAGED_INSTANCES", PROVIDER)}
    first, second, third = (task["containerInstanceArn"] for task in tasks)
    assert first == second != third
    described = aws.ecs.describe_container_instances(cluster=CLUSTER, containerInstances=[first])
    assert described["containerInstances"][0]["capacityProviderName"] == PROVIDER


@pytest.mark.source(
    "ECS API, RegisterDaemonTaskDefinition; DaemonTaskDefinition: the revision always increases by one"
)
def test_daemon_task_definitions_have_families_and_revisions_of_their_own(aws: Aws) -> None:
    first, second = register_daemon(aws), register_daemon(aws, "v2")
    assert [arn.rpartition(":daemon-task-definition/")[2] for arn in (first, second)] == [
        "monitoring-agent:1",
        "monitoring-agent:2",
    ]
    newest = aws.ecs.describe_daemon_task_definition(daemonTaskDefinition="monitoring-agent")
    assert newest["daemonTaskDefinition"]["daemonTaskDefinitionArn"] == second
    listed = aws.ecs.list_daemon_task_definitions(family="monitoring-agent", sort="DESC")
    assert [entry["arn"] for entry in listed["daemonTaskDefinitions"]] == [second, first]
    aws.ecs.delete_daemon_task_definition(daemonTaskDefinition=second)
    newest = aws.ecs.describe_daemon_task_definition(daemonTaskDefinition="monitoring-agent")
    assert newest["daemonTaskDefinition"]["daemonTaskDefinitionArn"] == first
    assert aws.ecs.list_task_definitions(familyPrefix="monitoring-agent")["taskDefinitionArns"] == []


@pytest.mark.source(
    "ECS developer guide, Amazon ECS Managed Daemons: daemons do not launch instances independently; exactly "
    "one daemon task runs on every instance"
)
def test_a_daemon_runs_once_on_each_instance_and_starts_none(aws: Aws) -> None:
    arn = create_daemon(aws, create_provider(aws))["daemonArn"]
    aws.advance(60)
    (revision,) = describe_daemon(aws, arn)["currentRevisions"]
    assert (revision["totalRunningCount"], revision["totalWithoutDaemonCount"]) == (0, 0)
    run_managed_task(aws)
    run_managed_task(aws, memory="15600")
    (revision,) = describe_daemon(aws, arn)["currentRevisions"]
    assert revision["totalRunningCount"] == 2
    assert [provider["runningCount"] for provider in revision["capacityProviders"]] == [2]


@pytest.mark.source("ECS API, CreateDaemon, ListDaemons and DescribeDaemon: deploymentArn, currentRevisions")
def test_a_daemon_is_listed_in_its_cluster_and_described_with_its_deployment(aws: Aws) -> None:
    provider = create_provider(aws)
    made = create_daemon(aws, provider)
    assert made["status"] == "ACTIVE"
    cluster = get_cluster_arn(aws)
    (summary,) = aws.ecs.list_daemons(clusterArn=cluster)["daemonSummariesList"]
    assert (summary["daemonArn"], summary["status"]) == (made["daemonArn"], "ACTIVE")
    assert made["daemonArn"].endswith(f":daemon/{CLUSTER}/{DAEMON}")
    assert aws.ecs.list_daemons(clusterArn=cluster, capacityProviderArns=[provider])["daemonSummariesList"]
    other = create_provider(aws, "other")
    assert not aws.ecs.list_daemons(clusterArn=cluster, capacityProviderArns=[other])["daemonSummariesList"]
    assert describe_daemon(aws, made["daemonArn"])["deploymentArn"] == made["deploymentArn"]


@pytest.mark.source("ECS API, UpdateDaemon: a new deployment progressively rolls out the changes")
def test_an_update_replaces_the_revision_when_its_deployment_has_succeeded(aws: Aws) -> None:
    provider = create_provider(aws)
    arn = create_daemon(aws, provider)["daemonArn"]
    run_managed_task(aws)
    aws.advance(60)
    (before,) = describe_daemon(aws, arn)["currentRevisions"]
    deployment = aws.ecs.update_daemon(
        daemonArn=arn, daemonTaskDefinitionArn=register_daemon(aws, "v2"), capacityProviderArns=[provider]
    )["deploymentArn"]
    (described,) = aws.ecs.describe_daemon_deployments(daemonDeploymentArns=[deployment])["daemonDeployments"]
    assert described["status"] == "IN_PROGRESS"
    assert [source["arn"] for source in described["sourceDaemonRevisions"]] == [before["arn"]]
    assert described["targetDaemonRevision"]["totalRunningInstanceCount"] == 0
    aws.advance(60)
    (described,) = aws.ecs.describe_daemon_deployments(daemonDeploymentArns=[deployment])["daemonDeployments"]
    assert described["status"] == "SUCCESSFUL"
    assert described["targetDaemonRevision"]["totalRunningInstanceCount"] == 1
    (after,) = describe_daemon(aws, arn)["currentRevisions"]
    assert after["arn"] == described["targetDaemonRevision"]["arn"] != before["arn"]
    (revision,) = aws.ecs.describe_daemon_revisions(daemonRevisionArns=[after["arn"]])["daemonRevisions"]
    assert revision["containerImages"][0]["image"] == "monitoring-agent:v2"
    statuses = aws.ecs.list_daemon_deployments(daemonArn=arn)["daemonDeployments"]
    assert [entry["status"] for entry in statuses] == ["SUCCESSFUL", "SUCCESSFUL"]


@pytest.mark.source(
    "ECS developer guide, Creating and managing daemons: settings omitted from UpdateDaemon revert to their "
    "defaults, and critical defaults to true"
)
def test_settings_that_an_update_omits_return_to_their_defaults(aws: Aws) -> None:
    provider = create_provider(aws)
    made = create_daemon(aws, provider, critical=False, deploymentConfiguration={"drainPercent": 50.0})
    aws.ecs.update_daemon(
        daemonArn=made["daemonArn"],
        daemonTaskDefinitionArn=register_daemon(aws),
        capacityProviderArns=[provider],
    )
    arns = [made["deploymentArn"], describe_daemon(aws, made["daemonArn"])["deploymentArn"]]
    deployments = aws.ecs.describe_daemon_deployments(daemonDeploymentArns=arns)["daemonDeployments"]
    assert [d["deploymentConfiguration"]["drainPercent"] for d in deployments] == [50.0, 25.0]
    revisions = aws.ecs.describe_daemon_revisions(
        daemonRevisionArns=[d["targetDaemonRevision"]["arn"] for d in deployments]
    )["daemonRevisions"]
    assert [revision["critical"] for revision in revisions] == [False, True]


@pytest.mark.source("ECS API, DeleteDaemon: the status changes to DELETE_IN_PROGRESS; it must be ACTIVE")
def test_a_deleted_daemon_drains_before_it_is_gone(aws: Aws) -> None:
    arn = create_daemon(aws, create_provider(aws))["daemonArn"]
    assert aws.ecs.delete_daemon(daemonArn=arn)["status"] == "DELETE_IN_PROGRESS"
    with pytest.raises(ClientError, match="DaemonNotActiveException"):
        aws.ecs.delete_daemon(daemonArn=arn)
    aws.advance(60)
    assert aws.ecs.list_daemons(clusterArn=get_cluster_arn(aws))["daemonSummariesList"] == []
    with pytest.raises(ClientError, match="DaemonNotFoundException"):
        describe_daemon(aws, arn)


@pytest.mark.source(
    "ECS API, CreateDaemon: only supported for Amazon ECS Managed Instances capacity providers"
)
def test_a_daemon_of_any_other_capacity_provider_is_refused(aws: Aws) -> None:
    with pytest.raises(ClientError, match="InvalidParameterException"):
        create_daemon(aws, "FARGATE")
