"""ECS services as they would be after the planned writes: with all their tasks, and nothing under way."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from aws.preview.live import Live
from aws.preview.tags import TagOverlay
from aws.types import last_part

# What UpdateService starts a new deployment for, according to its API reference.
_DEPLOYED = (
    "taskDefinition",
    "networkConfiguration",
    "platformVersion",
    "loadBalancers",
    "serviceRegistries",
    "serviceConnectConfiguration",
    "volumeConfigurations",
    "vpcLatticeConfigurations",
)
_ARGUMENTS = ("cluster", "service", "clientToken", "forceNewDeployment", "force", "tags")


class PlannedServices:
    """The services that the preview has created, updated or deleted, by cluster and name."""

    def __init__(self, live: Live, tags: TagOverlay) -> None:
        self._live = live
        self._tags = tags
        self._planned: dict[tuple[str, str], dict[str, Any]] = {}
        self._found: dict[tuple[str, str], dict[str, Any]] = {}
        self._deployments = 0

    def take(self, operation: str, params: Mapping[str, Any], echo: Mapping[str, Any]) -> dict[str, Any]:
        """The service as a write leaves it."""
        change = {"CreateService": self._create, "UpdateService": self._update}.get(operation, self._delete)
        service = change(params, echo)
        self._planned[_place(params, service["serviceName"])] = service
        return service

    def _create(self, params: Mapping[str, Any], echo: Mapping[str, Any]) -> dict[str, Any]:
        self._tags.put(echo["serviceArn"], params.get("tags", ()))
        count = params.get("desiredCount", 1)
        service = {
            **_wanted(params),
            "serviceArn": echo["serviceArn"],
            "clusterArn": params.get("cluster", "default"),
            "status": "ACTIVE",
            "events": [],
        }
        return self._deploy(_counted(service, count))

    def _update(self, params: Mapping[str, Any], echo: Mapping[str, Any]) -> dict[str, Any]:
        before = self.now(params)
        wanted = _wanted(params)
        service = _counted({**before, **wanted}, wanted.get("desiredCount", before.get("desiredCount", 0)))
        changed = any(wanted[key] != before.get(key) for key in _DEPLOYED if key in wanted)
        if changed or params.get("forceNewDeployment") or not service.get("deployments"):
            return self._deploy(service)
        primary = next((one for one in service["deployments"] if one.get("status") == "PRIMARY"), None)
        service["deployments"] = [_counted(primary or {}, service["desiredCount"])]
        return service

    def _delete(self, params: Mapping[str, Any], echo: Mapping[str, Any]) -> dict[str, Any]:
        return {**_counted(self.now(params), 0), "status": "INACTIVE", "deployments": []}

    def now(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The service that a write names, before that write."""
        name = last_part(params["service"])
        place = _place(params, name)
        if place not in self._planned and place not in self._found:
            self.described({"cluster": params.get("cluster", "default"), "services": [name]})
        empty = {"serviceName": name, "status": "ACTIVE"}
        return deepcopy(self._planned.get(place) or self._found.get(place) or empty)

    def _deploy(self, service: dict[str, Any]) -> dict[str, Any]:
        self._deployments += 1
        deployment = {
            "id": self._live.names.give(f"deployment {self._deployments}"),
            "status": "PRIMARY",
            "taskDefinition": service.get("taskDefinition", ""),
            "failedTasks": 0,
            "rolloutState": "COMPLETED",
        }
        return {**service, "deployments": [_counted(deployment, service["desiredCount"])]}

    def described(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """DescribeServices; AWS is asked about those alone that are not planned."""
        planned, others = [], []
        for asked in params["services"]:
            found = self._planned.get(_place(params, last_part(asked)))
            planned += [found] if found is not None else []
            others += [asked] if found is None else []
        live: dict[str, Any] = {}
        if others:
            live = self._live.read("ecs", "DescribeServices", {**params, "services": others})
            self._found |= {_place(params, one["serviceName"]): one for one in live.get("services", ())}
        services = [deepcopy(one) for one in (*live.get("services", ()), *planned)]
        if "TAGS" in params.get("include", ()):
            for one in services:
                one["tags"] = self._tags.over(one["serviceArn"], one.get("tags", ()))
        return {"services": services, "failures": list(live.get("failures", ()))}

    def are_tasks_planned(self, params: Mapping[str, Any]) -> bool:
        """Whether the tasks asked for are those of a service that the preview has touched."""
        return _place(params, last_part(params.get("serviceName", ""))) in self._planned

    def targets_in(self, target_group_arn: str) -> list[str]:
        """A name for each target of the planned services in a target group."""
        return [
            _target(task)
            for service in self._planned.values()
            if any(one.get("targetGroupArn") == target_group_arn for one in service.get("loadBalancers", ()))
            for task in _tasks(service)
        ]

    def tasks_of(self, params: Mapping[str, Any]) -> list[str]:
        """A name for each task that a planned service would have."""
        running = params.get("desiredStatus", "RUNNING") == "RUNNING"
        return _tasks(self._planned[_place(params, last_part(params["serviceName"]))]) if running else []

    def tasks_among(self, arns: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
        """Those of these tasks that planned services would have, by their targets, and all others."""
        known = {
            task: service["serviceName"] for service in self._planned.values() for task in _tasks(service)
        }
        planned = [_task(arn, known[arn]) for arn in arns if arn in known]
        return planned, [arn for arn in arns if arn not in known]


def _tasks(service: Mapping[str, Any]) -> list[str]:
    return [
        f"<task {number} of {service['serviceName']}>" for number in range(1, service["runningCount"] + 1)
    ]


def _target(task: str) -> str:
    return task.replace("<task", "<target")


def _task(name: str, service: str) -> dict[str, Any]:
    details = [{"name": "privateIPv4Address", "value": _target(name)}]
    return {
        "taskArn": name,
        "group": f"service:{service}",
        "lastStatus": "RUNNING",
        "desiredStatus": "RUNNING",
        "attachments": [{"type": "ElasticNetworkInterface", "details": details}],
        "containers": [],
    }


def _place(params: Mapping[str, Any], name: str) -> tuple[str, str]:
    return last_part(params.get("cluster", "default")), name


def _wanted(params: Mapping[str, Any]) -> dict[str, Any]:
    return {key: deepcopy(value) for key, value in params.items() if key not in _ARGUMENTS}


def _counted(thing: Mapping[str, Any], count: int) -> dict[str, Any]:
    return {**thing, "desiredCount": count, "runningCount": count, "pendingCount": 0}
