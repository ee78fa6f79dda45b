"""Observer that polls ECS and the load balancer during a scenario."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from aws.apis.ecs import EcsClient
from aws.apis.ecs_types import parse_timestamp
from aws.caller import Caller
from aws.errors import AwsError, Denied
from ops.acceptance.observations import (
    Normalizer,
    Observation,
    ObservedDeployment,
    ObservedEvent,
    ObservedTask,
    parse_seconds,
)

Json = Mapping[str, Any]
# Recorded parts of a task; others, such as overrides, may hold values.
_TASK_KEYS: Final = frozenset(
    {
        "taskArn", "startedBy", "createdAt", "startedAt", "stoppedAt", "stopCode", "stoppedReason",
        "containers",
    }
)  # fmt: skip
_CONTAINER_KEYS: Final = frozenset({"name", "exitCode"})


@dataclass
class Observer:
    """What ECS says about some services; one observer watches a whole run, one scenario after the other."""

    caller: Caller
    cluster: str
    names: Mapping[str, str]
    """Replacements of names, as in `Normalizer`."""
    normalizer: Normalizer = field(default_factory=Normalizer)
    seen_events: set[str] = field(default_factory=set)
    known_tasks: set[str] = field(default_factory=set)
    """Tasks that stopped before the scenario."""
    known_deployments: set[str] = field(default_factory=set)
    observation: Observation = field(default_factory=lambda: Observation(""))
    services: tuple[str, ...] = ()
    raw_events: dict[str, Json] = field(default_factory=dict)
    raw_tasks: dict[str, Json] = field(default_factory=dict)
    statuses: dict[str, list[str]] = field(default_factory=dict)
    """Statuses of each task, in order."""
    created_at: list[float] = field(default_factory=list)
    """When the new deployments were created."""

    def to_json(self) -> dict[str, Any]:
        """Return what the next worker needs to continue; `from_json` reads it."""
        return {
            "aliases": self.normalizer.aliases,
            "seen_events": sorted(self.seen_events),
            "known_tasks": sorted(self.known_tasks),
            "known_deployments": sorted(self.known_deployments),
            "observation": self.observation.to_json(),
            "services": list(self.services),
            "raw_events": self.raw_events,
            "raw_tasks": self.raw_tasks,
            "statuses": self.statuses,
            "created_at": self.created_at,
        }

    @classmethod
    def from_json(cls, caller: Caller, cluster: str, names: Mapping[str, str], record: Json) -> Self:
        """Return an observer that continues from a record; a new one without it."""
        if not record:
            return cls(caller, cluster, names)
        return cls(
            caller,
            cluster,
            names,
            normalizer=Normalizer(names, dict(record["aliases"])),
            observation=Observation.from_json(record["observation"]),
            services=tuple(record["services"]),
            seen_events=set(record["seen_events"]),
            known_tasks=set(record["known_tasks"]),
            known_deployments=set(record["known_deployments"]),
            raw_events=record["raw_events"],
            raw_tasks=record["raw_tasks"],
            statuses=record["statuses"],
            created_at=record["created_at"],
        )

    def begin(self, scenario: str, services: tuple[str, ...]) -> None:
        """Begin a scenario: earlier events and tasks that stopped before belong to the former ones."""
        self.services = services
        self.observation = Observation(scenario)
        self.normalizer = Normalizer(self.names)
        self.raw_events, self.raw_tasks, self.statuses, self.created_at = {}, {}, {}, []
        present = self._describe_services()
        for service in present:
            self.seen_events.update(event["id"] for event in service.get("events", ()))
            for deployment in reversed(service.get("deployments", ())):
                self.known_deployments.add(deployment["id"])
                self.normalizer.get_alias("deployment", deployment["id"])
        for task in self._describe_tasks(present):
            if task.get("lastStatus") == "STOPPED":
                self.known_tasks.add(task["taskArn"])
            else:
                self.normalizer.get_alias("task", task["taskArn"])

    def poll(self) -> None:
        """Read services, tasks and targets once, and record what is new."""
        present = self._describe_services()
        for service in present:
            self._record_service(service)
        for task in self._describe_tasks(present):
            if task["taskArn"] not in self.known_tasks:
                self._record_task(task)
        self._record_targets(present)

    def finish(self) -> Observation:
        """Return the observation, with its moments counted from the creation of the first new deployment."""
        events = sorted(self.raw_events.values(), key=_get_moment)
        origin = min(self.created_at, default=_get_moment(events[0]) if events else 0.0)
        self.observation.events = [
            ObservedEvent(
                parse_seconds(event["createdAt"], origin) or 0.0,
                self.normalizer.normalize(event["message"]),
            )
            for event in events
        ]
        tasks = sorted(self.raw_tasks.values(), key=_get_moment)
        self.observation.tasks = [self._build_task(task, origin) for task in tasks]
        self.seen_events.update(self.raw_events)
        return self.observation

    def _describe_services(self) -> list[dict[str, Any]]:
        try:
            return EcsClient(self.caller).describe_raw_services(self.cluster, self.services)
        except AwsError as problem:
            self._record_problem(problem)
            return []

    def _describe_tasks(self, services: Sequence[Json]) -> list[dict[str, Any]]:
        client = EcsClient(self.caller)
        try:
            arns = [
                arn
                for service in services
                if service.get("status") == "ACTIVE"
                for status in ("RUNNING", "STOPPED")
                for arn in client.list_tasks(self.cluster, service["serviceName"], status)
            ]
            if not arns:
                return []
            params = {"cluster": self.cluster, "tasks": arns[:100]}
            tasks = self.caller.call("ecs", "DescribeTasks", params).get("tasks", [])
        except AwsError as problem:
            self._record_problem(problem)
            return []
        return sorted(tasks, key=lambda task: str(task.get("createdAt", "")))

    def _record_problem(self, problem: AwsError) -> None:
        if isinstance(problem, Denied) and problem.action not in self.observation.refused:
            self.observation.refused.append(problem.action)

    def _record_service(self, service: Json) -> None:
        events = [event for event in service.get("events", ()) if event["id"] not in self.seen_events]
        # Newest first; the order of two events of one moment is kept.
        for event in reversed(events):
            self.raw_events.setdefault(event["id"], event)
        for deployment in reversed(service.get("deployments", ())):
            self._record_deployment(deployment)

    def _record_deployment(self, deployment: Json) -> None:
        name = self.normalizer.get_alias("deployment", deployment["id"])
        rows = {row.name: row for row in self.observation.deployments}
        row = rows.get(name)
        if row is None:
            row = ObservedDeployment(name)
            self.observation.deployments.append(row)
        state = self.normalizer.normalize(
            f"{deployment['status']} {deployment.get('rolloutState', '')}: "
            f"{deployment.get('rolloutStateReason', '')}"
        )
        if state not in row.states[-1:]:
            row.states.append(state)
        row.failed_tasks = max(row.failed_tasks, deployment.get("failedTasks", 0))
        moment = _get_moment(deployment)
        if moment and deployment["id"] not in self.known_deployments:
            self.created_at.append(moment)

    def _record_task(self, task: Json) -> None:
        arn, status = task["taskArn"], task["lastStatus"]
        self.raw_tasks[arn] = {key: value for key, value in task.items() if key in _TASK_KEYS} | {
            "containers": [
                {key: value for key, value in container.items() if key in _CONTAINER_KEYS}
                for container in task.get("containers", ())
            ]
        }
        statuses = self.statuses.setdefault(arn, [])
        if status not in statuses[-1:]:
            statuses.append(status)

    def _record_targets(self, services: Sequence[Json]) -> None:
        groups = {
            balancer["targetGroupArn"]: None
            for service in services
            for balancer in service.get("loadBalancers", ())
            if "targetGroupArn" in balancer
        }
        for group in groups:
            try:
                params = {"TargetGroupArn": group}
                answer = self.caller.call("elbv2", "DescribeTargetHealth", params)
            except AwsError as problem:
                self._record_problem(problem)
                continue
            name = self.normalizer.get_alias("target group", group)
            for target in answer.get("TargetHealthDescriptions", ()):
                state = f"{name}: {target['TargetHealth']['State']}"
                if state not in self.observation.target_states:
                    self.observation.target_states.append(state)

    def _build_task(self, task: Json, origin: float) -> ObservedTask:
        return ObservedTask(
            name=self.normalizer.get_alias("task", task["taskArn"]),
            deployment=self.normalizer.normalize(task.get("startedBy", "")),
            statuses=self.statuses[task["taskArn"]],
            created=parse_seconds(task.get("createdAt"), origin),
            started=parse_seconds(task.get("startedAt"), origin),
            stopped=parse_seconds(task.get("stoppedAt"), origin),
            stop_code=task.get("stopCode", ""),
            stopped_reason=self.normalizer.normalize(task.get("stoppedReason", "")),
            exit_codes={c["name"]: c.get("exitCode") for c in task.get("containers", ())},
        )


def _get_moment(record: Json) -> float:
    moment = parse_timestamp(record.get("createdAt"))
    return moment.timestamp() if moment else 0.0
