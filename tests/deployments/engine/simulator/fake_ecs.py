"""A small ECS for the simulator: one service, virtual time, lagging reads, a record of every effect."""

import copy
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from aws.errors import Invalid, NotFound

ROLLOUT = timedelta(seconds=12)
FAILS_EVERY = timedelta(seconds=4)


@dataclass
class Effect:
    """One thing that changed in the fake account."""

    at: datetime
    operation: str
    params: dict[str, Any]
    by: str


@dataclass
class FakeEcs:
    """One account with one cluster. `now` is the simulator's clock."""

    now: Any
    rng: random.Random
    account: str
    definitions: dict[str, dict[str, Any]] = field(default_factory=dict)
    service: dict[str, Any] | None = None
    effects: list[Effect] = field(default_factory=list)
    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    past: list[tuple[datetime, dict[str, Any] | None]] = field(default_factory=list)
    lag_until: datetime | None = None
    lag_from: datetime | None = None
    deployed: list[dict[str, Any]] = field(default_factory=list)
    revisions: dict[str, dict[str, Any]] = field(default_factory=dict)
    breaker: bool = False
    count: int = 0
    gone_at: datetime | None = None
    rolled_back_at: datetime | None = None
    first_primary: str = ""
    """The PRIMARY deployment of an earlier execution."""

    def call(self, operation: str, params: dict[str, Any], source: str) -> dict[str, Any]:
        """Make one call; raises `AwsError` as AWS would refuse it."""
        self._settle()
        verb = getattr(self, f"_{operation}", None)
        if verb is None:
            raise Invalid("UnknownOperation", operation)
        response: dict[str, Any] = verb(copy.deepcopy(params), source)
        return copy.deepcopy(response)

    def delay_reads(self, seconds: float) -> None:
        """Let reads show the current service for this long, whatever happens."""
        self._settle()
        self.lag_from, self.lag_until = self.now(), self.now() + timedelta(seconds=seconds)
        self._save_snapshot()

    def forget_effects(self) -> str:
        """Forget the effects of an earlier execution; return the running task definition."""
        assert self.service is not None
        self.effects.clear()
        self.first_primary = self.service["deployments"][0]["id"]
        return str(self.service["taskDefinition"])

    # --- verbs ------------------------------------------------------------------------------------

    def _GetCallerIdentity(self, _params: Any, _by: str) -> dict[str, Any]:
        return {"Account": self.account, "Arn": "arn:aws:iam::1:user/x"}

    def _DescribeScalableTargets(self, _params: Any, _by: str) -> dict[str, Any]:
        return {"ScalableTargets": []}

    def _DescribeServices(self, params: Any, _by: str) -> dict[str, Any]:
        service = self._read_service()
        return {"services": [service] if service and service["serviceName"] in params["services"] else []}

    def _ListTagsForResource(self, params: Any, _by: str) -> dict[str, Any]:
        tags = self.tags.get(params["resourceArn"], {})
        return {"tags": [{"key": key, "value": value} for key, value in tags.items()]}

    def _TagResource(self, params: Any, source: str) -> dict[str, Any]:
        tags = {tag["key"]: tag["value"] for tag in params["tags"]}
        self.tags.setdefault(params["resourceArn"], {}).update(tags)
        self._record_effect("TagResource", params, source)
        return {}

    def _UntagResource(self, params: Any, source: str) -> dict[str, Any]:
        for key in params["tagKeys"]:
            self.tags.get(params["resourceArn"], {}).pop(key, None)
        self._record_effect("UntagResource", params, source)
        return {}

    def _RegisterTaskDefinition(self, params: Any, source: str) -> dict[str, Any]:
        self.count += 1
        name = f"{params['family']}:{self.count}"
        arn = f"arn:aws:ecs:us-east-1:{self.account}:task-definition/{name}"
        tags = params.pop("tags", [])
        definition = {**params, "taskDefinitionArn": arn, "revision": self.count, "status": "ACTIVE"}
        self.definitions[name] = {"taskDefinition": definition, "tags": tags}
        self._record_effect("RegisterTaskDefinition", {**params, "arn": arn, "tags": tags}, source)
        return self.definitions[name]

    def _DescribeTaskDefinition(self, params: Any, _by: str) -> dict[str, Any]:
        revision = params["taskDefinition"].rsplit("/", 1)[-1]
        if ":" not in revision:
            active_names = [
                n for n, d in self.definitions.items() if d["taskDefinition"]["status"] == "ACTIVE"
            ]
            revision = max(active_names, key=lambda name: int(name.split(":")[1])) if active_names else ""
        if revision not in self.definitions:
            raise NotFound(
                "ClientException", "Unable to describe task definition.", "ecs", "DescribeTaskDefinition"
            )
        return self.definitions[revision]

    def _DeregisterTaskDefinition(self, params: Any, source: str) -> dict[str, Any]:
        definition = self._DescribeTaskDefinition(params, source)
        definition["taskDefinition"]["status"] = "INACTIVE"
        self._record_effect("DeregisterTaskDefinition", params, source)
        return definition

    def _CreateService(self, params: Any, source: str) -> dict[str, Any]:
        if self.service is not None and self.service["status"] == "ACTIVE":
            if self.service["token"] == params.get("clientToken"):
                return {"service": self.service}
            raise Invalid("InvalidParameterException", "Creation of service was not idempotent.")
        self.service = {
            "serviceName": params["serviceName"],
            "serviceArn": f"arn:aws:ecs:us-east-1:{self.account}:service/demo/{params['serviceName']}",
            "clusterArn": "demo",
            "status": "ACTIVE",
            "taskDefinition": params["taskDefinition"],
            "desiredCount": params["desiredCount"],
            "runningCount": 0,
            "pendingCount": 0,
            "deployments": [],
            "events": [],
            "token": params.get("clientToken"),
        }
        self._deploy(params["taskDefinition"])
        self._record_effect("CreateService", params, source)
        return {"service": self.service}

    def _UpdateService(self, params: Any, source: str) -> dict[str, Any]:
        service = self._get_active_service("UpdateService")
        service["desiredCount"] = params.get("desiredCount", service["desiredCount"])
        task_definition = params.get("taskDefinition", service["taskDefinition"])
        if task_definition != service["taskDefinition"] or params.get("forceNewDeployment"):
            self._deploy(task_definition)
        for deployment in service["deployments"]:
            if deployment["status"] == "PRIMARY":
                deployment["desiredCount"] = service["desiredCount"]
        self._record_effect("UpdateService", params, source)
        return {"service": service}

    def _DeleteService(self, params: Any, source: str) -> dict[str, Any]:
        service = self._get_active_service("DeleteService")
        service["status"], self.gone_at = "DRAINING", self.now() + timedelta(seconds=20)
        self._record_effect("DeleteService", params, source)
        return {"service": service}

    def _ListTasks(self, params: Any, _by: str) -> dict[str, Any]:
        if params.get("desiredStatus") != "STOPPED" or self.service is None:
            return {"taskArns": []}
        return {"taskArns": [task["taskArn"] for task in self._list_stopped_tasks()]}

    def _DescribeTasks(self, params: Any, _by: str) -> dict[str, Any]:
        return {"tasks": [task for task in self._list_stopped_tasks() if task["taskArn"] in params["tasks"]]}

    def _GetLogEvents(self, _params: Any, _by: str) -> dict[str, Any]:
        return {"events": [{"timestamp": 0, "message": "FATAL no"}]}

    def _ListServiceDeployments(self, params: Any, _by: str) -> dict[str, Any]:
        after = params.get("createdAt", {}).get("after", "")
        deployments = [
            deployment
            for deployment in self.deployed
            if not after or _parse_moment(deployment["createdAt"]) > _parse_moment(after)
        ]
        return {"serviceDeployments": [*reversed(deployments)]}

    def _DescribeServiceRevisions(self, params: Any, _by: str) -> dict[str, Any]:
        return {"serviceRevisions": [self.revisions[arn] for arn in params["serviceRevisionArns"]]}

    def _record(self, deployment: dict[str, Any]) -> None:
        """Keep what ECS remembers of a deployment once DescribeServices has forgotten it."""
        number, before = deployment["id"].rpartition("/")[2], f"arn:aws:ecs:us-east-1:{self.account}"
        arn = f"{before}:service-revision/demo/myapp/{number}"
        self.revisions[arn] = {"serviceRevisionArn": arn, "taskDefinition": deployment["taskDefinition"]}
        self.deployed.append(
            {
                "serviceDeploymentArn": f"{before}:service-deployment/demo/myapp/{number}",
                "targetServiceRevisionArn": arn,
                "status": "IN_PROGRESS",
                "createdAt": deployment["createdAt"],
            }
        )

    # --- what ECS does by itself ------------------------------------------------------------------

    def start_foreign_deployment(self) -> None:
        """Deploy this service from outside."""
        self._settle()
        if self.service is None or self.service["status"] != "ACTIVE":
            return
        self._RegisterTaskDefinition({"family": "foreign", "image": "x:1.27"}, "foreigner")
        arn = next(reversed(self.definitions.values()))["taskDefinition"]["taskDefinitionArn"]
        self._UpdateService({"taskDefinition": arn}, "foreigner")

    def _get_active_service(self, operation: str) -> dict[str, Any]:
        if self.service is None or self.service["status"] != "ACTIVE":
            raise NotFound("ServiceNotActiveException", "Service was not ACTIVE.", "ecs", operation)
        return self.service

    def _deploy(self, arn: str) -> None:
        service = self.service
        assert service is not None
        for deployment in service["deployments"]:
            deployment["status"] = "ACTIVE"
        service["taskDefinition"] = arn
        service["deployments"].insert(
            0,
            {
                "id": f"ecs-svc/{self.rng.randrange(10**18, 10**19)}",
                "status": "PRIMARY",
                "taskDefinition": arn,
                "desiredCount": service["desiredCount"],
                "runningCount": 0,
                "pendingCount": service["desiredCount"],
                "failedTasks": 0,
                "rolloutState": "IN_PROGRESS",
                "createdAt": self.now().isoformat(),
                "bad": self._is_bad(arn),
            },
        )
        self._record(service["deployments"][0])
        self._add_event("has started 1 tasks: (task x).")

    def _is_bad(self, arn: str) -> bool:
        definition = self.definitions[arn.rsplit("/", 1)[-1]]["taskDefinition"]
        return "crash" in str(definition)

    def _settle(self) -> None:
        """Let everything happen that time has brought."""
        service = self.service
        if service is None:
            return
        if service["status"] == "DRAINING":
            if self.gone_at is not None and self.now() >= self.gone_at:
                service["status"] = "INACTIVE"
            return
        if self.rolled_back_at is not None and self.now() >= self.rolled_back_at + ROLLOUT:
            service["deployments"] = [d for d in service["deployments"] if d["rolloutState"] != "FAILED"]
        primary = service["deployments"][0]
        age = self.now() - datetime.fromisoformat(primary["createdAt"])
        if primary["bad"]:
            self._fail(service, primary, age)
        elif age >= ROLLOUT and primary["rolloutState"] == "IN_PROGRESS":
            primary.update(rolloutState="COMPLETED", runningCount=service["desiredCount"], pendingCount=0)
            service.update(deployments=[primary], runningCount=service["desiredCount"])
            self._add_event("has reached a steady state.")

    def _fail(self, service: dict[str, Any], primary: dict[str, Any], age: timedelta) -> None:
        primary["failedTasks"] = min(age // FAILS_EVERY, 5)
        old_deployments = [deployment for deployment in service["deployments"][1:] if not deployment["bad"]]
        if self.breaker and old_deployments and primary["failedTasks"] >= 3:
            primary.update(rolloutState="FAILED", status="ACTIVE")
            old_deployments[0].update(
                status="PRIMARY", rolloutState="COMPLETED", runningCount=service["desiredCount"]
            )
            service["deployments"] = [old_deployments[0], primary]
            service["taskDefinition"] = old_deployments[0]["taskDefinition"]
            self.rolled_back_at = self.now()
            self._add_event("rolling back to deployment.")

    def _list_stopped_tasks(self) -> list[dict[str, Any]]:
        tasks = []
        for deployment in (self.service or {}).get("deployments", []):
            for number in range(deployment["failedTasks"]):
                tasks.append(
                    {
                        "taskArn": f"arn:task/{deployment['id'][8:]}{number}",
                        "lastStatus": "STOPPED",
                        "startedBy": deployment["id"],
                        "stopCode": "EssentialContainerExited",
                        "stoppedReason": "Essential container in task exited",
                        "taskDefinitionArn": deployment["taskDefinition"],
                        "createdAt": deployment["createdAt"],
                        "containers": [{"name": "web", "exitCode": 1}],
                    }
                )
        return tasks

    def _add_event(self, text: str) -> None:
        assert self.service is not None
        event = {
            "id": f"{self.rng.randrange(10**12)}",
            "createdAt": self.now().isoformat(),
            "message": f"(service {self.service['serviceName']}) {text}",
        }
        self.service["events"].insert(0, event)

    def _record_effect(self, operation: str, params: dict[str, Any], source: str) -> None:
        self.effects.append(Effect(self.now(), operation, params, source))

    # --- reads that lag ---------------------------------------------------------------------------

    def _save_snapshot(self) -> None:
        self.past = [(self.now(), copy.deepcopy(self.service))]

    def _read_service(self) -> dict[str, Any] | None:
        if self.lag_until is not None and self.now() < self.lag_until and self.past:
            return self.past[0][1]
        return self.service


def _parse_moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
