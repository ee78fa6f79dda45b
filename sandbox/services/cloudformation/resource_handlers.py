"""Resource handlers that create, update and delete each resource type."""

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.services.cloudformation.templates import ResourceFailed

ServiceCall = Callable[[str, str, Mapping[str, Any]], dict[str, Any]]
ResourceProperties = Mapping[str, Any]
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@dataclass(frozen=True)
class PhysicalResource:
    """Created resource with the value of Ref and its attributes."""

    physical_id: str
    attributes: Mapping[str, str] = field(default_factory=dict)


class ResourceHandler:
    """Makes one type of resource. Each verb raises `ResourceFailed`."""

    replacing: frozenset[str] = frozenset()
    """The properties that cannot be changed: another value means another resource."""
    name_property = ""

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        """Create the resource; `name` is used if the template has none."""
        raise NotImplementedError

    def update(
        self, call: ServiceCall, made: PhysicalResource, properties: ResourceProperties
    ) -> PhysicalResource:
        """Update the resource to these properties."""
        return made

    def delete(self, call: ServiceCall, made: PhysicalResource) -> None:
        """Delete the resource."""


class ClusterHandler(ResourceHandler):
    """AWS::ECS::Cluster."""

    replacing = frozenset({"ClusterName"})
    name_property = "ClusterName"

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        name = properties.get("ClusterName") or name
        clusters = call("ecs", "DescribeClusters", {"clusters": [name]})["clusters"]
        if any(cluster["status"] == "ACTIVE" for cluster in clusters):
            raise ResourceFailed(f"{name} already exists")
        tags = [{"key": tag["Key"], "value": str(tag["Value"])} for tag in properties.get("Tags") or ()]
        made = call("ecs", "CreateCluster", {"clusterName": name, "tags": tags})["cluster"]
        return PhysicalResource(name, {"Arn": made["clusterArn"]})

    def delete(self, call: ServiceCall, made: PhysicalResource) -> None:
        call("ecs", "DeleteCluster", {"cluster": made.physical_id})


class LogGroupHandler(ResourceHandler):
    """AWS::Logs::LogGroup."""

    replacing = frozenset({"LogGroupName"})
    name_property = "LogGroupName"

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        name = properties.get("LogGroupName") or name
        call("logs", "CreateLogGroup", {"logGroupName": name})
        groups = call("logs", "DescribeLogGroups", {"logGroupNamePrefix": name})["logGroups"]
        made = PhysicalResource(
            name, {"Arn": next(group["arn"] for group in groups if group["logGroupName"] == name)}
        )
        return self.update(call, made, properties)

    def update(
        self, call: ServiceCall, made: PhysicalResource, properties: ResourceProperties
    ) -> PhysicalResource:
        if days := properties.get("RetentionInDays"):
            params = {"logGroupName": made.physical_id, "retentionInDays": int(days)}
            call("logs", "PutRetentionPolicy", params)
        return made

    def delete(self, call: ServiceCall, made: PhysicalResource) -> None:
        call("logs", "DeleteLogGroup", {"logGroupName": made.physical_id})


class RoleHandler(ResourceHandler):
    """AWS::IAM::Role."""

    replacing = frozenset({"RoleName", "Path"})
    name_property = "RoleName"

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        name = properties.get("RoleName") or name
        trust = json.dumps(properties.get("AssumeRolePolicyDocument") or {})
        made = call("iam", "CreateRole", {"RoleName": name, "AssumeRolePolicyDocument": trust})["Role"]
        return self.update(
            call, PhysicalResource(name, {"Arn": made["Arn"], "RoleId": made["RoleId"]}), properties
        )

    def update(
        self, call: ServiceCall, made: PhysicalResource, properties: ResourceProperties
    ) -> PhysicalResource:
        role_name = {"RoleName": made.physical_id}
        self._delete_policies(call, role_name)
        for policy in properties.get("Policies") or ():
            document = json.dumps(policy["PolicyDocument"])
            policy_params = {**role_name, "PolicyName": policy["PolicyName"], "PolicyDocument": document}
            call("iam", "PutRolePolicy", policy_params)
        for arn in properties.get("ManagedPolicyArns") or ():
            call("iam", "AttachRolePolicy", {**role_name, "PolicyArn": arn})
        return made

    def delete(self, call: ServiceCall, made: PhysicalResource) -> None:
        self._delete_policies(call, {"RoleName": made.physical_id})
        call("iam", "DeleteRole", {"RoleName": made.physical_id})

    def _delete_policies(self, call: ServiceCall, role_name: ResourceProperties) -> None:
        for name in call("iam", "ListRolePolicies", role_name)["PolicyNames"]:
            call("iam", "DeleteRolePolicy", {**role_name, "PolicyName": name})
        for policy in call("iam", "ListAttachedRolePolicies", role_name)["AttachedPolicies"]:
            call("iam", "DetachRolePolicy", {**role_name, "PolicyArn": policy["PolicyArn"]})


