"""Resources that ECS manages for an Express service: traffic, auto scaling, network and log group.

Source: ECS developer guide, Resources created by Amazon ECS Express Mode services. Without certificate and
metric alarms; the load balancer of a VPC stays when its last Express service is deleted.
"""

import copy
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from moto.applicationautoscaling.models import applicationautoscaling_backends
from moto.ec2 import ec2_backends
from moto.elbv2 import elbv2_backends
from moto.elbv2.models import FakeAction, FakeListener, FakeLoadBalancer
from moto.logs.models import logs_backends

from sandbox.clock import CLOCK
from sandbox.services.ecs.errors import EcsClientException
from sandbox.services.ecs.records import SandboxService

if TYPE_CHECKING:
    from sandbox.services.ecs.backend import SandboxEcs

BALANCER_PREFIX: Final = "ecs-express-gateway-alb"
_DIMENSION: Final = "ecs:service:DesiredCount"
_METRICS: Final[Mapping[str, str]] = {
    "AVERAGE_CPU": "ECSServiceAverageCPUUtilization",
    "AVERAGE_MEMORY": "ECSServiceAverageMemoryUtilization",
    "REQUEST_COUNT_PER_TARGET": "ALBRequestCountPerTarget",
}
_NOT_FOUND: Final = {"Type": "fixed-response", "FixedResponseConfig": {"StatusCode": "404"}}


@dataclass(frozen=True)
class ExpressNetwork:
    """Subnets and security groups of an Express service, in one VPC."""

    vpc: str
    subnets: tuple[str, ...]
    security_groups: tuple[str, ...]

    def to_wire(self) -> dict[str, Any]:
        return {"subnets": list(self.subnets), "securityGroups": list(self.security_groups)}


@dataclass(frozen=True)
class ExpressTraffic:
    """The load balancer's part of an Express service."""

    balancer_arn: str
    listener_arn: str
    rule_arn: str
    target_group_arns: tuple[str, str]
    endpoint: str


def create_network(backend: "SandboxEcs", name: str, configuration: Mapping[str, Any]) -> ExpressNetwork:
    """Return the network of the request; by default the subnets of the default VPC and a new group."""
    ec2 = ec2_backends[backend.account_id][backend.region_name]
    subnets = tuple(configuration.get("subnets") or ())
    if not subnets:
        (vpc,) = ec2.describe_vpcs(filters={"is-default": ["true"]})
        subnets = tuple(subnet.id for subnet in ec2.describe_subnets(filters={"vpc-id": [vpc.id]}))
    vpc_id = str(ec2.describe_subnets(subnet_ids=[subnets[0]])[0].vpc_id)
    groups = tuple(configuration.get("securityGroups") or ())
    if not groups:
        group_name = f"ecs-express-{name}-{secrets.token_hex(4)}"
        groups = (ec2.create_security_group(group_name, f"Express service {name}", vpc_id=vpc_id).id,)
    return ExpressNetwork(vpc_id, subnets, groups)


def create_log_group(backend: "SandboxEcs", cluster: str, name: str) -> str:
    """Create the log group of a service, and return its name."""
    group = f"/aws/ecs/{cluster}/{name}-{secrets.token_hex(2)}"
    logs_backends[backend.account_id][backend.region_name].create_log_group(group, {})
    return group


def create_traffic(
    backend: "SandboxEcs", name: str, network: ExpressNetwork, *, port: int, path: str
) -> ExpressTraffic:
    """Create two target groups and a rule for the host of the service on the shared HTTPS listener."""
    elb = elbv2_backends[backend.account_id][backend.region_name]
    listener = _find_listener(backend, network)
    suffix = secrets.token_hex(6)
    blue, green = (
        elb.create_target_group(
            f"ecs-gateway-tg-{suffix}-{number}",
            vpc_id=network.vpc,
            protocol="HTTP",
            protocol_version="HTTP1",
            port=str(port),
            target_type="ip",
            healthcheck_protocol="HTTP",
            healthcheck_port="traffic-port",
            healthcheck_path=path,
            # moto compares interval and timeout as texts, so both have one digit; AWS's interval is 30.
            healthcheck_interval_seconds="8",
            healthcheck_timeout_seconds="5",
            healthcheck_enabled="true",
            healthy_threshold_count="5",
            unhealthy_threshold_count="2",
            matcher={"HttpCode": "200"},
        )
        for number in (1, 2)
    )
    endpoint = f"{name}.ecs.{backend.region_name}.on.aws"
    condition = {"Field": "host-header", "HostHeaderConfig": {"Values": [endpoint]}}
    forward = {
        "Type": "forward",
        "ForwardConfig": {
            "TargetGroups": [
                {"TargetGroupArn": blue.arn, "Weight": "100"},
                {"TargetGroupArn": green.arn, "Weight": "0"},
            ]
        },
    }
    rule = elb.create_rule(listener.arn, [condition], _find_priority(listener), [forward])
    return ExpressTraffic(listener.load_balancer_arn, listener.arn, rule.arn, (blue.arn, green.arn), endpoint)


