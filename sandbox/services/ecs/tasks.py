"""Operations on ECS tasks: run, stop, describe, list."""

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from moto.ecs.exceptions import ServiceNotFoundException

from sandbox.images import get_task_behavior
from sandbox.journal import mark_unchanged
from sandbox.services.ecs import container_instances, network, task_lifecycle, validations
from sandbox.services.ecs.errors import InvalidEcsParameter
from sandbox.services.ecs.managed_instances import capacity_providers
from sandbox.services.ecs.records import SandboxService, SandboxTask
from sandbox.services.ecs.services import get_client_token, get_cluster, save_client_token

if TYPE_CHECKING:
    from sandbox.services.ecs.backend import SandboxEcs

MAX_RUN_COUNT = 10
MAX_DESCRIBED = 100
STATUSES = ("RUNNING", "PENDING", "STOPPED")
TaskFailures = list[dict[str, str]]


def run_tasks(backend: "SandboxEcs", params: Mapping[str, Any]) -> tuple[list[SandboxTask], TaskFailures]:
    cluster = get_cluster(backend, params)
    count = params.get("count") or 1
    if not 1 <= count <= MAX_RUN_COUNT:
        raise InvalidEcsParameter(f"Count must be between 1 and {MAX_RUN_COUNT}.")
    stored_arns = get_client_token(backend, "RunTask", cluster.name, params)
    if stored_arns is not None:
        tasks = backend.tasks.get(cluster.name, {})
        return [tasks[arn] for arn in stored_arns if arn in tasks], []
    if params.get("launchType") and params.get("capacityProviderStrategy"):
        raise InvalidEcsParameter("Specify either Launch Type or Capacity Provider Strategy, but not both.")
    definition = backend.definitions.get_usable(params["taskDefinition"])
    launch_type = _choose_launch_type(backend, cluster.name, params)
    validations.check_launch_type(launch_type, definition)
    validations.check_network(params.get("networkConfiguration"), definition)
    network.validate_network(backend.account_id, backend.region_name, params.get("networkConfiguration"))
    validations.check_overrides(params.get("overrides") or {}, definition)
    if launch_type == "EC2" and not backend.container_instances.get(cluster.name):
        raise InvalidEcsParameter(container_instances.NO_INSTANCES)
    made, failures = _create_tasks(backend, cluster.name, params, launch_type, count)
    save_client_token(backend, "RunTask", cluster.name, params, [t.task_arn for t in made])
    return made, failures


def _choose_launch_type(backend: "SandboxEcs", cluster: str, params: Mapping[str, Any]) -> str:
    strategy = params.get("capacityProviderStrategy")
    if capacity_providers.choose_provider(backend, cluster, strategy) is not None:
        return capacity_providers.MANAGED_INSTANCES
    return params.get("launchType") or ("FARGATE" if strategy else "EC2")


def _create_tasks(
    backend: "SandboxEcs", cluster: str, params: Mapping[str, Any], launch_type: str, count: int
) -> tuple[list[SandboxTask], TaskFailures]:
    made: list[SandboxTask] = []
    failures: TaskFailures = []
    for _ in range(count):
        try:
            made.append(_create_task(backend, cluster, params, launch_type))
        except container_instances.PlacementFailure as exc:
            arn = exc.instance.container_instance_arn if exc.instance is not None else ""
            failures.append({"arn": arn, "reason": exc.reason or "AGENT"})
    return made, failures


def _create_task(
    backend: "SandboxEcs", cluster: str, params: Mapping[str, Any], launch_type: str
) -> SandboxTask:
    definition = backend.definitions.get_usable(params["taskDefinition"])
    task = backend.make_task(
        definition,
        cluster=cluster,
        network_configuration=params.get("networkConfiguration"),
        group=params.get("group") or f"family:{definition.family}",
        placement=container_instances.TaskPlacement(
            launch_type,
            params.get("platformVersion"),
            capacity_provider_strategy=params.get("capacityProviderStrategy") or (),
        ),
    )
    overrides = copy.deepcopy(params.get("overrides") or {})
    overrides.setdefault("containerOverrides", [])
    task.started_by = params.get("startedBy") or ""
    task.overrides = overrides
    task.cpu = overrides.get("cpu") or task.cpu
    task.memory = overrides.get("memory") or task.memory
    if task.ephemeral_storage is not None:
        # Only tasks on Fargate have it.
        task.ephemeral_storage = overrides.get("ephemeralStorage") or task.ephemeral_storage
    task.enable_execute_command = bool(params.get("enableExecuteCommand"))
    task.tags = copy.deepcopy(params.get("tags") or [])
    if params.get("propagateTags") == "TASK_DEFINITION":
        task.tags += [dict(tag) for tag in definition.tags]
    task.behavior = get_task_behavior(definition.containers, of_service=False).name
    return task


