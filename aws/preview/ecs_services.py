"""ECS services after the planned writes, in steady state."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from aws.apis.ecs_types import get_arn_name
from aws.preview.live_reads import LiveAccount, TagOverlay

# Fields whose change makes UpdateService start a new deployment, according to its API reference.
_DEPLOYMENT_FIELDS = (
    "taskDefinition",
    "networkConfiguration",
    "platformVersion",
    "loadBalancers",
    "serviceRegistries",
    "serviceConnectConfiguration",
    "volumeConfigurations",
    "vpcLatticeConfigurations",
)
_REQUEST_FIELDS = ("cluster", "service", "clientToken", "forceNewDeployment", "force", "tags")


class PlannedServices:
    """The services that the preview has created, updated or deleted, by cluster and name."""

    def __init__(self, live: LiveAccount, tags: TagOverlay) -> None:
        self._live = live
        self._tags = tags
        self._planned: dict[tuple[str, str], dict[str, Any]] = {}
        self._live_services: dict[tuple[str, str], dict[str, Any]] = {}
        self._deployment_count = 0

    def apply_write(
        self, operation: str, params: Mapping[str, Any], planned: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the service as a write leaves it."""
        change = {"CreateService": self._create, "UpdateService": self._update}.get(operation, self._delete)
        service = change(params, planned)
        self._planned[_get_service_key(params, service["serviceName"])] = service
        return service

    def _create(self, params: Mapping[str, Any], planned: Mapping[str, Any]) -> dict[str, Any]:
        self._tags.set_tags(planned["serviceArn"], params.get("tags", ()))
        count = params.get("desiredCount", 1)
        service = {
            **_copy_service_fields(params),
            "serviceArn": planned["serviceArn"],
            "clusterArn": params.get("cluster", "default"),
            "status": "ACTIVE",
            "events": [],
        }
        return self._deploy(_set_counts(service, count))

    def _update(self, params: Mapping[str, Any], planned: Mapping[str, Any]) -> dict[str, Any]:
        before = self.get_current(params)
        changes = _copy_service_fields(params)
        service = _set_counts(
            {**before, **changes}, changes.get("desiredCount", before.get("desiredCount", 0))
        )
        needs_deployment = any(
            changes[key] != before.get(key) for key in _DEPLOYMENT_FIELDS if key in changes
        )
        if needs_deployment or params.get("forceNewDeployment") or not service.get("deployments"):
            return self._deploy(service)
        primary = next(
            (deployment for deployment in service["deployments"] if deployment.get("status") == "PRIMARY"),
            None,
        )
        service["deployments"] = [_set_counts(primary or {}, service["desiredCount"])]
        return service

    def _delete(self, params: Mapping[str, Any], planned: Mapping[str, Any]) -> dict[str, Any]:
        return {**_set_counts(self.get_current(params), 0), "status": "INACTIVE", "deployments": []}

    def get_current(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the service that a write names, before that write."""
        name = get_arn_name(params["service"])
        key = _get_service_key(params, name)
        if key not in self._planned and key not in self._live_services:
            self.describe({"cluster": params.get("cluster", "default"), "services": [name]})
        empty = {"serviceName": name, "status": "ACTIVE"}
        return deepcopy(self._planned.get(key) or self._live_services.get(key) or empty)

    def _deploy(self, service: dict[str, Any]) -> dict[str, Any]:
        self._deployment_count += 1
        deployment = {
            "id": self._live.placeholders.create(f"deployment {self._deployment_count}"),
            "status": "PRIMARY",
            "taskDefinition": service.get("taskDefinition", ""),
            "failedTasks": 0,
            "rolloutState": "COMPLETED",
        }
        current = self._live.placeholders.create(f"service deployment {self._deployment_count}")
        deployments = [_set_counts(deployment, service["desiredCount"])]
        return {**service, "deployments": deployments, "currentServiceDeployment": current}

    def describe(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response of DescribeServices; only unplanned services are read from AWS."""
        planned, live_names = [], []
        for name in params["services"]:
            service = self._planned.get(_get_service_key(params, get_arn_name(name)))
            planned += [service] if service is not None else []
            live_names += [name] if service is None else []
        live: dict[str, Any] = {}
        if live_names:
            live = self._live.read("ecs", "DescribeServices", {**params, "services": live_names})
            self._live_services |= {
                _get_service_key(params, item["serviceName"]): item for item in live.get("services", ())
            }
        services = [deepcopy(item) for item in (*live.get("services", ()), *planned)]
        if "TAGS" in params.get("include", ()):
            for item in services:
                item["tags"] = self._tags.apply_to(item["serviceArn"], item.get("tags", ()))
        return {"services": services, "failures": list(live.get("failures", ()))}

    def has_planned_tasks(self, params: Mapping[str, Any]) -> bool:
        """Return whether the tasks belong to a service that the preview changed."""
        return _get_service_key(params, get_arn_name(params.get("serviceName", ""))) in self._planned

    def list_targets(self, target_group_arn: str) -> list[str]:
        """Return a name for each target of the planned services in a target group."""
        return [
            _get_target_name(task)
            for service in self._planned.values()
            if any(
                load_balancer.get("targetGroupArn") == target_group_arn
                for load_balancer in service.get("loadBalancers", ())
            )
            for task in _list_task_names(service)
        ]

    def list_tasks(self, params: Mapping[str, Any]) -> list[str]:
        """Return a name for each task that a planned service would have."""
        running = params.get("desiredStatus", "RUNNING") == "RUNNING"
        return (
            _list_task_names(self._planned[_get_service_key(params, get_arn_name(params["serviceName"]))])
            if running
            else []
        )

    def split_planned_tasks(self, arns: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the tasks of planned services, by their targets, and all other tasks."""
        service_names = {
            task: service["serviceName"]
            for service in self._planned.values()
            for task in _list_task_names(service)
        }
        planned = [_build_task(arn, service_names[arn]) for arn in arns if arn in service_names]
        return planned, [arn for arn in arns if arn not in service_names]


def _list_task_names(service: Mapping[str, Any]) -> list[str]:
    return [
        f"<task {number} of {service['serviceName']}>" for number in range(1, service["runningCount"] + 1)
    ]


def _get_target_name(task: str) -> str:
    return task.replace("<task", "<target")


def _build_task(name: str, service: str) -> dict[str, Any]:
    details = [{"name": "privateIPv4Address", "value": _get_target_name(name)}]
    return {
        "taskArn": name,
        "group": f"service:{service}",
        "lastStatus": "RUNNING",
        "desiredStatus": "RUNNING",
        "attachments": [{"type": "ElasticNetworkInterface", "details": details}],
        "containers": [],
    }


def _get_service_key(params: Mapping[str, Any], name: str) -> tuple[str, str]:
    return get_arn_name(params.get("cluster", "default")), name


def _copy_service_fields(params: Mapping[str, Any]) -> dict[str, Any]:
    return {key: deepcopy(value) for key, value in params.items() if key not in _REQUEST_FIELDS}


def _set_counts(document: Mapping[str, Any], count: int) -> dict[str, Any]:
    return {**document, "desiredCount": count, "runningCount": count, "pendingCount": 0}
