"""Client for EC2: egress routes of subnets and egress ports of security groups."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from aws.caller import Caller, paginate

Json = Mapping[str, Any]
# Egress by internet gateway, by NAT, by another route such as a transit gateway, or none.
EgressRoute = Literal["internet", "nat", "other", ""]
ANY_ADDRESS = "0.0.0.0/0"


@dataclass(frozen=True)
class Subnet:
    """A subnet with its zone and its default route."""

    id: str
    vpc: str
    zone: str
    egress_route: EgressRoute


@dataclass(frozen=True)
class SecurityGroup:
    """Security group with its TCP ports that are open to all destinations; None means all ports."""

    id: str
    vpc: str
    egress_ports: tuple[tuple[int, int], ...] | None

    def allows_egress(self, port: int) -> bool:
        return self.egress_ports is None or any(first <= port <= last for first, last in self.egress_ports)


@dataclass(frozen=True)
class Ec2Client:
    """Speaks EC2 through a caller."""

    caller: Caller

    def describe_subnets(self, ids: Sequence[str]) -> list[Subnet]:
        """Return subnets with their routes; one without a route table uses its VPC's."""
        subnets = self._list_all("DescribeSubnets", "Subnets", {"SubnetIds": list(ids)})
        vpcs = sorted({subnet.get("VpcId", "") for subnet in subnets})
        by_vpc = {"Filters": [{"Name": "vpc-id", "Values": vpcs}]}
        tables = self._list_all("DescribeRouteTables", "RouteTables", by_vpc) if vpcs else []
        return [
            Subnet(
                id=subnet.get("SubnetId", ""),
                vpc=subnet.get("VpcId", ""),
                zone=subnet.get("AvailabilityZone", ""),
                egress_route=_find_egress_route(_find_route_table(subnet, tables)),
            )
            for subnet in subnets
        ]

    def describe_security_groups(self, ids: Sequence[str]) -> list[SecurityGroup]:
        groups = self._list_all("DescribeSecurityGroups", "SecurityGroups", {"GroupIds": list(ids)})
        return [
            SecurityGroup(
                group.get("GroupId", ""),
                group.get("VpcId", ""),
                _parse_egress_ports(group.get("IpPermissionsEgress")),
            )
            for group in groups
        ]

    def _list_all(self, operation: str, result_key: str, params: Json) -> list[Any]:
        return list(
            paginate(self.caller, "ec2", operation, params, result_key=result_key, cursor_key="NextToken")
        )


def _find_route_table(subnet: Json, tables: Iterable[Json]) -> Json:
    main: Json = {}
    for table in tables:
        for association in table.get("Associations") or ():
            if association.get("SubnetId") == subnet.get("SubnetId"):
                return table
            if association.get("Main") and table.get("VpcId") == subnet.get("VpcId"):
                main = table
    return main


def _find_egress_route(table: Json) -> EgressRoute:
    for route in table.get("Routes") or ():
        # A route stays after its gateway is deleted, and drops all packets.
        if route.get("DestinationCidrBlock") != ANY_ADDRESS or route.get("State") == "blackhole":
            continue
        if str(route.get("GatewayId", "")).startswith("igw-"):
            return "internet"
        return "nat" if route.get("NatGatewayId") else "other"
    return ""


def _parse_egress_ports(rules: Iterable[Json] | None) -> tuple[tuple[int, int], ...] | None:
    ports: list[tuple[int, int]] = []
    for rule in rules or ():
        if not any(ip_range.get("CidrIp") == ANY_ADDRESS for ip_range in rule.get("IpRanges") or ()):
            continue
        protocol = str(rule.get("IpProtocol", ""))
        if protocol == "-1":
            return None
        if protocol in ("tcp", "6"):
            ports.append((int(rule.get("FromPort", 0)), int(rule.get("ToPort", 65_535))))
    return tuple(ports)
