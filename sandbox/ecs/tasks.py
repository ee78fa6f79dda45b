"""What clients do to tasks: run, stop, describe, list."""

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from moto.ecs.exceptions import ServiceNotFoundException

from sandbox.ecs import instances, lifecycle, network, validations
from sandbox.ecs.errors import InvalidParameter
from sandbox.ecs.records import Service, Task
from sandbox.ecs.services import cluster_of, recall_token, remember_token
from sandbox.images import behavior_of_task
from sandbox.journal import changed_nothing

if TYPE_CHECKING:
    from sandbox.ecs.backend import SandboxEcs

RUN_AT_ONCE = 10
DESCRIBED_AT_ONCE = 100
STATUSES = ("RUNNING", "PENDING", "STOPPED")
Failures = list[dict[str, str]]


def run(backend: "SandboxEcs", params: Mapping[str, Any]) -> tuple[list[Task], Failures]:
    cluster = cluster_of(backend, params)
    count = params.get("count") or 1
    if not 1 <= count <= RUN_AT_ONCE:
        raise InvalidParameter(f"Count must be between 1 and {RUN_AT_ONCE}.")
    known = recall_token(backend, "RunTask", cluster.name, params)
    if known is not None:
        tasks = backend.tasks.get(cluster.name, {})
        return [tasks[arn] for arn in known if arn in tasks], []
    if params.get("launchType") and params.get("capacityProviderStrategy"):
        raise InvalidParameter("Specify either Launch Type or Capacity Provider Strategy, but not both.")
    definition = backend.definitions.get_usable(params["taskDefinition"])
    launch_type = params.get("launchType") or ("FARGATE" if params.get("capacityProviderStrategy") else "EC2")
    validations.check_launch_type(launch_type, definition)
    validations.check_network(params.get("networkConfiguration"), definition)
    network.check_places(backend.account_id, backend.region_name, params.get("networkConfiguration"))
    validations.check_overrides(params.get("overrides") or {}, definition)
    if launch_type == "EC2" and not backend.container_instances.get(cluster.name):
        raise InvalidParameter(instances.NO_INSTANCES)
    made, failures = _make_all(backend, cluster.name, params, launch_type, count)
    remember_token(backend, "RunTask", cluster.name, params, [t.task_arn for t in made])
    return made, failures


def _make_all(
    backend: "SandboxEcs", cluster: str, params: Mapping[str, Any], launch_type: str, count: int
) -> tuple[list[Task], Failures]:
    made: list[Task] = []
    failures: Failures = []
    for _ in range(count):
        try:
            made.append(_make(backend, cluster, params, launch_type))
        except instances.NoPlace as exc:
            arn = exc.instance.container_instance_arn if exc.instance is not None else ""
            failures.append({"arn": arn, "reason": exc.reason or "AGENT"})
    return made, failures


def _make(backend: "SandboxEcs", cluster: str, params: Mapping[str, Any], launch_type: str) -> Task:
    definition = backend.definitions.get_usable(params["taskDefinition"])
    task = backend.make_task(
        definition,
        cluster=cluster,
        network_configuration=params.get("networkConfiguration"),
        started_by=params.get("startedBy") or "",
        group=params.get("group") or f"family:{definition.family}",
        launch_type=launch_type,
        platform_version=params.get("platformVersion"),
    )
    overrides = copy.deepcopy(params.get("overrides") or {})
    overrides.setdefault("containerOverrides", [])
    task.overrides = overrides
    task.cpu = overrides.get("cpu") or task.cpu
    task.memory = overrides.get("memory") or task.memory
    task.enable_execute_command = bool(params.get("enableExecuteCommand"))
    task.tags = copy.deepcopy(params.get("tags") or [])
    if params.get("propagateTags") == "TASK_DEFINITION":
        task.tags += [dict(tag) for tag in definition.tags]
    task.behavior = behavior_of_task(definition.containers).name
    return task


def find(backend: "SandboxEcs", cluster: str, reference: str) -> Task | None:
    prefix = f"arn:aws:ecs:{backend.region_name}:{backend.account_id}:task/{cluster}"
    number = reference.rpartition("/")[2]
    return backend.tasks.get(cluster, {}).get(f"{prefix}/{number}")


def stop(backend: "SandboxEcs", params: Mapping[str, Any]) -> Task:
    cluster = cluster_of(backend, params)
    task = find(backend, cluster.name, params["task"])
    if task is None:
        raise InvalidParameter("The referenced task was not found.")
    if not task.is_live:
        changed_nothing()
    reason = params.get("reason") or "Task stopped by user"
    lifecycle.stop(backend, task, code=lifecycle.BY_USER, reason=reason)
    return task


def describe(backend: "SandboxEcs", params: Mapping[str, Any]) -> tuple[list[Task], Failures]:
    cluster = cluster_of(backend, params)
    references = params.get("tasks") or []
    if not references:
        raise InvalidParameter("Tasks cannot be empty.")
    if len(references) > DESCRIBED_AT_ONCE:
        raise InvalidParameter(f"You can describe at most {DESCRIBED_AT_ONCE} tasks at once.")
    found, failures = [], []
    for reference in references:
        task = find(backend, cluster.name, reference)
        if task is None:
            prefix = f"arn:aws:ecs:{backend.region_name}:{backend.account_id}:task/{cluster.name}"
            failures.append({"arn": f"{prefix}/{reference.rpartition('/')[2]}", "reason": "MISSING"})
        else:
            found.append(task)
    return found, failures


def list_arns(backend: "SandboxEcs", params: Mapping[str, Any]) -> list[str]:
    cluster = cluster_of(backend, params)
    others = [n for n in ("family", "serviceName", "containerInstance", "launchType") if params.get(n)]
    if params.get("startedBy") and others:
        raise InvalidParameter("startedBy cannot be combined with other filters.")
    status = params.get("desiredStatus") or "RUNNING"
    if status not in STATUSES:
        raise InvalidParameter(f"desiredStatus should be one of [{','.join(STATUSES)}]")
    tasks: Iterable[Task] = backend.tasks.get(cluster.name, {}).values()
    if params.get("serviceName"):
        tasks = backend.tasks_of(_service(backend, cluster.name, params["serviceName"]), stopped=True)
    wanted = _filters(params)
    return [t.task_arn for t in tasks if t.desired_status == status and all(f(t) for f in wanted)]


def _service(backend: "SandboxEcs", cluster: str, name: str) -> Service:
    found = backend.services.get(f"{cluster}:{name.rpartition('/')[2]}")
    if found is None:
        raise ServiceNotFoundException
    return found


def _filters(params: Mapping[str, Any]) -> list[Callable[[Task], bool]]:
    """What a task has to be, for every filter that was given."""
    family, starter, launch_type = (params.get(n) for n in ("family", "startedBy", "launchType"))
    filters: list[Callable[[Task], bool]] = []
    if family:
        filters.append(lambda t: f":task-definition/{family}:" in t.task_definition_arn)
    if starter:
        filters.append(lambda t: t.started_by == starter)
    if launch_type:
        filters.append(lambda t: t.launch_type == launch_type)
    if params.get("containerInstance"):
        wanted = params["containerInstance"].rpartition("/")[2]
        filters.append(lambda t: (t.container_instance_arn or "").endswith(f"/{wanted}"))
    return filters
