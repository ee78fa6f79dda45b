"""ECS API, one method per operation."""

from typing import Any

import moto.ecs.urls
from moto.core.responses import ActionResult

from sandbox.journal import mark_unchanged
from sandbox.services.ecs import (
    container_instances,
    rollbacks,
    services,
    tasks,
)
from sandbox.services.ecs.errors import ClusterNotEmpty
from sandbox.services.ecs.express_services.responses import ExpressServicesResponse
from sandbox.services.ecs.managed_deployments import controllers, descriptions, lifecycle_hooks
from sandbox.services.ecs.managed_instances.responses import ManagedInstancesResponse
from sandbox.services.ecs.records import SandboxService
from sandbox.services.ecs.results import MAX_DESCRIBED_ARNS, EcsActionResult, paginate, select_existing

SERVICES_PAGE_SIZE = 10


class SandboxEcsResponse(ExpressServicesResponse, ManagedInstancesResponse):
    """Answers ECS requests from `SandboxEcs`."""

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
            paginate(deployments, self.request_params, key="serviceDeployments", size=MAX_DESCRIBED_ARNS)
        )

    def describe_service_deployments(self) -> ActionResult:
        by_arn = {d.service_deployment_arn: (s, d) for s in self.backend.services.values() for d in s.history}
        found, failures = select_existing(self.request_params.get("serviceDeploymentArns") or [], by_arn)
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
        revisions, failures = select_existing(self.request_params.get("serviceRevisionArns") or [], by_arn)
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


def install_responses() -> None:
    """Install these methods as moto's ECS responses."""
    moto.ecs.urls.url_paths = {"{0}/$": SandboxEcsResponse.dispatch}
