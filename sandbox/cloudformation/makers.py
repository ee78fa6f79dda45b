"""How each type of resource is made, changed and deleted by asking the other services of the account."""

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.cloudformation.errors import ResourceFailed

Call = Callable[[str, str, Mapping[str, Any]], dict[str, Any]]
Given = Mapping[str, Any]
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@dataclass(frozen=True)
class Made:
    """A resource that is there: what Ref comes to, and its attributes."""

    physical_id: str
    attributes: Mapping[str, str] = field(default_factory=dict)


class Maker:
    """Makes one type of resource. Each verb raises `ResourceFailed`."""

    replacing: frozenset[str] = frozenset()
    """The properties that cannot be changed: another value means another resource."""
    name_property = ""

    def create(self, call: Call, name: str, given: Given) -> Made:
        """Make it; `name` is the one that it gets where the template gives none."""
        raise NotImplementedError

    def update(self, call: Call, made: Made, given: Given) -> Made:
        """Bring it to these properties."""
        return made

    def delete(self, call: Call, made: Made) -> None:
        """Take it away."""


class Cluster(Maker):
    """AWS::ECS::Cluster."""

    replacing = frozenset({"ClusterName"})
    name_property = "ClusterName"

    def create(self, call: Call, name: str, given: Given) -> Made:
        name = given.get("ClusterName") or name
        found = call("ecs", "DescribeClusters", {"clusters": [name]})["clusters"]
        if any(one["status"] == "ACTIVE" for one in found):
            raise ResourceFailed(f"{name} already exists")
        tags = [{"key": one["Key"], "value": str(one["Value"])} for one in given.get("Tags") or ()]
        made = call("ecs", "CreateCluster", {"clusterName": name, "tags": tags})["cluster"]
        return Made(name, {"Arn": made["clusterArn"]})

    def delete(self, call: Call, made: Made) -> None:
        call("ecs", "DeleteCluster", {"cluster": made.physical_id})


class LogGroup(Maker):
    """AWS::Logs::LogGroup."""

    replacing = frozenset({"LogGroupName"})
    name_property = "LogGroupName"

    def create(self, call: Call, name: str, given: Given) -> Made:
        name = given.get("LogGroupName") or name
        call("logs", "CreateLogGroup", {"logGroupName": name})
        found = call("logs", "DescribeLogGroups", {"logGroupNamePrefix": name})["logGroups"]
        made = Made(name, {"Arn": next(one["arn"] for one in found if one["logGroupName"] == name)})
        return self.update(call, made, given)

    def update(self, call: Call, made: Made, given: Given) -> Made:
        if days := given.get("RetentionInDays"):
            asked = {"logGroupName": made.physical_id, "retentionInDays": int(days)}
            call("logs", "PutRetentionPolicy", asked)
        return made

    def delete(self, call: Call, made: Made) -> None:
        call("logs", "DeleteLogGroup", {"logGroupName": made.physical_id})


class Role(Maker):
    """AWS::IAM::Role."""

    replacing = frozenset({"RoleName", "Path"})
    name_property = "RoleName"

    def create(self, call: Call, name: str, given: Given) -> Made:
        name = given.get("RoleName") or name
        trust = json.dumps(given.get("AssumeRolePolicyDocument") or {})
        made = call("iam", "CreateRole", {"RoleName": name, "AssumeRolePolicyDocument": trust})["Role"]
        return self.update(call, Made(name, {"Arn": made["Arn"], "RoleId": made["RoleId"]}), given)

    def update(self, call: Call, made: Made, given: Given) -> Made:
        whom = {"RoleName": made.physical_id}
        self._empty(call, whom)
        for policy in given.get("Policies") or ():
            document = json.dumps(policy["PolicyDocument"])
            put = {**whom, "PolicyName": policy["PolicyName"], "PolicyDocument": document}
            call("iam", "PutRolePolicy", put)
        for arn in given.get("ManagedPolicyArns") or ():
            call("iam", "AttachRolePolicy", {**whom, "PolicyArn": arn})
        return made

    def delete(self, call: Call, made: Made) -> None:
        self._empty(call, {"RoleName": made.physical_id})
        call("iam", "DeleteRole", {"RoleName": made.physical_id})

    def _empty(self, call: Call, whom: Given) -> None:
        for name in call("iam", "ListRolePolicies", whom)["PolicyNames"]:
            call("iam", "DeleteRolePolicy", {**whom, "PolicyName": name})
        for one in call("iam", "ListAttachedRolePolicies", whom)["AttachedPolicies"]:
            call("iam", "DetachRolePolicy", {**whom, "PolicyArn": one["PolicyArn"]})


