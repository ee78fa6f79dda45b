"""Task definitions, tasks and services of ECS after the planned writes."""

from collections.abc import Mapping
from typing import Any

from aws.errors import AwsError
from aws.preview.ecs_services import PlannedServices
from aws.preview.live_reads import LiveAccount, TagOverlay


class PlannedTaskDefinitions:
    """The revisions that the preview has registered or deregistered, by ARN."""

    def __init__(self, live: LiveAccount) -> None:
        self._live = live
        self._planned: dict[str, dict[str, Any]] = {}
        self._latest_revisions: dict[str, int] = {}
        self._tags: dict[str, list[Any]] = {}

    def register(self, params: Mapping[str, Any], planned: Mapping[str, Any]) -> dict[str, Any]:
        """Return the revision of a registration; its number is the next one at present."""
        family = params["family"]
        revision = self._latest_revisions[family] = self._get_latest_revision(family) + 1
        arn = planned["taskDefinitionArn"]
        self._tags[arn] = list(params.get("tags", ()))
        definition = {key: value for key, value in params.items() if key != "tags"}
        revision_document = {**definition, "taskDefinitionArn": arn, "revision": revision, "status": "ACTIVE"}
        self._planned[arn] = revision_document
        return revision_document

    def deregister(self, name: str) -> dict[str, Any]:
        """Return the revision as a deregistration leaves it."""
        definition = self.describe({"taskDefinition": name})["taskDefinition"]
        inactive = {**definition, "status": "INACTIVE"}
        self._planned[definition.get("taskDefinitionArn", name)] = inactive
        return inactive

    def describe(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response of DescribeTaskDefinition by ARN, `family:revision` or family."""
        planned = self._find(params["taskDefinition"])
        if planned is not None:
            tags = (
                self._tags.get(planned["taskDefinitionArn"], [])
                if "TAGS" in params.get("include", ())
                else []
            )
            return {"taskDefinition": planned, "tags": tags}
        response = self._live.read("ecs", "DescribeTaskDefinition", params)
        definition = response.get("taskDefinition", {})
        family, revision = definition.get("family", ""), definition.get("revision", 0)
        self._latest_revisions[family] = max(self._latest_revisions.get(family, 0), revision)
        return response

    def _find(self, name: str) -> dict[str, Any] | None:
        if name in self._planned:
            return self._planned[name]
        active = [revision for revision in self._planned.values() if revision.get("status") == "ACTIVE"]
        matches = [
            revision
            for revision in active
            if name in (revision["family"], f"{revision['family']}:{revision['revision']}")
        ]
        return matches[-1] if matches else None

    def _get_latest_revision(self, family: str) -> int:
        if family not in self._latest_revisions:
            try:
                self.describe({"taskDefinition": family})
            except AwsError:
                # None if there is none or access is denied: the number appears only in sentences.
                return 0
        return self._latest_revisions.get(family, 0)


class PlannedTasks:
    """The tasks of RunTask, by ARN."""

    def __init__(self, live: LiveAccount, definitions: PlannedTaskDefinitions) -> None:
        self._live = live
        self._definitions = definitions
        self._planned: dict[str, dict[str, Any]] = {}

    def run(self, params: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the tasks as RunTask answers them."""
        containers = self._list_containers(params["taskDefinition"])
        first = len(self._planned) + 1
        tasks = [
            self._build_task(params, number, containers)
            for number in range(first, first + params.get("count", 1))
        ]
        self._planned |= {task["taskArn"]: task for task in tasks}
        return [{**task, "lastStatus": "PROVISIONING", "desiredStatus": "RUNNING"} for task in tasks]

    def _build_task(
        self, params: Mapping[str, Any], number: int, containers: list[dict[str, Any]]
    ) -> dict[str, Any]:
        return {
            "taskArn": self._live.placeholders.create(f"task {number}"),
            "clusterArn": params.get("cluster", "default"),
            "taskDefinitionArn": params["taskDefinition"],
            "startedBy": params.get("startedBy", ""),
            "launchType": params.get("launchType", ""),
            "lastStatus": "STOPPED",
            "desiredStatus": "STOPPED",
            "stopCode": "EssentialContainerExited",
            "containers": [{**container} for container in containers],
        }

    def _list_containers(self, task_definition: str) -> list[dict[str, Any]]:
        try:
            response = self._definitions.describe({"taskDefinition": task_definition})
        except AwsError:
            return []
        return [
            {"name": container.get("name", ""), "lastStatus": "STOPPED", "exitCode": 0}
            for container in response.get("taskDefinition", {}).get("containerDefinitions", ())
        ]

    def stop(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return a task as StopTask leaves it."""
        stopped = {**self._planned.get(params["task"], {"taskArn": params["task"]}), "lastStatus": "STOPPED"}
        self._planned[params["task"]] = stopped
        return stopped

    def describe(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response of DescribeTasks; only unplanned tasks are read from AWS."""
        planned = [self._planned[arn] for arn in params["tasks"] if arn in self._planned]
        live_arns = [arn for arn in params["tasks"] if arn not in self._planned]
        live = self._live.read("ecs", "DescribeTasks", {**params, "tasks": live_arns}) if live_arns else {}
        return {"tasks": [*live.get("tasks", ()), *planned], "failures": list(live.get("failures", ()))}

    def list_tasks(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response of ListTasks; planned tasks are stopped ones of RunTask."""
        response: dict[str, Any] = {}
        if not self._live.placeholders.are_used_in(params):
            response = self._live.read("ecs", "ListTasks", params)
        planned = (
            []
            if "serviceName" in params
            else [arn for arn in self._planned if self._is_selected(arn, params)]
        )
        return {**response, "taskArns": [*response.get("taskArns", ()), *planned]}

    def _is_selected(self, arn: str, params: Mapping[str, Any]) -> bool:
        task = self._planned[arn]
        if params.get("startedBy") not in (None, task.get("startedBy")):
            return False
        return bool(task.get("desiredStatus") == params.get("desiredStatus", "RUNNING"))


_SERVICE_WRITES = ("CreateService", "UpdateService", "DeleteService")


class EcsOverlay:
    """Answers for the services, task definitions, tasks and tags that the preview has touched."""

    def __init__(self, live: LiveAccount) -> None:
        self._live = live
        self._tags = TagOverlay()
        self._services = PlannedServices(live, self._tags)
        self._definitions = PlannedTaskDefinitions(live)
        self._tasks = PlannedTasks(live, self._definitions)

    def list_planned_targets(self, target_group_arn: str) -> list[str]:
        """Return a name for each target that a planned service puts into a target group."""
        return self._services.list_targets(target_group_arn)

    def get_state_before(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the service that a write is about to change."""
        return self._services.get_current(params) if operation in ("UpdateService", "DeleteService") else {}

    def apply_write(self, operation: str, params: Mapping[str, Any], response: dict[str, Any]) -> None:
        if operation in _SERVICE_WRITES:
            response["service"] = self._services.apply_write(operation, params, response.get("service", {}))
        elif operation == "RegisterTaskDefinition":
            response["taskDefinition"] = self._definitions.register(params, response["taskDefinition"])
        elif operation == "DeregisterTaskDefinition":
            response["taskDefinition"] = self._definitions.deregister(params["taskDefinition"])
        elif operation == "RunTask":
            response.update(tasks=self._tasks.run(params), failures=[])
        elif operation == "StopTask":
            response["task"] = self._tasks.stop(params)
        elif operation == "TagResource":
            self._tags.set_tags(params["resourceArn"], params["tags"])
        elif operation == "UntagResource":
            self._tags.remove_tags(params["resourceArn"], params["tagKeys"])

    def answer_read(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if operation == "DescribeServices":
            return self._services.describe(params)
        if operation == "DescribeTaskDefinition":
            return self._definitions.describe(params)
        if operation == "DescribeTasks":
            planned, other_arns = self._services.split_planned_tasks(params["tasks"])
            response = self._tasks.describe({**params, "tasks": other_arns})
            return {**response, "tasks": [*response["tasks"], *planned]}
        if operation == "ListTasks" and self._services.has_planned_tasks(params):
            return {"taskArns": self._services.list_tasks(params)}
        if operation == "ListTasks":
            return self._tasks.list_tasks(params)
        if operation == "ListTagsForResource":
            return {"tags": self._list_tags(params)}
        return self._live.read("ecs", operation, params)

    def _list_tags(self, params: Mapping[str, Any]) -> list[dict[str, Any]]:
        arn = params["resourceArn"]
        planned = self._live.placeholders.are_used_in(arn)
        tags = () if planned else self._live.read("ecs", "ListTagsForResource", params).get("tags", ())
        return self._tags.apply_to(arn, tags)
