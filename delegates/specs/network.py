"""Whether the network that a service names leads anywhere, as AWS itself describes it (T22, R093)."""

from collections.abc import Iterator, Sequence

from aws.ec2 import SecurityGroup, Subnet
from delegates.specs.finding import Document, Finding

PLACE = "networkConfiguration.awsvpcConfiguration"
HTTPS = 443


def network_findings(
    service: Document, subnets: Sequence[Subnet], groups: Sequence[SecurityGroup]
) -> Iterator[Finding]:
    """What keeps tasks from reaching anything; nothing is said of what AWS was not asked about."""
    vpc = (service.get("networkConfiguration") or {}).get("awsvpcConfiguration") or {}
    known = {one.id: one for one in subnets}
    named = [(number, known[one]) for number, one in enumerate(vpc.get("subnets") or []) if one in known]
    has_address = vpc.get("assignPublicIp") == "ENABLED"
    for number, subnet in named:
        yield from _way(subnet, f"{PLACE}.subnets[{number}]", has_address=has_address)
    zones = {subnet.zone for _, subnet in named}
    if len(named) > 1 and len(zones) == 1:
        message = f"all subnets are in {zones.pop()}"
        yield Finding("service", f"{PLACE}.subnets", message, "name one of another zone", True)
    vpcs = sorted({subnet.vpc for _, subnet in named})
    if len(vpcs) > 1:
        message = f"the subnets are of several VPCs: {', '.join(vpcs)}"
        yield Finding("service", f"{PLACE}.subnets", message, "name subnets of one VPC")
    yield from _groups(vpc, groups, vpcs)


def _way(subnet: Subnet, place: str, *, has_address: bool) -> Iterator[Finding]:
    """The rule that fails silently: an address without a gateway, or a gateway without an address."""
    if not subnet.way_out:
        message = f"{subnet.id} has no route to anywhere else"
        fix = "give it a route to an internet gateway or a NAT gateway"
        yield Finding("service", place, message, fix)
    elif subnet.way_out == "internet" and not has_address:
        message = f"{subnet.id} is public, and tasks without a public address reach nothing through it"
        yield Finding("service", place, message, "set assignPublicIp to ENABLED, or name private subnets")
    elif subnet.way_out == "nat" and has_address:
        message = f"{subnet.id} is private: a public address is of no use in it"
        yield Finding("service", place, message, "set assignPublicIp to DISABLED", True)


def _groups(vpc: Document, groups: Sequence[SecurityGroup], vpcs: Sequence[str]) -> Iterator[Finding]:
    known = {one.id: one for one in groups}
    named = [
        (number, known[one]) for number, one in enumerate(vpc.get("securityGroups") or []) if one in known
    ]
    for number, group in named:
        if vpcs and group.vpc not in vpcs:
            message = f"{group.id} is of {group.vpc}, the subnets are of {vpcs[0]}"
            yield Finding("service", f"{PLACE}.securityGroups[{number}]", message, "name a group of that VPC")
    if named and not any(group.lets_out(HTTPS) for _, group in named):
        message = "no security group lets HTTPS out to everywhere"
        fix = "let port 443 out, at least to Slipway, AWS and your registries"
        yield Finding("service", f"{PLACE}.securityGroups", message, fix, True)