class TargetGroup(Maker):
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

    def create(self, call: Call, name: str, given: Given) -> Made:
        asked = {key: given[key] for key in ("Protocol", "VpcId", "TargetType") if key in given}
        asked |= {"Name": given.get("Name") or name[:32].strip("-"), **self._health(given)}
        asked |= {"Port": int(given["Port"])} if "Port" in given else {}
        (made,) = call("elbv2", "CreateTargetGroup", asked)["TargetGroups"]
        arn, title = made["TargetGroupArn"], made["TargetGroupName"]
        return Made(
            arn,
            {"TargetGroupName": title, "TargetGroupFullName": arn.split(":", 5)[5], "TargetGroupArn": arn},
        )

    def update(self, call: Call, made: Made, given: Given) -> Made:
        call("elbv2", "ModifyTargetGroup", {"TargetGroupArn": made.physical_id, **self._health(given)})
        return made

    def delete(self, call: Call, made: Made) -> None:
        call("elbv2", "DeleteTargetGroup", {"TargetGroupArn": made.physical_id})

    def _health(self, given: Given) -> dict[str, Any]:
        return {
            **{key: str(given[key]) for key in self._CHECKS if key in given},
            **{key: int(given[key]) for key in self._COUNTS if key in given},
        }


class SecurityGroup(Maker):
    """AWS::EC2::SecurityGroup."""

    replacing = frozenset({"GroupName", "GroupDescription", "VpcId"})
    name_property = "GroupName"

    def create(self, call: Call, name: str, given: Given) -> Made:
        asked = {"GroupName": given.get("GroupName") or name, "Description": given["GroupDescription"]}
        asked |= {"VpcId": given["VpcId"]} if "VpcId" in given else {}
        made = call("ec2", "CreateSecurityGroup", asked)["GroupId"]
        if rules := [self._rule(one) for one in given.get("SecurityGroupIngress") or ()]:
            call("ec2", "AuthorizeSecurityGroupIngress", {"GroupId": made, "IpPermissions": rules})
        return Made(made, {"GroupId": made, "VpcId": str(given.get("VpcId", ""))})

    def delete(self, call: Call, made: Made) -> None:
        call("ec2", "DeleteSecurityGroup", {"GroupId": made.physical_id})

    def _rule(self, given: Given) -> dict[str, Any]:
        rule: dict[str, Any] = {"IpProtocol": str(given.get("IpProtocol", "-1"))}
        rule |= {key: int(given[key]) for key in ("FromPort", "ToPort") if key in given}
        return rule | ({"IpRanges": [{"CidrIp": given["CidrIp"]}]} if "CidrIp" in given else {})


class Nothing(Maker):
    """AWS::CloudFormation::WaitConditionHandle: there is nothing behind it."""

    def create(self, call: Call, name: str, given: Given) -> Made:
        return Made(f"https://cloudformation-waitcondition.example/{name}")


MAKERS: Mapping[str, Maker] = {
    "AWS::CloudFormation::WaitConditionHandle": Nothing(),
    "AWS::EC2::SecurityGroup": SecurityGroup(),
    "AWS::ECS::Cluster": Cluster(),
    "AWS::ElasticLoadBalancingV2::TargetGroup": TargetGroup(),
    "AWS::IAM::Role": Role(),
    "AWS::Logs::LogGroup": LogGroup(),
}
TYPES = frozenset(MAKERS)


def own_name(stack: str, logical_id: str) -> str:
    """The name of a resource that the template gives none."""
    return f"{stack}-{logical_id}-{''.join(secrets.choice(_LETTERS) for _ in range(12))}"
