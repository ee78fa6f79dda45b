"""Client for ECS: services, tasks, task definitions and service deployments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from aws.apis.ecs_types import (
    EcsService,
    EcsTask,
    RunTaskResult,
    ServiceDeployment,
    ServiceRevision,
    TaskDefinition,
    format_tags,
    parse_tags,
)
from aws.caller import Caller, paginate, require_member, split_batches
from aws.errors import NotFound
from aws.shapes import get_parameter_names

SERVICES_PER_CALL = 10
TASKS_PER_CALL = 100
CONTAINER_INSTANCES_PER_CALL = 100
REVISIONS_PER_CALL = 20
# Of DescribeDaemonDeployments and DescribeDaemonRevisions.
DAEMON_ARNS_PER_CALL = 20


def select_update_fields(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a CreateService document that UpdateService accepts, without tags and names.

    The difference comes from botocore's model, so new parameters need no change here. Tags are set by `tag`,
    names are arguments.
    """
    common = get_parameter_names("ecs", "UpdateService") & get_parameter_names("ecs", "CreateService")
    return {key: value for key, value in definition.items() if key in common - {"cluster"}}


@dataclass(frozen=True)
class EcsClient:
    """Speaks ECS through a caller."""

    caller: Caller

    def describe_service(self, cluster: str, name: str) -> EcsService | None:
        """Return the service, active, draining or inactive; None if it is missing."""
        services = self.describe_services(cluster, [name])
        return services[0] if services else None

    def describe_services(self, cluster: str, names: Sequence[str]) -> list[EcsService]:
        """Return the services among `names` that exist, ten to a call."""
        return [EcsService.from_aws(service) for service in self.describe_raw_services(cluster, names)]

    def describe_raw_services(self, cluster: str, names: Sequence[str]) -> list[dict[str, Any]]:
        """Return the services as raw AWS documents, for callers that only detect changes."""
        services: list[dict[str, Any]] = []
        for batch in split_batches(names, SERVICES_PER_CALL):
            response = self._call("DescribeServices", {"cluster": cluster, "services": batch})
            services += response.get("services", ())
        return services

    def create_service(self, definition: Mapping[str, Any], cluster: str, client_token: str) -> EcsService:
        """Create the service; the same token within a day returns the same service, not a second one."""
        params = {**definition, "cluster": cluster, "clientToken": client_token}
        return self._call_for_service("CreateService", params)

    def update_service(self, cluster: str, name: str, changes: Mapping[str, Any]) -> EcsService:
        return self._call_for_service("UpdateService", {**changes, "cluster": cluster, "service": name})

    def delete_service(self, cluster: str, name: str, force: bool = False) -> EcsService:
        return self._call_for_service("DeleteService", {"cluster": cluster, "service": name, "force": force})

    def register_task_definition(
        self, definition: Mapping[str, Any], tags: Mapping[str, str] | None = None
    ) -> TaskDefinition:
        """Register a new revision, always; `tags` are added to those of the definition."""
        params = dict(definition)
        if merged := parse_tags(params.get("tags")) | dict(tags or {}):
            params["tags"] = format_tags(merged)
        response = self._call("RegisterTaskDefinition", params)
        registered = require_member(response, "taskDefinition", "ecs", "RegisterTaskDefinition")
        return TaskDefinition.from_aws(registered, response.get("tags", ()))

    def describe_task_definition(self, arn: str, with_tags: bool = False) -> TaskDefinition:
        """Return the revision of an ARN or `family:revision`, or the latest active one of a family.

        Raises `NotFound` if there is none.
        """
        params = {"taskDefinition": arn} | ({"include": ["TAGS"]} if with_tags else {})
        response = self._call("DescribeTaskDefinition", params)
        definition = require_member(response, "taskDefinition", "ecs", "DescribeTaskDefinition")
        return TaskDefinition.from_aws(definition, response.get("tags", ()))

    def get_latest_revision(self, family: str) -> int:
        """Return the family's latest active revision number, 0 if it has none."""
        try:
            return self.describe_task_definition(family).revision
        except NotFound:
            return 0

    def deregister_task_definition(self, arn: str) -> None:
        """Deregister a revision: running tasks continue, new ones cannot use it."""
        self._call("DeregisterTaskDefinition", {"taskDefinition": arn})

    def list_tasks(self, cluster: str, service: str, desired_status: str = "RUNNING") -> list[str]:
        """Return the ARNs of a service's tasks; stopped ones stay listed for about an hour."""
        params = {"cluster": cluster, "serviceName": service, "desiredStatus": desired_status}
        return list(
            paginate(self.caller, "ecs", "ListTasks", params, result_key="taskArns", cursor_key="nextToken")
        )

    def list_stopped_tasks(self, cluster: str, family: str) -> list[str]:
        """Return the ARNs of a family's tasks of the last hour, also if their service was deleted."""
        params = {"cluster": cluster, "family": family, "desiredStatus": "STOPPED"}
        return list(
            paginate(self.caller, "ecs", "ListTasks", params, result_key="taskArns", cursor_key="nextToken")
        )

    def list_all_tasks(self, cluster: str) -> list[str]:
        """Return the ARNs of all tasks of a cluster that run or are to run."""
        params = {"cluster": cluster}
        return list(
            paginate(self.caller, "ecs", "ListTasks", params, result_key="taskArns", cursor_key="nextToken")
        )

    def list_services(self, cluster: str) -> list[str]:
        """Return the ARNs of a cluster's services, a hundred to a call."""
        params = {"cluster": cluster, "maxResults": 100}
        return list(
            paginate(
                self.caller, "ecs", "ListServices", params, result_key="serviceArns", cursor_key="nextToken"
            )
        )

    def get_instance_ids(self, cluster: str, arns: Sequence[str]) -> dict[str, str]:
        """Return the EC2 instance ids of container instances, by their ARNs."""
        instance_ids: dict[str, str] = {}
        for batch in split_batches(arns, CONTAINER_INSTANCES_PER_CALL):
            params = {"cluster": cluster, "containerInstances": batch}
            response = self._call("DescribeContainerInstances", params)
            for instance in response.get("containerInstances", ()):
                instance_ids[instance.get("containerInstanceArn", "")] = instance.get("ec2InstanceId", "")
        return instance_ids

    def run_task(self, request: Mapping[str, Any], cluster: str, client_token: str) -> RunTaskResult:
        """Start up to ten tasks of a request with task definition and count.

        The same token within a day returns the same tasks. The result contains placement failures.
        """
        params = {**request, "cluster": cluster, "clientToken": client_token}
        return RunTaskResult.from_aws(self._call("RunTask", params))

    def stop_task(self, cluster: str, arn: str, reason: str) -> None:
        """Stop a task; DescribeTasks then returns the reason."""
        self._call("StopTask", {"cluster": cluster, "task": arn, "reason": reason})

    def list_tasks_started_by(
        self, cluster: str, started_by: str, desired_status: str = "RUNNING"
    ) -> list[str]:
        """Return the ARNs of the tasks with this `startedBy`; stopped ones stay listed for an hour."""
        params = {"cluster": cluster, "startedBy": started_by, "desiredStatus": desired_status}
        return list(
            paginate(self.caller, "ecs", "ListTasks", params, result_key="taskArns", cursor_key="nextToken")
        )

    def describe_tasks(self, cluster: str, arns: Sequence[str]) -> list[EcsTask]:
        """Return the known tasks among `arns`, a hundred to a call."""
        tasks: list[EcsTask] = []
        for batch in split_batches(arns, TASKS_PER_CALL):
            response = self._call("DescribeTasks", {"cluster": cluster, "tasks": batch})
            tasks += [EcsTask.from_aws(task) for task in response.get("tasks", ())]
        return tasks

    def list_service_deployments(
        self, cluster: str, service: str, after: datetime | None = None
    ) -> list[ServiceDeployment]:
        """Return the service's deployments as recorded by ECS, newest first, on one page of a hundred."""
        since = {"createdAt": {"after": after.isoformat()}} if after else {}
        params = {"cluster": cluster, "service": service, "maxResults": 100, **since}
        response = self._call("ListServiceDeployments", params)
        return [
            ServiceDeployment.from_aws(deployment) for deployment in response.get("serviceDeployments", ())
        ]

    def describe_service_deployment(self, arn: str) -> ServiceDeployment | None:
        """Return a service deployment with its stage, hooks and traffic; None if ECS does not know it."""
        response = self._call("DescribeServiceDeployments", {"serviceDeploymentArns": [arn]})
        found = [ServiceDeployment.from_aws(raw) for raw in response.get("serviceDeployments", ())]
        return found[0] if found else None

    def stop_service_deployment(self, arn: str) -> None:
        """Stop a service deployment: ECS rolls it back."""
        self._call("StopServiceDeployment", {"serviceDeploymentArn": arn, "stopType": "ROLLBACK"})

    def continue_service_deployment(self, arn: str, hook_id: str, action: str) -> None:
        """End a pause of a service deployment by CONTINUE or ROLLBACK."""
        params = {"serviceDeploymentArn": arn, "hookId": hook_id, "action": action}
        self._call("ContinueServiceDeployment", params)

    def describe_service_revisions(self, arns: Sequence[str]) -> list[ServiceRevision]:
        """Return the revisions that service deployments target; they name the task definition."""
        revisions: list[ServiceRevision] = []
        for batch in split_batches(arns, REVISIONS_PER_CALL):
            response = self._call("DescribeServiceRevisions", {"serviceRevisionArns": batch})
            revisions += [
                ServiceRevision.from_aws(revision) for revision in response.get("serviceRevisions", ())
            ]
        return revisions

    def list_clusters(self) -> list[str]:
        """Return the ARNs of the region's clusters."""
        return list(
            paginate(self.caller, "ecs", "ListClusters", {}, result_key="clusterArns", cursor_key="nextToken")
        )

    def list_tags(self, arn: str) -> dict[str, str]:
        return parse_tags(self._call("ListTagsForResource", {"resourceArn": arn}).get("tags"))

    def add_tags(self, arn: str, tags: Mapping[str, str]) -> None:
        self._call("TagResource", {"resourceArn": arn, "tags": format_tags(tags)})

    def remove_tags(self, arn: str, keys: Sequence[str]) -> None:
        self._call("UntagResource", {"resourceArn": arn, "tagKeys": list(keys)})

    def _call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return self.caller.call("ecs", operation, params)

    def _call_for_service(self, operation: str, params: Mapping[str, Any]) -> EcsService:
        return EcsService.from_aws(require_member(self._call(operation, params), "service", "ecs", operation))
