"""A load balancer with two target groups, as tests of the contract make it."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tests.contract.endpoint import Aws


@dataclass(frozen=True)
class Balancer:
    aws: Aws
    listener: str
    blue: str
    green: str

    def health(self, group: str = "") -> list[str]:
        response = self.aws.client("elbv2").describe_target_health(TargetGroupArn=group or self.blue)
        return [str(d["TargetHealth"]["State"]) for d in response["TargetHealthDescriptions"]]

    def attached(self) -> list[dict[str, Any]]:
        return [{"targetGroupArn": self.blue, "containerName": "web", "containerPort": 80}]


def create_balancer(aws: Aws, afterwards: ExitStack) -> Balancer:
    elb = aws.client("elbv2")
    groups = [
        elb.create_target_group(
            Name=name,
            Protocol="HTTP",
            Port=80,
            VpcId=aws.endpoint.vpc,
            TargetType="ip",
            HealthCheckIntervalSeconds=5,
            HealthyThresholdCount=2,
            UnhealthyThresholdCount=2,
        )["TargetGroups"][0]["TargetGroupArn"]
        for name in ("blue", "green")
    ]
    for group in groups:
        afterwards.callback(elb.delete_target_group, TargetGroupArn=group)
        delay = [{"Key": "deregistration_delay.timeout_seconds", "Value": "30"}]
        elb.modify_target_group_attributes(TargetGroupArn=group, Attributes=delay)
    load_balancer = elb.create_load_balancer(Name="lb", Subnets=list(aws.endpoint.subnets))["LoadBalancers"][
        0
    ]
    afterwards.callback(elb.delete_load_balancer, LoadBalancerArn=load_balancer["LoadBalancerArn"])
    listener = elb.create_listener(
        LoadBalancerArn=load_balancer["LoadBalancerArn"],
        Protocol="HTTP",
        Port=80,
        DefaultActions=[{"Type": "forward", "TargetGroupArn": groups[0]}],
    )["Listeners"][0]["ListenerArn"]
    return Balancer(aws, listener, *groups)
