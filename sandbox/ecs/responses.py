"""The ECS API: one method for each operation that the sandbox answers differently from moto."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any, cast

import moto.ecs.urls
from moto.core.responses import ActionResult
from moto.ecs.models import ecs_backends
from moto.ecs.responses import EC2ContainerServiceResponse

from sandbox.ecs import instances, rollback, services, tasks
from sandbox.ecs.answers import EcsAnswer
from sandbox.ecs.backend import SandboxEcs
from sandbox.ecs.errors import ClusterContains, InvalidParameter
from sandbox.journal import changed_nothing

PAGE = 100
SERVICES_PAGE = 10
DEPLOYMENTS_AT_ONCE = 20


def page_of(items: Sequence[Any], params: dict[str, Any], *, key: str, size: int = PAGE) -> dict[str, Any]:
    """One page of a list, with the token of the next."""
    limit = size if params.get("maxResults") is None else params["maxResults"]
    if not 1 <= limit <= PAGE:
        raise InvalidParameter(f"maxResults should be between 1 and {PAGE}.")
    try:
        start = int(base64.b64decode(params.get("nextToken") or b"MA==").decode())
    except (ValueError, binascii.Error) as exc:
        raise InvalidParameter("Invalid token.") from exc
    end = start + limit
    token = base64.b64encode(str(end).encode()).decode() if end < len(items) else None
    return {key: list(items[start:end]), "nextToken": token}


class SandboxEcsResponse(EC2ContainerServiceResponse):
    """Answers ECS requests from `SandboxEcs`."""

    @property
    def backend(self) -> SandboxEcs:
        found = ecs_backends[self.current_account][self.region]
        return cast("SandboxEcs", found)

    @property
    def given(self) -> dict[str, Any]:
        params: dict[str, Any] = self._get_params()
        return params

    def _hidden_tags(self, key: str) -> tuple[str, str] | None:
        return None if "TAGS" in (self.given.get("include") or []) else (key, "tags")

    # Clusters

    def create_cluster(self) -> ActionResult:
        name = self.given.get("clusterName") or "default"
        existing = self.backend.clusters.get(name)
        if existing is not None and existing.status == "ACTIVE":
            changed_nothing()
            return ActionResult({"cluster": existing})
        made = super().create_cluster()
        instances.equip_as_tagged(self.backend, name, self.given.get("tags") or [])
        self.backend.count_clusters()
        return made

    def describe_clusters(self) -> ActionResult:
        self.backend.count_clusters()
        return super().describe_clusters()

    def list_clusters(self) -> ActionResult:
        arns = [c.arn for c in self.backend.clusters.values() if c.status == "ACTIVE"]
        return ActionResult(page_of(arns, self.given, key="clusterArns"))

    def delete_cluster(self) -> ActionResult:
        cluster = services.cluster_of(self.backend, self.given)
        if any(
            s.cluster_name == cluster.name and s.status != "INACTIVE" for s in self.backend.services.values()
        ):
            raise ClusterContains("Services")
        if any(t.last_status != "STOPPED" for t in self.backend.tasks.get(cluster.name, {}).values()):
            raise ClusterContains("Tasks")
        # The machines came with the cluster, and nobody but the sandbox could switch them off.
        self.backend.container_instances.pop(cluster.name, None)
        return super().delete_cluster()

    # Container instances

    def list_container_instances(self) -> ActionResult:
        cluster = services.cluster_of(self.backend, self.given)
        status = self.given.get("status") or "ACTIVE"
        machines = self.backend.container_instances.get(cluster.name, {}).values()
        arns = [m.container_instance_arn for m in machines if m.status == status]
        return EcsAnswer(page_of(arns, self.given, key="containerInstanceArns"))

    def describe_container_instances(self) -> ActionResult:
        cluster = services.cluster_of(self.backend, self.given)
        references = self.given.get("containerInstances") or []
        found, failures = instances.describe(self.backend, cluster.name, references)
        hidden = self._hidden_tags("containerInstances")
        return EcsAnswer({"containerInstances": found, "failures": failures}, hiding=hidden)

    def update_container_instances_state(self) -> ActionResult:
        cluster = services.cluster_of(self.backend, self.given)
        references = self.given.get("containerInstances") or []
        found, failures = instances.set_status(
            self.backend, cluster.name, references, self.given.get("status") or ""
        )
        return EcsAnswer({"containerInstances": found, "failures": failures})

    def deregister_container_instance(self) -> ActionResult:
        cluster = services.cluster_of(self.backend, self.given)
        gone = instances.deregister(
            self.backend,
            cluster.name,
            self.given.get("containerInstance") or "",
            force=bool(self.given.get("force")),
        )
        return EcsAnswer({"containerInstance": gone})

    def register_container_instance(self) -> ActionResult:
        # Only the ECS agent of a machine calls it; POST /sandbox/container-instances makes such machines.
        raise NotImplementedError

    # Task definitions

    def register_task_definition(self) -> ActionResult:
        made = self.backend.definitions.register(self.given)
        return EcsAnswer({"taskDefinition": made.to_wire(), "tags": made.tags})

    def describe_task_definition(self) -> ActionResult:
        found = self.backend.definitions.get(self.given["taskDefinition"])
        tags = found.tags if "TAGS" in (self.given.get("include") or []) else None
        return EcsAnswer({"taskDefinition": found.to_wire(), "tags": tags})

    def deregister_task_definition(self) -> ActionResult:
        return EcsAnswer(
            {"taskDefinition": self.backend.definitions.deregister(self.given["taskDefinition"]).to_wire()}
        )

    def delete_task_definitions(self) -> ActionResult:
        deleted, failures = self.backend.definitions.delete(self.given.get("taskDefinitions") or [])
        return EcsAnswer({"taskDefinitions": [d.to_wire() for d in deleted], "failures": failures})

    def list_task_definitions(self) -> ActionResult:
        arns = self.backend.definitions.list_arns(
            family=self.given.get("familyPrefix"),
            status=self.given.get("status") or "ACTIVE",
            newest_first=self.given.get("sort") == "DESC",
        )
        return EcsAnswer(page_of(arns, self.given, key="taskDefinitionArns"))

    def list_task_definition_families(self) -> ActionResult:
        families = self.backend.definitions.list_families(
            prefix=self.given.get("familyPrefix") or "", status=self.given.get("status") or "ACTIVE"
        )
        return EcsAnswer(page_of(families, self.given, key="families"))

    # Services

    def create_service(self) -> ActionResult:
        return EcsAnswer({"service": services.create(self.backend, self.given)})

    def update_service(self) -> ActionResult:
        return EcsAnswer({"service": services.update(self.backend, self.given)})

    def delete_service(self) -> ActionResult:
        return EcsAnswer({"service": services.delete(self.backend, self.given)})

    def describe_services(self) -> ActionResult:
        found, failures = services.describe(self.backend, self.given)
        return EcsAnswer({"services": found, "failures": failures}, hiding=self._hidden_tags("services"))

    def list_services(self) -> ActionResult:
        arns = services.list_arns(self.backend, self.given)
        return EcsAnswer(page_of(arns, self.given, key="serviceArns", size=SERVICES_PAGE))

    # Service deployments

    def list_service_deployments(self) -> ActionResult:
        service = services.find(self.backend, self.given, self.given["service"])
        wanted = self.given.get("status") or []
        created = self.given.get("createdAt") or {}
        found = [
            d
            for d in service.history
            if (not wanted or d.status in wanted)
            and (not created.get("after") or d.created_at.timestamp() >= _seconds(created["after"]))
            and (not created.get("before") or d.created_at.timestamp() <= _seconds(created["before"]))
        ]
        return EcsAnswer(page_of(found, self.given, key="serviceDeployments", size=DEPLOYMENTS_AT_ONCE))

    def describe_service_deployments(self) -> ActionResult:
        known = {d.service_deployment_arn: d for s in self.backend.services.values() for d in s.history}
        found, failures = _pick(self.given.get("serviceDeploymentArns") or [], known)
        return EcsAnswer({"serviceDeployments": found, "failures": failures})

    def stop_service_deployment(self) -> ActionResult:
        kind = self.given.get("stopType") or "ROLLBACK"
        arn = rollback.request(self.backend, self.given["serviceDeploymentArn"], kind)
        return EcsAnswer({"serviceDeploymentArn": arn})

    def describe_service_revisions(self) -> ActionResult:
        known = {
            r.service_revision_arn: r for s in self.backend.services.values() for r in s.revisions.values()
        }
        found, failures = _pick(self.given.get("serviceRevisionArns") or [], known)
        return EcsAnswer({"serviceRevisions": found, "failures": failures})

    # Tasks

    def run_task(self) -> ActionResult:
        made, failures = tasks.run(self.backend, self.given)
        return EcsAnswer({"tasks": made, "failures": failures})

    def stop_task(self) -> ActionResult:
        return EcsAnswer({"task": tasks.stop(self.backend, self.given)})

    def describe_tasks(self) -> ActionResult:
        found, failures = tasks.describe(self.backend, self.given)
        return EcsAnswer({"tasks": found, "failures": failures}, hiding=self._hidden_tags("tasks"))

    def list_tasks(self) -> ActionResult:
        return EcsAnswer(page_of(tasks.list_arns(self.backend, self.given), self.given, key="taskArns"))


def _seconds(value: Any) -> float:
    return float(value.timestamp()) if hasattr(value, "timestamp") else float(value)


def _pick(arns: Sequence[str], known: dict[str, Any]) -> tuple[list[Any], list[dict[str, str]]]:
    if len(arns) > DEPLOYMENTS_AT_ONCE:
        raise InvalidParameter(f"You can describe at most {DEPLOYMENTS_AT_ONCE} at once.")
    missing = [{"arn": arn, "reason": "MISSING"} for arn in arns if arn not in known]
    return [known[arn] for arn in arns if arn in known], missing


def install() -> None:
    """Make moto answer ECS requests with these methods."""
    moto.ecs.urls.url_paths = {"{0}/$": SandboxEcsResponse.dispatch}
