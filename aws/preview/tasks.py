"""Tasks that the preview would run: they have started, done their work and ended with exit code 0."""

from collections.abc import Mapping
from typing import Any

from aws.errors import AwsError
from aws.preview.live import Live
from aws.preview.task_definitions import PlannedTaskDefinitions


class PlannedTasks:
    """The tasks of RunTask, by ARN."""

    def __init__(self, live: Live, definitions: PlannedTaskDefinitions) -> None:
        self._live = live
        self._definitions = definitions
        self._planned: dict[str, dict[str, Any]] = {}

    def run(self, params: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The tasks as RunTask answers them."""
        containers = self._containers(params["taskDefinition"])
        first = len(self._planned) + 1
        tasks = [
            self._task(params, number, containers) for number in range(first, first + params.get("count", 1))
        ]
        self._planned |= {task["taskArn"]: task for task in tasks}
        return [{**task, "lastStatus": "PROVISIONING", "desiredStatus": "RUNNING"} for task in tasks]

    def _task(
        self, params: Mapping[str, Any], number: int, containers: list[dict[str, Any]]
    ) -> dict[str, Any]:
        return {
            "taskArn": self._live.names.give(f"task {number}"),
            "clusterArn": params.get("cluster", "default"),
            "taskDefinitionArn": params["taskDefinition"],
            "startedBy": params.get("startedBy", ""),
            "launchType": params.get("launchType", ""),
            "lastStatus": "STOPPED",
            "desiredStatus": "STOPPED",
            "stopCode": "EssentialContainerExited",
            "containers": [{**one} for one in containers],
        }

    def _containers(self, task_definition: str) -> list[dict[str, Any]]:
        try:
            found = self._definitions.described({"taskDefinition": task_definition})
        except AwsError:
            return []
        return [
            {"name": one.get("name", ""), "lastStatus": "STOPPED", "exitCode": 0}
            for one in found.get("taskDefinition", {}).get("containerDefinitions", ())
        ]

    def stop(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """A task as StopTask leaves it."""
        stopped = {**self._planned.get(params["task"], {"taskArn": params["task"]}), "lastStatus": "STOPPED"}
        self._planned[params["task"]] = stopped
        return stopped

    def described(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """DescribeTasks; AWS is asked about those alone that are not planned."""
        planned = [self._planned[arn] for arn in params["tasks"] if arn in self._planned]
        others = [arn for arn in params["tasks"] if arn not in self._planned]
        live = self._live.read("ecs", "DescribeTasks", {**params, "tasks": others}) if others else {}
        return {"tasks": [*live.get("tasks", ()), *planned], "failures": list(live.get("failures", ()))}

    def listed(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """ListTasks; the planned ones are those of RunTask, which have stopped and belong to no service."""
        found: dict[str, Any] = {}
        if not self._live.names.are_in(params):
            found = self._live.read("ecs", "ListTasks", params)
        planned = (
            [] if "serviceName" in params else [arn for arn in self._planned if self._is_meant(arn, params)]
        )
        return {**found, "taskArns": [*found.get("taskArns", ()), *planned]}

    def _is_meant(self, arn: str, params: Mapping[str, Any]) -> bool:
        task = self._planned[arn]
        if params.get("startedBy") not in (None, task.get("startedBy")):
            return False
        return bool(task.get("desiredStatus") == params.get("desiredStatus", "RUNNING"))