def find_task(backend: "SandboxEcs", cluster: str, reference: str) -> SandboxTask | None:
    prefix = f"arn:aws:ecs:{backend.region_name}:{backend.account_id}:task/{cluster}"
    number = reference.rpartition("/")[2]
    return backend.tasks.get(cluster, {}).get(f"{prefix}/{number}")


def stop_task_by_request(backend: "SandboxEcs", params: Mapping[str, Any]) -> SandboxTask:
    cluster = get_cluster(backend, params)
    task = find_task(backend, cluster.name, params["task"])
    if task is None:
        raise InvalidEcsParameter("The referenced task was not found.")
    if not task.is_live:
        mark_unchanged()
    reason = params.get("reason") or "Task stopped by user"
    task_lifecycle.stop_task(backend, task, code=task_lifecycle.BY_USER, reason=reason)
    return task


def describe_tasks(
    backend: "SandboxEcs", params: Mapping[str, Any]
) -> tuple[list[SandboxTask], TaskFailures]:
    cluster = get_cluster(backend, params)
    references = params.get("tasks") or []
    if not references:
        raise InvalidEcsParameter("Tasks cannot be empty.")
    if len(references) > MAX_DESCRIBED:
        raise InvalidEcsParameter(f"You can describe at most {MAX_DESCRIBED} tasks at once.")
    described, failures = [], []
    for reference in references:
        task = find_task(backend, cluster.name, reference)
        if task is None:
            prefix = f"arn:aws:ecs:{backend.region_name}:{backend.account_id}:task/{cluster.name}"
            failures.append({"arn": f"{prefix}/{reference.rpartition('/')[2]}", "reason": "MISSING"})
        else:
            described.append(task)
    return described, failures


def list_task_arns(backend: "SandboxEcs", params: Mapping[str, Any]) -> list[str]:
    cluster = get_cluster(backend, params)
    other_filters = [n for n in ("family", "serviceName", "containerInstance", "launchType") if params.get(n)]
    if params.get("startedBy") and other_filters:
        raise InvalidEcsParameter("startedBy cannot be combined with other filters.")
    status = params.get("desiredStatus") or "RUNNING"
    if status not in STATUSES:
        raise InvalidEcsParameter(f"desiredStatus should be one of [{','.join(STATUSES)}]")
    tasks: Iterable[SandboxTask] = backend.tasks.get(cluster.name, {}).values()
    if params.get("serviceName"):
        tasks = backend.tasks_of(_get_service(backend, cluster.name, params["serviceName"]), stopped=True)
    filters = _build_filters(params)
    return [t.task_arn for t in tasks if t.desired_status == status and all(f(t) for f in filters)]


def _get_service(backend: "SandboxEcs", cluster: str, name: str) -> SandboxService:
    service = backend.services.get(f"{cluster}:{name.rpartition('/')[2]}")
    if service is None:
        raise ServiceNotFoundException
    return service


def _build_filters(params: Mapping[str, Any]) -> list[Callable[[SandboxTask], bool]]:
    """Return a condition for every given filter."""
    family, starter, launch_type = (params.get(n) for n in ("family", "startedBy", "launchType"))
    filters: list[Callable[[SandboxTask], bool]] = []
    if family:
        filters.append(lambda t: f":task-definition/{family}:" in t.task_definition_arn)
    if starter:
        filters.append(lambda t: t.started_by == starter)
    if launch_type:
        filters.append(lambda t: t.launch_type == launch_type)
    if params.get("containerInstance"):
        instance_id = params["containerInstance"].rpartition("/")[2]
        filters.append(lambda t: (t.container_instance_arn or "").endswith(f"/{instance_id}"))
    return filters
