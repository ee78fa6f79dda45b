"""Client for EC2: VPCs, subnets with their egress routes, security groups with their egress ports."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from aws.caller import Caller, paginate

Json = Mapping[str, Any]
# Egress by internet gateway, by NAT, by another route such as a transit gateway, or none.
EgressRoute = Literal["internet", "nat", "other", ""]
ANY_ADDRESS = "0.0.0.0/0"


@dataclass(frozen=True)
class Vpc:
    """A VPC; `name` is its tag Name, or empty."""

    id: str
    name: str
    cidr: str
    is_default: bool


@dataclass(frozen=True)
class Subnet:
    """A subnet with its zone and its default route."""

    id: str
    vpc: str
    zone: str
    egress_route: EgressRoute
    name: str = ""
    cidr: str = ""


@dataclass(frozen=True)
class SecurityGroup:
    """Security group with its TCP ports that are open to all destinations; None means all ports."""

    id: str
    vpc: str
    egress_ports: tuple[tuple[int, int], ...] | None
    name: str = ""

    def allows_egress(self, port: int) -> bool:
        return self.egress_ports is None or any(first <= port <= last for first, last in self.egress_ports)


@dataclass(frozen=True)
class Ec2Client:
    """Speaks EC2 through a caller."""

    caller: Caller

    def list_vpcs(self) -> list[Vpc]:
        """Return the VPCs of the region."""
        return [
            Vpc(
                id=vpc.get("VpcId", ""),
                name=_get_name(vpc),
                cidr=vpc.get("CidrBlock", ""),
                is_default=bool(vpc.get("IsDefault")),
            )
            for vpc in self._list_all("DescribeVpcs", "Vpcs", {})
        ]

    def list_subnets(self, vpc: str) -> list[Subnet]:
        """Return the subnets of a VPC with their routes."""
        return self._read_subnets(_build_vpc_filter([vpc]))

    def describe_subnets(self, ids: Sequence[str]) -> list[Subnet]:
        """Return subnets with their routes; one without a route table uses its VPC's."""
        return self._read_subnets({"SubnetIds": list(ids)})

    def _read_subnets(self, params: Json) -> list[Subnet]:
        subnets = self._list_all("DescribeSubnets", "Subnets", params)
        vpcs = sorted({subnet.get("VpcId", "") for subnet in subnets})
        tables = self._list_all("DescribeRouteTables", "RouteTables", _build_vpc_filter(vpcs)) if vpcs else []
        return [
            Subnet(
                id=subnet.get("SubnetId", ""),
                vpc=subnet.get("VpcId", ""),
                zone=subnet.get("AvailabilityZone", ""),
                egress_route=_find_egress_route(_find_route_table(subnet, tables)),
                name=_get_name(subnet),
                cidr=subnet.get("CidrBlock", ""),
            )
            for subnet in subnets
        ]

    def list_security_groups(self, vpc: str) -> list[SecurityGroup]:
        """Return the security groups of a VPC."""
        return self._read_security_groups(_build_vpc_filter([vpc]))

    def describe_security_groups(self, ids: Sequence[str]) -> list[SecurityGroup]:
        return self._read_security_groups({"GroupIds": list(ids)})

    def _read_security_groups(self, params: Json) -> list[SecurityGroup]:
        groups = self._list_all("DescribeSecurityGroups", "SecurityGroups", params)
        return [
            SecurityGroup(
                group.get("GroupId", ""),
                group.get("VpcId", ""),
                _parse_egress_ports(group.get("IpPermissionsEgress")),
                group.get("GroupName", ""),
            )
            for group in groups
        ]

    def _list_all(self, operation: str, result_key: str, params: Json) -> list[Any]:
        return list(
            paginate(self.caller, "ec2", operation, params, result_key=result_key, cursor_key="NextToken")
        )


def _build_vpc_filter(vpcs: Sequence[str]) -> Json:
    return {"Filters": [{"Name": "vpc-id", "Values": list(vpcs)}]}


def _get_name(resource: Json) -> str:
    return next((tag.get("Value", "") for tag in resource.get("Tags") or () if tag.get("Key") == "Name"), "")


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
