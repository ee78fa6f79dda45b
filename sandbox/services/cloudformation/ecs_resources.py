"""Handlers of what a service of ECS consists of: task definition, service, scaling."""

from typing import Any

from sandbox.services.cloudformation.property_shapes import build_params, list_members
from sandbox.services.cloudformation.resource_types import (
    PhysicalResource,
    ResourceHandler,
    ResourceProperties,
    ServiceCall,
)
from sandbox.services.cloudformation.templates import ResourceFailed

BREAKER_FAILURE = (
    "Resource handler returned message: \"Error occurred during operation 'ECS Deployment Circuit Breaker "
    "was triggered'.\" (HandlerErrorCode: GeneralServiceException)"
)


class ClusterHandler(ResourceHandler):
    """AWS::ECS::Cluster."""

    replacing = frozenset({"ClusterName"})
    name_property = "ClusterName"

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        name = properties.get("ClusterName") or name
        clusters = call("ecs", "DescribeClusters", {"clusters": [name]})["clusters"]
        if any(cluster["status"] == "ACTIVE" for cluster in clusters):
            raise ResourceFailed(f"{name} already exists")
        params = build_params(
            "ecs", "CreateCluster", {**properties, "ClusterName": name}, ("ClusterSettings",)
        )
        if settings := properties.get("ClusterSettings"):
            params |= build_params("ecs", "CreateCluster", {"Settings": settings})
        made = call("ecs", "CreateCluster", params)["cluster"]
        return PhysicalResource(name, {"Arn": made["clusterArn"]})

    def delete(self, call: ServiceCall, made: PhysicalResource) -> None:
        call("ecs", "DeleteCluster", {"cluster": made.physical_id})


class TaskDefinitionHandler(ResourceHandler):
    """AWS::ECS::TaskDefinition: every change is another revision."""

    replacing = list_members("ecs", "RegisterTaskDefinition") - {"Tags"}

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        params = build_params("ecs", "RegisterTaskDefinition", {"Family": name, **properties})
        made = call("ecs", "RegisterTaskDefinition", params)["taskDefinition"]["taskDefinitionArn"]
        return PhysicalResource(made, {"TaskDefinitionArn": made})

    def delete(self, call: ServiceCall, made: PhysicalResource) -> None:
        call("ecs", "DeregisterTaskDefinition", {"taskDefinition": made.physical_id})


class ServiceHandler(ResourceHandler):
    """AWS::ECS::Service: stable once its newest deployment has completed, failed by its circuit breaker."""

    replacing = frozenset({"Cluster", "LaunchType", "Role", "SchedulingStrategy", "ServiceName"})
    name_property = "ServiceName"

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        params = build_params("ecs", "CreateService", {"ServiceName": name, **properties})
        made = call("ecs", "CreateService", params)["service"]
        return PhysicalResource(
            made["serviceArn"], {"Name": made["serviceName"], "ServiceArn": made["serviceArn"]}
        )

    def update(
        self, call: ServiceCall, made: PhysicalResource, properties: ResourceProperties
    ) -> PhysicalResource:
        known = list_members("ecs", "UpdateService")
        given = {name: value for name, value in properties.items() if name in known}
        params = build_params("ecs", "UpdateService", {**given, "Service": made.physical_id})
        call("ecs", "UpdateService", params)
        return made

    def is_stable(self, call: ServiceCall, made: PhysicalResource) -> bool:
        deployments = self._describe(call, made)["deployments"]
        if any(deployment.get("rolloutState") == "FAILED" for deployment in deployments):
            raise ResourceFailed(BREAKER_FAILURE)
        return [deployment.get("rolloutState") for deployment in deployments] == ["COMPLETED"]

    def delete(self, call: ServiceCall, made: PhysicalResource) -> None:
        call("ecs", "DeleteService", {**self._build_key(made), "force": True})

    def _describe(self, call: ServiceCall, made: PhysicalResource) -> dict[str, Any]:
        key = self._build_key(made)
        params = {"cluster": key["cluster"], "services": [key["service"]]}
        found: list[dict[str, Any]] = call("ecs", "DescribeServices", params)["services"]
        if not found or found[0]["status"] != "ACTIVE":
            raise ResourceFailed(
                f"Resource of type 'AWS::ECS::Service' with identifier '{key['service']}' was not found."
            )
        return found[0]

    def _build_key(self, made: PhysicalResource) -> dict[str, str]:
        """Return cluster and service of an ARN `…:service/cluster/name`."""
        return {"cluster": made.physical_id.split("/")[1], "service": made.physical_id}


class ScalableTargetHandler(ResourceHandler):
    """AWS::ApplicationAutoScaling::ScalableTarget."""

    replacing = frozenset({"ResourceId", "ScalableDimension", "ServiceNamespace"})

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        params = build_params("application-autoscaling", "RegisterScalableTarget", properties)
        call("application-autoscaling", "RegisterScalableTarget", params)
        key = (properties[part] for part in ("ResourceId", "ScalableDimension", "ServiceNamespace"))
        return PhysicalResource("|".join(key))

    def update(
        self, call: ServiceCall, made: PhysicalResource, properties: ResourceProperties
    ) -> PhysicalResource:
        return self.create(call, "", properties)

    def delete(self, call: ServiceCall, made: PhysicalResource) -> None:
        call("application-autoscaling", "DeregisterScalableTarget", split_target(made.physical_id))


POLICY_KEY = ("PolicyName", "ResourceId", "ScalableDimension", "ServiceNamespace")


class ScalingPolicyHandler(ResourceHandler):
    """AWS::ApplicationAutoScaling::ScalingPolicy of a target by its id."""

    replacing = frozenset({"PolicyName", "ScalingTargetId"})
    name_property = "PolicyName"

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        params = build_params(
            "application-autoscaling", "PutScalingPolicy", properties, ("ScalingTargetId",)
        ) | split_target(str(properties["ScalingTargetId"]))
        made = call("application-autoscaling", "PutScalingPolicy", params)["PolicyARN"]
        return PhysicalResource(made, {"Arn": made, **{name: str(params[name]) for name in POLICY_KEY}})

    def update(
        self, call: ServiceCall, made: PhysicalResource, properties: ResourceProperties
    ) -> PhysicalResource:
        return self.create(call, "", properties)

    def delete(self, call: ServiceCall, made: PhysicalResource) -> None:
        params = {name: made.attributes[name] for name in POLICY_KEY}
        call("application-autoscaling", "DeleteScalingPolicy", params)


def split_target(target_id: str) -> dict[str, str]:
    """Return the key of a scalable target as parameters."""
    resource, dimension, namespace = target_id.split("|")
    return {"ResourceId": resource, "ScalableDimension": dimension, "ServiceNamespace": namespace}


ECS_HANDLERS = {
    "AWS::ApplicationAutoScaling::ScalableTarget": ScalableTargetHandler(),
    "AWS::ApplicationAutoScaling::ScalingPolicy": ScalingPolicyHandler(),
    "AWS::ECS::Cluster": ClusterHandler(),
    "AWS::ECS::Service": ServiceHandler(),
    "AWS::ECS::TaskDefinition": TaskDefinitionHandler(),
}
