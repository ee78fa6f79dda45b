"""Snapshots of another account: the sandbox filled with the resources that one describes, for a rehearsal."""

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from moto.ec2 import ec2_backends
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend
from moto.ec2.models.security_groups import SecurityGroup
from moto.ec2.models.subnets import Subnet
from moto.ecs.models import ecs_backends
from moto.elbv2 import elbv2_backends
from moto.elbv2.models import (
    ELBv2Backend,
    FakeAction,
    FakeListener,
    FakeListenerRule,
    FakeLoadBalancer,
    FakeTargetGroup,
)

from sandbox.account import Account
from sandbox.images import BEHAVIORS, DEFAULT_BEHAVIOR
from sandbox.services import elb
from sandbox.services.ecs import container_instances, services
from sandbox.services.ecs.backend import SandboxEcs
from sandbox.services.ecs.records import SandboxService
from sandbox.snapshot_rules import SNAPSHOT_RULES

Resource = Mapping[str, Any]
DEPLOYMENT_FIELDS = ("serviceConnectConfiguration", "volumeConfigurations", "vpcLatticeConfigurations")
MAX_MACHINES = 20
MAX_STEADY_SECONDS = 1800.0
STEADY_STEP_SECONDS = 5.0


class InvalidSnapshot(ValueError):
    """A described resource that the sandbox cannot create; the text names it."""


def fill_account(account: Account, document: Resource) -> dict[str, Any]:
    """Replace everything in the account by described resources, and let their services become steady.

    `document` has `account`, `region`, and in AWS's own words `cluster`, `subnets`, `securityGroups`,
    `loadBalancers`, `listeners`, `rules`, `targetGroups` with `Attributes`, `taskDefinitions` and `services`;
    also the `behavior` of the `images` that are deployed next.

    Returns the services that did not become steady, as `unsteady`. Raises `InvalidSnapshot`.
    """
    behavior = str(document.get("behavior") or DEFAULT_BEHAVIOR.name)
    if behavior != DEFAULT_BEHAVIOR.name and behavior not in BEHAVIORS:
        raise InvalidSnapshot(f"behavior is {DEFAULT_BEHAVIOR.name} or one of {', '.join(BEHAVIORS)}")
    with account.lock:
        account.clear()
        definitions = document.get("taskDefinitions", ())
        known = {item["image"] for row in definitions for item in row["containerDefinitions"]}
        number, region = str(document["account"]), str(document["region"])
        SNAPSHOT_RULES.activate(number, behavior, images=document.get("images", ()), known=known)
        _WorldFill(number, region).fill(document)
        account.is_dirty = True
        return {"unsteady": _wait_until_steady(account, _get_ecs(document))}


def _get_ecs(document: Resource) -> SandboxEcs:
    return cast("SandboxEcs", ecs_backends[str(document["account"])][str(document["region"])])


def _wait_until_steady(account: Account, backend: SandboxEcs) -> list[str]:
    waited = 0.0
    while (unsteady := _list_unsteady(backend)) and waited < MAX_STEADY_SECONDS:
        account.advance(STEADY_STEP_SECONDS, by_hand=True)
        waited += STEADY_STEP_SECONDS
    return unsteady


def _list_unsteady(backend: SandboxEcs) -> list[str]:
    return [
        service.service_name
        for service in backend.services.values()
        if service.running_count != service.desired_count
        or any(deployment.rollout_state != "COMPLETED" for deployment in service.deployments)
    ]


