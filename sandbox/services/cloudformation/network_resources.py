"""Handlers of security groups and load balancers."""

from typing import Any

from sandbox.services.cloudformation.property_shapes import build_params
from sandbox.services.cloudformation.resource_types import (
    PhysicalResource,
    ResourceHandler,
    ResourceProperties,
    ServiceCall,
)


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
        if "SourceSecurityGroupId" in properties:
            return rule | {"UserIdGroupPairs": [{"GroupId": properties["SourceSecurityGroupId"]}]}
        return rule | ({"IpRanges": [{"CidrIp": properties["CidrIp"]}]} if "CidrIp" in properties else {})


class TargetGroupHandler(ResourceHandler):
    """AWS::ElasticLoadBalancingV2::TargetGroup."""

    replacing = frozenset({"Name", "Port", "Protocol", "VpcId", "TargetType"})
    name_property = "Name"
    _BESIDES = ("TargetGroupAttributes", "Targets")

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        named = {"Name": name[:32].strip("-"), **properties}
        params = build_params("elbv2", "CreateTargetGroup", named, self._BESIDES)
        (made,) = call("elbv2", "CreateTargetGroup", params)["TargetGroups"]
        arn, title = made["TargetGroupArn"], made["TargetGroupName"]
        group = PhysicalResource(
            arn,
            {"TargetGroupName": title, "TargetGroupFullName": arn.split(":", 5)[5], "TargetGroupArn": arn},
        )
        self._set_attributes(call, group, properties)
        return group

    def update(
        self, call: ServiceCall, made: PhysicalResource, properties: ResourceProperties
    ) -> PhysicalResource:
        kept = (*self._BESIDES, *self.replacing, "Tags")
        params = build_params("elbv2", "ModifyTargetGroup", properties, kept)
        call("elbv2", "ModifyTargetGroup", {"TargetGroupArn": made.physical_id, **params})
        self._set_attributes(call, made, properties)
        return made

    def delete(self, call: ServiceCall, made: PhysicalResource) -> None:
        call("elbv2", "DeleteTargetGroup", {"TargetGroupArn": made.physical_id})

    def _set_attributes(
        self, call: ServiceCall, made: PhysicalResource, properties: ResourceProperties
    ) -> None:
        if attributes := properties.get("TargetGroupAttributes"):
            params = {"TargetGroupArn": made.physical_id, "Attributes": attributes}
            call("elbv2", "ModifyTargetGroupAttributes", params)


class LoadBalancerHandler(ResourceHandler):
    """AWS::ElasticLoadBalancingV2::LoadBalancer."""

    replacing = frozenset({"Name", "Scheme", "Type", "Subnets", "SubnetMappings"})
    name_property = "Name"

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        named = {"Name": name[:32].strip("-"), **properties}
        params = build_params("elbv2", "CreateLoadBalancer", named, ("LoadBalancerAttributes",))
        (made,) = call("elbv2", "CreateLoadBalancer", params)["LoadBalancers"]
        balancer = PhysicalResource(
            made["LoadBalancerArn"],
            {
                "LoadBalancerArn": made["LoadBalancerArn"],
                "LoadBalancerName": made["LoadBalancerName"],
                "LoadBalancerFullName": made["LoadBalancerArn"].partition(":loadbalancer/")[2],
                "DNSName": made["DNSName"],
                "CanonicalHostedZoneID": made["CanonicalHostedZoneId"],
            },
        )
        return self.update(call, balancer, properties)

    def update(
        self, call: ServiceCall, made: PhysicalResource, properties: ResourceProperties
    ) -> PhysicalResource:
        if attributes := properties.get("LoadBalancerAttributes"):
            params = {"LoadBalancerArn": made.physical_id, "Attributes": attributes}
            call("elbv2", "ModifyLoadBalancerAttributes", params)
        return made

    def delete(self, call: ServiceCall, made: PhysicalResource) -> None:
        call("elbv2", "DeleteLoadBalancer", {"LoadBalancerArn": made.physical_id})


class ListenerHandler(ResourceHandler):
    """AWS::ElasticLoadBalancingV2::Listener."""

    replacing = frozenset({"LoadBalancerArn"})

    def create(self, call: ServiceCall, name: str, properties: ResourceProperties) -> PhysicalResource:
        params = build_params("elbv2", "CreateListener", properties)
        (made,) = call("elbv2", "CreateListener", params)["Listeners"]
        return PhysicalResource(made["ListenerArn"], {"ListenerArn": made["ListenerArn"]})

    def update(
        self, call: ServiceCall, made: PhysicalResource, properties: ResourceProperties
    ) -> PhysicalResource:
        params = build_params("elbv2", "ModifyListener", properties, self.replacing)
        call("elbv2", "ModifyListener", {"ListenerArn": made.physical_id, **params})
        return made

    def delete(self, call: ServiceCall, made: PhysicalResource) -> None:
        call("elbv2", "DeleteListener", {"ListenerArn": made.physical_id})


NETWORK_HANDLERS = {
    "AWS::EC2::SecurityGroup": SecurityGroupHandler(),
    "AWS::ElasticLoadBalancingV2::Listener": ListenerHandler(),
    "AWS::ElasticLoadBalancingV2::LoadBalancer": LoadBalancerHandler(),
    "AWS::ElasticLoadBalancingV2::TargetGroup": TargetGroupHandler(),
}
