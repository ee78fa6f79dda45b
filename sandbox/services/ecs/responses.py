"""ECS API, one method per operation, with a serializer that caches response shapes."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, cast

import moto.ecs.urls
from botocore import xform_name
from botocore.model import ListShape, MapShape, Shape, StructureShape
from moto.core.responses import TYPE_RESPONSE, ActionContext, ActionResult
from moto.ecs.models import ecs_backends
from moto.ecs.responses import EC2ContainerServiceResponse

from sandbox.journal import mark_unchanged
from sandbox.services.ecs import (
    container_instances,
    rollbacks,
    services,
    tasks,
)
from sandbox.services.ecs.backend import SandboxEcs
from sandbox.services.ecs.errors import ClusterNotEmpty, InvalidEcsParameter
from sandbox.services.ecs.managed_deployments import controllers, descriptions, lifecycle_hooks
from sandbox.services.ecs.records import SandboxService

Writer = Callable[[Any], Any]
CONTENT_TYPE = "application/x-amz-json-1.1"
_writers: dict[str, Writer] = {}


class EcsActionResult(ActionResult):
    """Members of an operation's output; `hiding` names members to omit at all levels.

    Records have AWS's names in snake case, dicts have AWS's own names. None is omitted, as on the wire.
    """

    def __init__(self, result: dict[str, Any], *, hiding: tuple[str, str] | None = None) -> None:
        super().__init__(result)
        self.hiding = hiding

    def execute_result(self, context: ActionContext) -> TYPE_RESPONSE:
        shape = context.operation_model.output_shape
        document = _get_writer(shape)(self.result) if shape is not None else {}
        if self.hiding is not None:
            key, member = self.hiding
            for item in document.get(key, ()):
                item.pop(member, None)
        return 200, {"Content-Type": CONTENT_TYPE}, json.dumps(document)


def _get_writer(shape: Shape) -> Writer:
    """Return the JSON writer of a shape, cached for each shape."""
    writer = _writers.get(shape.name)
    if writer is None:
        # A shape may contain itself: nested writers look up the finished one.
        _writers[shape.name] = lambda value: _writers[shape.name](value)
        writer = _writers[shape.name] = _build_writer(shape)
    return writer


def _build_writer(shape: Shape) -> Writer:
    if isinstance(shape, StructureShape) and not shape.is_document_type:
        return _build_structure_writer(shape)
    if isinstance(shape, ListShape):
        member = _get_writer(shape.member)
        return lambda value: [member(item) for item in value]
    if isinstance(shape, MapShape):
        inner = _get_writer(shape.value)
        return lambda value: {str(k): inner(v) for k, v in value.items()}
    return SCALAR_WRITERS.get(shape.type_name, _write_unchanged)


def _build_structure_writer(shape: StructureShape) -> Writer:
    members = [(name, xform_name(name), _get_writer(inner)) for name, inner in shape.members.items()]

    def write(value: Any) -> dict[str, Any]:
        document = {}
        is_dict = isinstance(value, dict)
        for name, attribute, member in members:
            member_value = value.get(name) if is_dict else getattr(value, attribute, None)
            if member_value is not None:
                document[name] = member(member_value)
        return document

    return write


def _write_unchanged(value: Any) -> Any:
    return value


def _write_timestamp(value: Any) -> Any:
    return value.timestamp() if isinstance(value, datetime) else value


SCALAR_WRITERS: dict[str, Writer] = {
    "timestamp": _write_timestamp,
    "string": str,
    "integer": int,
    "long": int,
    "boolean": bool,
    "double": float,
    "float": float,
}
PAGE_SIZE = 100
SERVICES_PAGE_SIZE = 10
MAX_DESCRIBED_DEPLOYMENTS = 20


def paginate(
    items: Sequence[Any], params: dict[str, Any], *, key: str, size: int = PAGE_SIZE
) -> dict[str, Any]:
    """Return one page of a list, with the token of the next page."""
    limit = size if params.get("maxResults") is None else params["maxResults"]
    if not 1 <= limit <= PAGE_SIZE:
        raise InvalidEcsParameter(f"maxResults should be between 1 and {PAGE_SIZE}.")
    try:
        start = int(base64.b64decode(params.get("nextToken") or b"MA==").decode())
    except (ValueError, binascii.Error) as exc:
        raise InvalidEcsParameter("Invalid token.") from exc
    end = start + limit
    token = base64.b64encode(str(end).encode()).decode() if end < len(items) else None
    return {key: list(items[start:end]), "nextToken": token}


class SandboxEcsResponse(EC2ContainerServiceResponse):
    """Answers ECS requests from `SandboxEcs`."""

    @property
    def backend(self) -> SandboxEcs:
        backend = ecs_backends[self.current_account][self.region]
        return cast("SandboxEcs", backend)

    @property
    def request_params(self) -> dict[str, Any]:
        params: dict[str, Any] = self._get_params()
        return params

    def _hidden_tags(self, key: str) -> tuple[str, str] | None:
        return None if "TAGS" in (self.request_params.get("include") or []) else (key, "tags")

    # Clusters

    def create_cluster(self) -> ActionResult:
        name = self.request_params.get("clusterName") or "default"
        existing = self.backend.clusters.get(name)
        if existing is not None and existing.status == "ACTIVE":
            mark_unchanged()
            return ActionResult({"cluster": existing})
        made = super().create_cluster()
        container_instances.add_tagged_container_instances(
            self.backend, name, self.request_params.get("tags") or []
        )
        self.backend.count_clusters()
        return made

    def describe_clusters(self) -> ActionResult:
        self.backend.count_clusters()
        return super().describe_clusters()

    def list_clusters(self) -> ActionResult:
        arns = [c.arn for c in self.backend.clusters.values() if c.status == "ACTIVE"]
        return ActionResult(paginate(arns, self.request_params, key="clusterArns"))

    def delete_cluster(self) -> ActionResult:
        cluster = services.get_cluster(self.backend, self.request_params)
        if any(
            s.cluster_name == cluster.name and s.status != "INACTIVE" for s in self.backend.services.values()
        ):
            raise ClusterNotEmpty("Services")
        if any(t.last_status != "STOPPED" for t in self.backend.tasks.get(cluster.name, {}).values()):
            raise ClusterNotEmpty("Tasks")
        # The machines belong to the cluster, and only the sandbox can remove them.
        self.backend.container_instances.pop(cluster.name, None)
        return super().delete_cluster()

    # Container instances

    def list_container_instances(self) -> ActionResult:
        cluster = services.get_cluster(self.backend, self.request_params)
        status = self.request_params.get("status") or "ACTIVE"
        machines = self.backend.container_instances.get(cluster.name, {}).values()
        arns = [m.container_instance_arn for m in machines if m.status == status]
        return EcsActionResult(paginate(arns, self.request_params, key="containerInstanceArns"))

    def describe_container_instances(self) -> ActionResult:
        cluster = services.get_cluster(self.backend, self.request_params)
        references = self.request_params.get("containerInstances") or []
        machines, failures = container_instances.describe_container_instances(
            self.backend, cluster.name, references
        )
        hidden = self._hidden_tags("containerInstances")
        return EcsActionResult({"containerInstances": machines, "failures": failures}, hiding=hidden)

    def update_container_instances_state(self) -> ActionResult:
        cluster = services.get_cluster(self.backend, self.request_params)
        references = self.request_params.get("containerInstances") or []
        machines, failures = container_instances.set_instance_status(
            self.backend, cluster.name, references, self.request_params.get("status") or ""
        )
        return EcsActionResult({"containerInstances": machines, "failures": failures})

    def deregister_container_instance(self) -> ActionResult:
        cluster = services.get_cluster(self.backend, self.request_params)
        instance = container_instances.deregister_container_instance(
            self.backend,
            cluster.name,
            self.request_params.get("containerInstance") or "",
            force=bool(self.request_params.get("force")),
        )
        return EcsActionResult({"containerInstance": instance})

    def register_container_instance(self) -> ActionResult:
        # Only the ECS agent of a machine calls it; POST /sandbox/container-instances makes such machines.
        raise NotImplementedError

    # Task definitions

    def register_task_definition(self) -> ActionResult:
        made = self.backend.definitions.register(self.request_params)
        return EcsActionResult({"taskDefinition": made.to_wire(), "tags": made.tags})

    def describe_task_definition(self) -> ActionResult:
        definition = self.backend.definitions.get(self.request_params["taskDefinition"])
        tags = definition.tags if "TAGS" in (self.request_params.get("include") or []) else None
        return EcsActionResult({"taskDefinition": definition.to_wire(), "tags": tags})

    def deregister_task_definition(self) -> ActionResult:
        return EcsActionResult(
            {
                "taskDefinition": self.backend.definitions.deregister(
                    self.request_params["taskDefinition"]
                ).to_wire()
            }
        )

    def delete_task_definitions(self) -> ActionResult:
        deleted, failures = self.backend.definitions.delete(self.request_params.get("taskDefinitions") or [])
        return EcsActionResult({"taskDefinitions": [d.to_wire() for d in deleted], "failures": failures})

    def list_task_definitions(self) -> ActionResult:
        arns = self.backend.definitions.list_arns(
            family=self.request_params.get("familyPrefix"),
            status=self.request_params.get("status") or "ACTIVE",
            newest_first=self.request_params.get("sort") == "DESC",
        )
        return EcsActionResult(paginate(arns, self.request_params, key="taskDefinitionArns"))

    def list_task_definition_families(self) -> ActionResult:
        families = self.backend.definitions.list_families(
            prefix=self.request_params.get("familyPrefix") or "",
            status=self.request_params.get("status") or "ACTIVE",
        )
        return EcsActionResult(paginate(families, self.request_params, key="families"))

    # Services

    def create_service(self) -> ActionResult:
        return self._build_service_result(services.create_service(self.backend, self.request_params))

    def update_service(self) -> ActionResult:
        return self._build_service_result(services.update_service(self.backend, self.request_params))

    def delete_service(self) -> ActionResult:
        return self._build_service_result(services.delete_service(self.backend, self.request_params))

    def describe_services(self) -> ActionResult:
        found, failures = services.describe_services(self.backend, self.request_params)
        described = [controllers.build_shown_service(service) for service in found]
        return EcsActionResult(
            {"services": described, "failures": failures}, hiding=self._hidden_tags("services")
        )

    @staticmethod
    def _build_service_result(service: SandboxService) -> ActionResult:
        return EcsActionResult({"service": controllers.build_shown_service(service)})

    def list_services(self) -> ActionResult:
        arns = services.list_service_arns(self.backend, self.request_params)
        return EcsActionResult(
            paginate(arns, self.request_params, key="serviceArns", size=SERVICES_PAGE_SIZE)
        )

    # Service deployments

    def list_service_deployments(self) -> ActionResult:
        service = services.find_service(self.backend, self.request_params, self.request_params["service"])
        statuses = self.request_params.get("status") or []
        created = self.request_params.get("createdAt") or {}
        deployments = [
            d
            for d in service.history
            if (not statuses or d.status in statuses)
            and (not created.get("after") or d.created_at.timestamp() >= _parse_seconds(created["after"]))
            and (not created.get("before") or d.created_at.timestamp() <= _parse_seconds(created["before"]))
        ]
        return EcsActionResult(
            paginate(
                deployments, self.request_params, key="serviceDeployments", size=MAX_DESCRIBED_DEPLOYMENTS
            )
        )

    def describe_service_deployments(self) -> ActionResult:
        by_arn = {d.service_deployment_arn: (s, d) for s in self.backend.services.values() for d in s.history}
        found, failures = _select_existing(self.request_params.get("serviceDeploymentArns") or [], by_arn)
        deployments = [descriptions.describe_deployment(*pair) for pair in found]
        return EcsActionResult({"serviceDeployments": deployments, "failures": failures})

    def continue_service_deployment(self) -> ActionResult:
        params = self.request_params
        action = params.get("action") or "CONTINUE"
        arn = lifecycle_hooks.continue_deployment(
            self.backend, params["serviceDeploymentArn"], params["hookId"], action
        )
        return EcsActionResult({"serviceDeploymentArn": arn})

    def stop_service_deployment(self) -> ActionResult:
        kind = self.request_params.get("stopType") or "ROLLBACK"
        arn = rollbacks.request_rollback(self.backend, self.request_params["serviceDeploymentArn"], kind)
        return EcsActionResult({"serviceDeploymentArn": arn})

    def describe_service_revisions(self) -> ActionResult:
        by_arn = {
            r.service_revision_arn: r for s in self.backend.services.values() for r in s.revisions.values()
        }
        revisions, failures = _select_existing(self.request_params.get("serviceRevisionArns") or [], by_arn)
        return EcsActionResult({"serviceRevisions": revisions, "failures": failures})

    # Tasks

    def run_task(self) -> ActionResult:
        made, failures = tasks.run_tasks(self.backend, self.request_params)
        return EcsActionResult({"tasks": made, "failures": failures})

    def stop_task(self) -> ActionResult:
        return EcsActionResult({"task": tasks.stop_task_by_request(self.backend, self.request_params)})

    def describe_tasks(self) -> ActionResult:
        described, failures = tasks.describe_tasks(self.backend, self.request_params)
        return EcsActionResult({"tasks": described, "failures": failures}, hiding=self._hidden_tags("tasks"))

    def list_tasks(self) -> ActionResult:
        return EcsActionResult(
            paginate(
                tasks.list_task_arns(self.backend, self.request_params), self.request_params, key="taskArns"
            )
        )


def _parse_seconds(value: Any) -> float:
    return float(value.timestamp()) if hasattr(value, "timestamp") else float(value)


def _select_existing(arns: Sequence[str], by_arn: dict[str, Any]) -> tuple[list[Any], list[dict[str, str]]]:
    if len(arns) > MAX_DESCRIBED_DEPLOYMENTS:
        raise InvalidEcsParameter(f"You can describe at most {MAX_DESCRIBED_DEPLOYMENTS} at once.")
    missing = [{"arn": arn, "reason": "MISSING"} for arn in arns if arn not in by_arn]
    return [by_arn[arn] for arn in arns if arn in by_arn], missing


def install_responses() -> None:
    """Install these methods as moto's ECS responses."""
    moto.ecs.urls.url_paths = {"{0}/$": SandboxEcsResponse.dispatch}