class _WorldFill:
    """Creation of the described resources in one account and region, under the account's lock."""

    def __init__(self, account: str, region: str) -> None:
        self.account, self.region = account, region
        self.ecs = cast("SandboxEcs", ecs_backends[account][region])
        self.elb: ELBv2Backend = elbv2_backends[account][region]
        self.ec2 = ec2_backends[account][region]

    def fill(self, document: Resource) -> None:
        """Create everything in the order of its references."""
        creations: tuple[tuple[str, Callable[[Resource], None]], ...] = (
            ("subnets", self._add_subnet),
            ("securityGroups", self._add_security_group),
            ("targetGroups", self._add_target_group),
            ("loadBalancers", self._add_load_balancer),
            ("listeners", self._add_listener),
            ("rules", self._add_rule),
        )
        for name, create in creations:
            _create_each(name, create, document.get(name, ()))
        elb._update_all_groups(self.elb)
        _create_each("cluster", self._add_cluster, [document["cluster"]])
        _create_each("taskDefinitions", self._add_task_definition, document.get("taskDefinitions", ()))
        _create_each("services", self._add_service, document.get("services", ()))
        _create_each("taskDefinitions", self._deregister_inactive, document.get("taskDefinitions", ()))

    def _add_subnet(self, row: Resource) -> None:
        name = row["AvailabilityZone"]
        zones = (zone for zones in RegionsAndZonesBackend.zones.values() for zone in zones)
        zone = next((zone for zone in zones if zone.name == name), None)
        if zone is None:
            raise InvalidSnapshot(f"there is no availability zone {name}")
        is_default, is_public = bool(row.get("DefaultForAz")), bool(row.get("MapPublicIpOnLaunch"))
        subnet = Subnet(
            self.ec2, row["SubnetId"], row["VpcId"], row["CidrBlock"], None, zone, is_default, is_public
        )
        self.ec2.subnets[name][subnet.id] = subnet

    def _add_security_group(self, row: Resource) -> None:
        name, vpc = row.get("GroupName") or row["GroupId"], row.get("VpcId", "")
        group = SecurityGroup(self.ec2, row["GroupId"], name, row.get("Description") or name, vpc_id=vpc)
        self.ec2.groups[vpc][group.id] = group

    def _add_target_group(self, row: Resource) -> None:
        group = FakeTargetGroup(
            row["TargetGroupName"],
            self.account,
            self.region,
            row.get("VpcId", ""),
            row.get("Protocol", "HTTP"),
            str(row.get("Port", 80)),
            protocol_version=row.get("ProtocolVersion"),
            healthcheck_protocol=row.get("HealthCheckProtocol"),
            healthcheck_port=row.get("HealthCheckPort"),
            healthcheck_path=row.get("HealthCheckPath"),
            healthcheck_interval_seconds=row.get("HealthCheckIntervalSeconds"),
            healthcheck_timeout_seconds=row.get("HealthCheckTimeoutSeconds"),
            healthy_threshold_count=_to_text(row.get("HealthyThresholdCount")),
            unhealthy_threshold_count=_to_text(row.get("UnhealthyThresholdCount")),
            matcher=dict(row["Matcher"]) if row.get("Matcher") else None,
            target_type=row.get("TargetType"),
        )
        group.arn = row["TargetGroupArn"]
        group.attributes.update({item["Key"]: item["Value"] for item in row.get("Attributes", ())})
        self.elb.target_groups[group.arn] = group

    def _add_load_balancer(self, row: Resource) -> None:
        ids = [zone["SubnetId"] for zone in row.get("AvailabilityZones", ()) if zone.get("SubnetId")]
        known = {subnet.id: subnet for zone in self.ec2.subnets.values() for subnet in zone.values()}
        balancer = FakeLoadBalancer(
            row["LoadBalancerName"],
            list(row.get("SecurityGroups", ())),
            [known[name] for name in ids if name in known],
            row.get("VpcId", ""),
            row["LoadBalancerArn"],
            row.get("DNSName", ""),
            "active",
            scheme=row.get("Scheme", "internet-facing"),
            loadbalancer_type=row.get("Type"),
        )
        self.elb.load_balancers[balancer.arn] = balancer

    def _add_listener(self, row: Resource) -> None:
        listener = FakeListener(
            row["LoadBalancerArn"],
            row["ListenerArn"],
            row.get("Protocol", "HTTP"),
            str(row.get("Port", 80)),
            row.get("SslPolicy", ""),
            None,
            _build_actions(row.get("DefaultActions", ())),
            None,
        )
        self.elb.load_balancers[listener.load_balancer_arn].listeners[listener.arn] = listener

    def _add_rule(self, row: Resource) -> None:
        arn = row["RuleArn"]
        listener_arn = arn.replace(":listener-rule/", ":listener/").rpartition("/")[0]
        balancer_arn = listener_arn.replace(":listener/", ":loadbalancer/").rpartition("/")[0]
        listener = self.elb.load_balancers[balancer_arn].listeners[listener_arn]
        if row.get("IsDefault"):
            listener._default_rule[0].arn = arn
            return
        actions, conditions = _build_actions(row.get("Actions", ())), copy.deepcopy(row.get("Conditions", []))
        priority = int(row["Priority"])
        listener.register(arn, FakeListenerRule(listener_arn, arn, conditions, priority, actions))

    def _add_cluster(self, row: Resource) -> None:
        cluster = self.ecs.create_cluster(
            row["clusterName"],
            capacity_providers=row.get("capacityProviders"),
            default_capacity_provider_strategy=row.get("defaultCapacityProviderStrategy"),
        )
        machines = min(int(row.get("registeredContainerInstancesCount", 0)), MAX_MACHINES)
        container_instances.add_container_instances(self.ecs, cluster.name, machines)

    def _add_task_definition(self, row: Resource) -> None:
        registry = self.ecs.definitions
        latest = registry.last_revision.get(row["family"], 0)
        registry.last_revision[row["family"]] = int(row["revision"]) - 1
        registry.register(row)
        registry.last_revision[row["family"]] = max(latest, int(row["revision"]))

    def _add_service(self, row: Resource) -> None:
        primary: Resource = next((d for d in row.get("deployments", ()) if d.get("status") == "PRIMARY"), {})
        # DescribeServices has them with the deployment, CreateService with the service.
        own = {name: primary[name] for name in DEPLOYMENT_FIELDS if primary.get(name)}
        service = services.create_service(self.ecs, {**row, **own, "cluster": row["clusterArn"]})
        if primary.get("id"):
            _keep_deployment_id(service, primary["id"])

    def _deregister_inactive(self, row: Resource) -> None:
        # After the services, as services keep a revision that was deregistered while they use it.
        if row.get("status") == "INACTIVE":
            self.ecs.definitions.deregister(f"{row['family']}:{row['revision']}")


def _keep_deployment_id(service: SandboxService, deployment_id: str) -> None:
    """Give the only deployment of a new service the id by which its owner knows it."""
    deployment, record = service.deployments[0], service.history[0]
    service.revisions[deployment_id] = service.revisions.pop(deployment.id)
    deployment.id = record.deployment_id = deployment_id


def _create_each(name: str, create: Callable[[Resource], None], rows: Iterable[Resource]) -> None:
    for row in rows:
        try:
            create(row)
        except InvalidSnapshot:
            raise
        # moto and the sandbox have no common base of their errors but this one.
        except Exception as exc:
            raise InvalidSnapshot(f"{name}: {type(exc).__name__}: {exc}") from exc


def _build_actions(rows: Iterable[Resource]) -> list[FakeAction]:
    return [FakeAction(copy.deepcopy(dict(row))) for row in rows]


def _to_text(value: object) -> str | None:
    return None if value is None else str(value)
