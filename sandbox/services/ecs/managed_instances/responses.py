"""ECS operations on capacity providers of managed instances, daemons and their task definitions."""

from moto.core.responses import ActionResult

from sandbox.services.ecs.managed_instances import capacity_providers, daemons
from sandbox.services.ecs.results import (
    MAX_DESCRIBED_ARNS,
    EcsActionResult,
    EcsResponse,
    paginate,
    select_existing,
)
from sandbox.services.ecs.services import get_cluster


class ManagedInstancesResponse(EcsResponse):
    """Answers requests about managed instances; other capacity providers are moto's."""

    # Capacity providers

    def create_capacity_provider(self) -> ActionResult:
        if "managedInstancesProvider" not in self.request_params:
            return super().create_capacity_provider()
        provider = capacity_providers.create_capacity_provider(self.backend, self.request_params)
        return EcsActionResult({"capacityProvider": provider})

    def describe_capacity_providers(self) -> ActionResult:
        if not self.request_params.get("cluster"):
            return super().describe_capacity_providers()
        cluster = get_cluster(self.backend, self.request_params)
        providers = capacity_providers.list_cluster_providers(self.backend, cluster.name)
        names = [name.rpartition("/")[2] for name in self.request_params.get("capacityProviders") or ()]
        described = [provider for provider in providers if not names or provider.name in names]
        return EcsActionResult({"capacityProviders": described, "failures": []})

    # Daemon task definitions

    def register_daemon_task_definition(self) -> ActionResult:
        definition = self.backend.daemons.definitions.register(self.request_params)
        return EcsActionResult({"daemonTaskDefinitionArn": definition.daemon_task_definition_arn})

    def describe_daemon_task_definition(self) -> ActionResult:
        definition = self.backend.daemons.definitions.get(self.request_params["daemonTaskDefinition"])
        return EcsActionResult({"daemonTaskDefinition": definition.to_wire()})

    def delete_daemon_task_definition(self) -> ActionResult:
        definition = self.backend.daemons.definitions.delete(self.request_params["daemonTaskDefinition"])
        return EcsActionResult({"daemonTaskDefinitionArn": definition.daemon_task_definition_arn})

    def list_daemon_task_definitions(self) -> ActionResult:
        revisions = self.backend.daemons.definitions.list_revisions(self.request_params)
        summaries = [revision.summarize() for revision in revisions]
        return EcsActionResult(paginate(summaries, self.request_params, key="daemonTaskDefinitions"))

    # Daemons

    def create_daemon(self) -> ActionResult:
        return self._build_change_result(daemons.create_daemon(self.backend, self.request_params))

    def update_daemon(self) -> ActionResult:
        return self._build_change_result(daemons.update_daemon(self.backend, self.request_params))

    def delete_daemon(self) -> ActionResult:
        return self._build_change_result(daemons.delete_daemon(self.backend, self.request_params))

    @staticmethod
    def _build_change_result(daemon: daemons.SandboxDaemon) -> ActionResult:
        summary = daemons.summarize_daemon(daemon)
        return EcsActionResult({**summary, "deploymentArn": daemon.latest.daemon_deployment_arn})

    def list_daemons(self) -> ActionResult:
        cluster = get_cluster(self.backend, {"cluster": self.request_params.get("clusterArn")})
        names = {arn.rpartition("/")[2] for arn in self.request_params.get("capacityProviderArns") or ()}
        summaries = [
            daemons.summarize_daemon(daemon)
            for daemon in self.backend.daemons.list_daemons()
            if daemon.cluster_name == cluster.name and (not names or names & _list_provider_names(daemon))
        ]
        return EcsActionResult(paginate(summaries, self.request_params, key="daemonSummariesList"))

    def describe_daemon(self) -> ActionResult:
        daemon = self.backend.daemons.get(self.request_params["daemonArn"])
        return EcsActionResult({"daemon": daemons.describe_daemon(self.backend, daemon)})

    def list_daemon_deployments(self) -> ActionResult:
        daemon = self.backend.daemons.get(self.request_params["daemonArn"])
        statuses = self.request_params.get("status") or []
        described = [daemons.describe_deployment(self.backend, daemon, d) for d in daemon.deployments[::-1]]
        summaries = [
            {
                **deployment,
                "daemonArn": daemon.daemon_arn,
                "targetDaemonRevisionArn": (deployment["targetDaemonRevision"] or {}).get("arn"),
            }
            for deployment in described
            if not statuses or deployment["status"] in statuses
        ]
        page = paginate(summaries, self.request_params, key="daemonDeployments", size=MAX_DESCRIBED_ARNS)
        return EcsActionResult(page)

    def describe_daemon_deployments(self) -> ActionResult:
        by_arn = {
            deployment.daemon_deployment_arn: (daemon, deployment)
            for daemon in self.backend.daemons.list_daemons()
            for deployment in daemon.deployments
        }
        pairs, failures = select_existing(self.request_params["daemonDeploymentArns"], by_arn)
        described = [daemons.describe_deployment(self.backend, *pair) for pair in pairs]
        return EcsActionResult({"daemonDeployments": described, "failures": failures})

    def describe_daemon_revisions(self) -> ActionResult:
        by_arn = {
            deployment.target.daemon_revision_arn: deployment.target
            for daemon in self.backend.daemons.list_daemons()
            for deployment in daemon.deployments
            if deployment.target is not None
        }
        revisions, failures = select_existing(self.request_params["daemonRevisionArns"], by_arn)
        return EcsActionResult({"daemonRevisions": revisions, "failures": failures})


def _list_provider_names(daemon: daemons.SandboxDaemon) -> set[str]:
    revision = daemon.latest.target or daemon.latest.source
    return set(revision.provider_names) if revision is not None else set()
