"""Every resource type that stacks of the sandbox can have."""

import json
from collections.abc import Mapping

from sandbox.services.cloudformation.ecs_resources import ECS_HANDLERS
from sandbox.services.cloudformation.event_resources import EVENT_HANDLERS
from sandbox.services.cloudformation.network_resources import NETWORK_HANDLERS
from sandbox.services.cloudformation.property_shapes import build_params
from sandbox.services.cloudformation.resource_types import (
    PhysicalResource,
    ResourceHandler,
    ResourceProperties,
    ServiceCall,
)
from sandbox.services.cloudformation.templates import ResourceFailed

CUSTOM_TYPE = "Custom::"


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


class RolePolicyHandler(ResourceHandler):
    """AWS::IAM::RolePolicy."""

    replacing = frozenset({"PolicyName", "RoleName"})

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        key = {"RoleName": properties["RoleName"], "PolicyName": properties["PolicyName"]}
        call("iam", "PutRolePolicy", {**key, "PolicyDocument": json.dumps(properties["PolicyDocument"])})
        return PhysicalResource(name, key)

    def update(
        self, call: ServiceCall, made: PhysicalResource, properties: ResourceProperties
    ) -> PhysicalResource:
        return PhysicalResource(made.physical_id, self.create(call, "", properties).attributes)

    def delete(self, call: ServiceCall, made: PhysicalResource) -> None:
        call("iam", "DeleteRolePolicy", made.attributes)


class SecretHandler(ResourceHandler):
    """AWS::SecretsManager::Secret, with a value that is generated once."""

    replacing = frozenset({"Name"})
    name_property = "Name"

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        params = build_params(
            "secretsmanager", "CreateSecret", {"Name": name, **properties}, ("GenerateSecretString",)
        )
        if (rules := properties.get("GenerateSecretString")) is not None:
            password_params = build_params("secretsmanager", "GetRandomPassword", rules)
            password = call("secretsmanager", "GetRandomPassword", password_params)["RandomPassword"]
            params["SecretString"] = password
        made = call("secretsmanager", "CreateSecret", params)
        return PhysicalResource(made["ARN"], {"Id": made["ARN"]})

    def delete(self, call: ServiceCall, made: PhysicalResource) -> None:
        params = {"SecretId": made.physical_id, "ForceDeleteWithoutRecovery": True}
        call("secretsmanager", "DeleteSecret", params)


class RecordHandler(ResourceHandler):
    """A type of which the sandbox keeps the record alone: nothing behind it runs.

    `attributes` have `{}` where the name belongs.
    """

    def __init__(self, attributes: Mapping[str, str] | None = None) -> None:
        self._attributes = attributes or {}

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        name = name.lower()
        return PhysicalResource(name, {key: text.format(name) for key, text in self._attributes.items()})


class CustomResourceHandler(ResourceHandler):
    """Resource of a function: the sandbox runs none, and calls it created."""

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        if not properties.get("ServiceToken"):
            raise ResourceFailed("Properties validation failed: ServiceToken is required")
        return PhysicalResource(name)


class WaitConditionHandler(ResourceHandler):
    """Handler of AWS::CloudFormation::WaitConditionHandle, which creates nothing."""

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        return PhysicalResource(f"https://cloudformation-waitcondition.example/{name}")


_ENDPOINT = "{}.sandbox.internal"
RESOURCE_HANDLERS: Mapping[str, ResourceHandler] = {
    **ECS_HANDLERS,
    **EVENT_HANDLERS,
    **NETWORK_HANDLERS,
    "AWS::CloudFormation::WaitConditionHandle": WaitConditionHandler(),
    "AWS::ElastiCache::ParameterGroup": RecordHandler(),
    "AWS::ElastiCache::ReplicationGroup": RecordHandler(
        {"PrimaryEndPoint.Address": _ENDPOINT, "PrimaryEndPoint.Port": "6379"}
    ),
    "AWS::ElastiCache::SubnetGroup": RecordHandler(),
    "AWS::IAM::Role": RoleHandler(),
    "AWS::IAM::RolePolicy": RolePolicyHandler(),
    "AWS::Lambda::Function": RecordHandler({"Arn": "arn:aws:lambda:us-east-1:123456789012:function:{}"}),
    "AWS::Logs::LogGroup": LogGroupHandler(),
    "AWS::RDS::DBInstance": RecordHandler({"Endpoint.Address": _ENDPOINT, "Endpoint.Port": "5432"}),
    "AWS::RDS::DBSubnetGroup": RecordHandler(),
    "AWS::Route53::RecordSet": RecordHandler(),
    "AWS::SecretsManager::Secret": SecretHandler(),
}
_CUSTOM_HANDLER = CustomResourceHandler()


def is_known_type(resource_type: str) -> bool:
    """Return whether a template may have resources of a type."""
    return resource_type.startswith(CUSTOM_TYPE) or resource_type in RESOURCE_HANDLERS


def get_handler(resource_type: str) -> ResourceHandler:
    """Return the handler of a known type."""
    return RESOURCE_HANDLERS.get(resource_type, _CUSTOM_HANDLER)
