"""ECS as it would be after the planned writes."""

from collections.abc import Mapping
from typing import Any

from aws.preview.live import Live
from aws.preview.services import PlannedServices
from aws.preview.tags import TagOverlay
from aws.preview.task_definitions import PlannedTaskDefinitions
from aws.preview.tasks import PlannedTasks

_SERVICE_WRITES = ("CreateService", "UpdateService", "DeleteService")


class EcsOverlay:
    """Answers for the services, task definitions, tasks and tags that the preview has touched."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._tags = TagOverlay()
        self._services = PlannedServices(live, self._tags)
        self._definitions = PlannedTaskDefinitions(live)
        self._tasks = PlannedTasks(live, self._definitions)

    def planned_targets(self, target_group_arn: str) -> list[str]:
        """A name for each target that a planned service puts into a target group."""
        return self._services.targets_in(target_group_arn)

    def before(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The service that a write is about to change."""
        return self._services.now(params) if operation in ("UpdateService", "DeleteService") else {}

    def take(self, operation: str, params: Mapping[str, Any], answer: dict[str, Any]) -> None:
        if operation in _SERVICE_WRITES:
            answer["service"] = self._services.take(operation, params, answer.get("service", {}))
        elif operation == "RegisterTaskDefinition":
            answer["taskDefinition"] = self._definitions.register(params, answer["taskDefinition"])
        elif operation == "DeregisterTaskDefinition":
            answer["taskDefinition"] = self._definitions.deregister(params["taskDefinition"])
        elif operation == "RunTask":
            answer.update(tasks=self._tasks.run(params), failures=[])
        elif operation == "StopTask":
            answer["task"] = self._tasks.stop(params)
        elif operation == "TagResource":
            self._tags.put(params["resourceArn"], params["tags"])
        elif operation == "UntagResource":
            self._tags.drop(params["resourceArn"], params["tagKeys"])

    def answer(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if operation == "DescribeServices":
            return self._services.described(params)
        if operation == "DescribeTaskDefinition":
            return self._definitions.described(params)
        if operation == "DescribeTasks":
            planned, others = self._services.tasks_among(params["tasks"])
            found = self._tasks.described({**params, "tasks": others})
            return {**found, "tasks": [*found["tasks"], *planned]}
        if operation == "ListTasks" and self._services.are_tasks_planned(params):
            return {"taskArns": self._services.tasks_of(params)}
        if operation == "ListTasks":
            return self._tasks.listed(params)
        if operation == "ListTagsForResource":
            return {"tags": self._tags_of(params)}
        return self._live.read("ecs", operation, params)

    def _tags_of(self, params: Mapping[str, Any]) -> list[dict[str, Any]]:
        arn = params["resourceArn"]
        planned = self._live.names.are_in(arn)
        found = () if planned else self._live.read("ecs", "ListTagsForResource", params).get("tags", ())
        return self._tags.over(arn, found)