def _find_priority(listener: FakeListener) -> int:
    taken = [rule.priority for rule in listener.rules.values() if not rule.is_default]
    return max((int(priority) for priority in taken), default=0) + 1


def _find_listener(backend: "SandboxEcs", network: ExpressNetwork) -> FakeListener:
    """Return the HTTPS listener that the Express services of a VPC share."""
    elb = elbv2_backends[backend.account_id][backend.region_name]
    for balancer in elb.load_balancers.values():
        if balancer.vpc_id == network.vpc and balancer.name.startswith(BALANCER_PREFIX):
            return next(iter(balancer.listeners.values()))
    return _create_listener(backend, network)


def _create_listener(backend: "SandboxEcs", network: ExpressNetwork) -> FakeListener:
    elb = elbv2_backends[backend.account_id][backend.region_name]
    name = f"{BALANCER_PREFIX}-{secrets.token_hex(4)}"
    balancer: FakeLoadBalancer = elb.create_load_balancer(
        name, list(network.security_groups), list(network.subnets)
    )
    arn = f"{balancer.arn.replace(':loadbalancer/', ':listener/')}/{secrets.token_hex(8)}"
    listener = FakeListener(
        balancer.arn, arn, "HTTPS", "443", "ELBSecurityPolicy-2016-08", None, [FakeAction(_NOT_FOUND)], None
    )
    balancer.listeners[arn] = listener
    return listener


def set_scaling(backend: "SandboxEcs", service: SandboxService, scaling: Mapping[str, Any]) -> None:
    """Register the scalable target of a service with its target tracking policy."""
    autoscaling = applicationautoscaling_backends[backend.account_id][backend.region_name]
    resource, metric = _get_resource_id(service), scaling["autoScalingMetric"]
    low, high = scaling["minTaskCount"], scaling["maxTaskCount"]
    if low > high:
        raise EcsClientException("minTaskCount can't be greater than maxTaskCount.")
    autoscaling.register_scalable_target("ecs", resource, _DIMENSION, low, high, "", None)
    tracking = {
        "TargetValue": scaling["autoScalingTargetValue"],
        "PredefinedMetricSpecification": {"PredefinedMetricType": _METRICS[metric]},
        "DisableScaleIn": False,
    }
    autoscaling.put_scaling_policy(
        f"{service.service_name}-{metric}", "ecs", resource, _DIMENSION, tracking, "TargetTrackingScaling"
    )


def _get_resource_id(service: SandboxService) -> str:
    return f"service/{service.cluster_name}/{service.service_name}"


def describe_resources(
    traffic: ExpressTraffic, network: ExpressNetwork, configuration: Mapping[str, Any], port: int
) -> dict[str, Any]:
    """Return the resources in the format of ServiceRevision.ecsManagedResources."""
    state = {"status": "ACTIVE", "updatedAt": CLOCK.now()}
    scaling, path = configuration["scalingTarget"], configuration["healthCheckPath"]
    group = {"healthCheckPath": path, "healthCheckPort": port, "port": port}
    target = {"minCapacity": scaling["minTaskCount"], "maxCapacity": scaling["maxTaskCount"]}
    policy = {
        "policyType": "TargetTrackingScaling",
        "targetValue": scaling["autoScalingTargetValue"],
        "metric": _METRICS[scaling["autoScalingMetric"]],
    }
    balancer = {"scheme": "internet-facing", "subnetIds": list(network.subnets)}
    ingress = {
        "accessType": "PUBLIC",
        "endpoint": traffic.endpoint,
        "loadBalancer": {"arn": traffic.balancer_arn, **state, **balancer},
        "listener": {"arn": traffic.listener_arn, **state},
        "rule": {"arn": traffic.rule_arn, **state},
        "targetGroups": [{"arn": arn, **state, **group} for arn in traffic.target_group_arns],
    }
    return copy.deepcopy(
        {
            "ingressPaths": [ingress],
            "autoScaling": {
                "scalableTarget": {**state, **target},
                "applicationAutoScalingPolicies": [{**state, **policy}],
            },
        }
    )


def delete_resources(backend: "SandboxEcs", service: SandboxService) -> None:
    """Delete what belongs to one service: its rule, target groups and scaling."""
    elb = elbv2_backends[backend.account_id][backend.region_name]
    autoscaling = applicationautoscaling_backends[backend.account_id][backend.region_name]
    if _get_resource_id(service) in autoscaling.targets.get(_DIMENSION, {}):
        autoscaling.deregister_scalable_target("ecs", _get_resource_id(service), _DIMENSION)
    for balancer in service.load_balancers:
        advanced = balancer["advancedConfiguration"]
        elb.delete_rule(advanced["productionListenerRule"])
        _delete_groups(elb.target_groups, (balancer["targetGroupArn"], advanced["alternateTargetGroupArn"]))


def _delete_groups(groups: dict[str, Any], arns: Sequence[str]) -> None:
    for arn in arns:
        groups.pop(arn, None)