class TargetGroupHandler(ResourceHandler):
    """AWS::ElasticLoadBalancingV2::TargetGroup."""

    replacing = frozenset({"Name", "Port", "Protocol", "VpcId", "TargetType"})
    name_property = "Name"
    _CHECKS = ("HealthCheckPath", "HealthCheckProtocol", "HealthCheckPort")
    _COUNTS = (
        "HealthCheckIntervalSeconds",
        "HealthCheckTimeoutSeconds",
        "HealthyThresholdCount",
        "UnhealthyThresholdCount",
    )

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        params = {key: properties[key] for key in ("Protocol", "VpcId", "TargetType") if key in properties}
        params |= {
            "Name": properties.get("Name") or name[:32].strip("-"),
            **self._build_health_checks(properties),
        }
        params |= {"Port": int(properties["Port"])} if "Port" in properties else {}
        (made,) = call("elbv2", "CreateTargetGroup", params)["TargetGroups"]
        arn, title = made["TargetGroupArn"], made["TargetGroupName"]
        return PhysicalResource(
            arn,
            {"TargetGroupName": title, "TargetGroupFullName": arn.split(":", 5)[5], "TargetGroupArn": arn},
        )

    def update(
        self, call: ServiceCall, made: PhysicalResource, properties: ResourceProperties
    ) -> PhysicalResource:
        call(
            "elbv2",
            "ModifyTargetGroup",
            {"TargetGroupArn": made.physical_id, **self._build_health_checks(properties)},
        )
        return made

    def delete(self, call: ServiceCall, made: PhysicalResource) -> None:
        call("elbv2", "DeleteTargetGroup", {"TargetGroupArn": made.physical_id})

    def _build_health_checks(self, properties: ResourceProperties) -> dict[str, Any]:
        return {
            **{key: str(properties[key]) for key in self._CHECKS if key in properties},
            **{key: int(properties[key]) for key in self._COUNTS if key in properties},
        }


class SecurityGroupHandler(ResourceHandler):
    """AWS::EC2::SecurityGroup."""

    replacing = frozenset({"GroupName", "GroupDescription", "VpcId"})
    name_property = "GroupName"

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        params = {
            "GroupName": properties.get("GroupName") or name,
            "Description": properties["GroupDescription"],
        }
        params |= {"VpcId": properties["VpcId"]} if "VpcId" in properties else {}
        made = call("ec2", "CreateSecurityGroup", params)["GroupId"]
        if rules := [self._build_rule(rule) for rule in properties.get("SecurityGroupIngress") or ()]:
            call("ec2", "AuthorizeSecurityGroupIngress", {"GroupId": made, "IpPermissions": rules})
        return PhysicalResource(made, {"GroupId": made, "VpcId": str(properties.get("VpcId", ""))})

    def delete(self, call: ServiceCall, made: PhysicalResource) -> None:
        call("ec2", "DeleteSecurityGroup", {"GroupId": made.physical_id})

    def _build_rule(self, properties: ResourceProperties) -> dict[str, Any]:
        rule: dict[str, Any] = {"IpProtocol": str(properties.get("IpProtocol", "-1"))}
        rule |= {key: int(properties[key]) for key in ("FromPort", "ToPort") if key in properties}
        return rule | ({"IpRanges": [{"CidrIp": properties["CidrIp"]}]} if "CidrIp" in properties else {})


class WaitConditionHandler(ResourceHandler):
    """Handler of AWS::CloudFormation::WaitConditionHandle, which creates nothing."""

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        return PhysicalResource(f"https://cloudformation-waitcondition.example/{name}")


RESOURCE_HANDLERS: Mapping[str, ResourceHandler] = {
    "AWS::CloudFormation::WaitConditionHandle": WaitConditionHandler(),
    "AWS::EC2::SecurityGroup": SecurityGroupHandler(),
    "AWS::ECS::Cluster": ClusterHandler(),
    "AWS::ElasticLoadBalancingV2::TargetGroup": TargetGroupHandler(),
    "AWS::IAM::Role": RoleHandler(),
    "AWS::Logs::LogGroup": LogGroupHandler(),
}
RESOURCE_TYPES = frozenset(RESOURCE_HANDLERS)


def generate_name(stack: str, logical_id: str) -> str:
    """Return the generated name of a resource without a name in the template."""
    return f"{stack}-{logical_id}-{''.join(secrets.choice(_LETTERS) for _ in range(12))}"
