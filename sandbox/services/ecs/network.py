"""Subnets, addresses and network interfaces of ECS tasks."""

import ipaddress
import secrets
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

from moto.ec2 import ec2_backends
from moto.ec2.exceptions import InvalidSecurityGroupNotFoundError, InvalidSubnetIdError

from sandbox.services.ecs.errors import InvalidEcsParameter

# AWS reserves the first four addresses of every subnet.
RESERVED_ADDRESSES = 4


def validate_network(account_id: str, region: str, network: Mapping[str, Any] | None) -> None:
    """Raise the ECS error for missing subnets or security groups."""
    if not network:
        return
    vpc = network["awsvpcConfiguration"]
    if not vpc.get("subnets"):
        raise InvalidEcsParameter("subnets can not be empty.")
    ec2 = ec2_backends[account_id][region]
    for subnet in vpc["subnets"]:
        try:
            ec2.describe_subnets(subnet_ids=[subnet])
        except InvalidSubnetIdError as exc:
            raise InvalidEcsParameter(
                f"Error retrieving subnet information for [{subnet}]: The subnet ID '{subnet}' does not exist"
                " (ErrorCode: InvalidSubnetID.NotFound)"
            ) from exc
    for group in vpc.get("securityGroups") or []:
        try:
            ec2.describe_security_groups(group_ids=[group])
        except InvalidSecurityGroupNotFoundError as exc:
            raise InvalidEcsParameter(
                f"Error retrieving security group information for [{group}]: The security group '{group}'"
                " does not exist (ErrorCode: InvalidGroup.NotFound)"
            ) from exc


def allocate_address(
    account_id: str,
    region: str,
    network: Mapping[str, Any],
    *,
    number: int,
    is_taken: Callable[[str], bool],
) -> tuple[str, str, dict[str, Any]]:
    """Return the address, zone and attachment of the task with this number; subnets alternate."""
    subnets = network["awsvpcConfiguration"]["subnets"]
    subnet = ec2_backends[account_id][region].describe_subnets(subnet_ids=[subnets[number % len(subnets)]])[0]
    ip = _find_free_address(subnet.cidr_block, number // len(subnets), is_taken)
    return ip, str(subnet.availability_zone), _build_attachment(subnet.id, ip)


def _find_free_address(block: str, first: int, is_taken: Callable[[str], bool]) -> str:
    """Return a free address, searched from another start each time; without a free one, the last one."""
    addresses = ipaddress.ip_network(block)
    room = addresses.num_addresses - RESERVED_ADDRESSES - 1
    tried = (str(addresses[RESERVED_ADDRESSES + (first + step) % room]) for step in range(room))
    return next((address for address in tried if not is_taken(address)), str(addresses[-2]))


def _build_attachment(subnet: str, ip: str) -> dict[str, Any]:
    mac = ":".join(["0a", *(f"{byte:02x}" for byte in secrets.token_bytes(5))])
    details = {
        "subnetId": subnet,
        "networkInterfaceId": f"eni-{secrets.token_hex(8)}1",
        "macAddress": mac,
        "privateDnsName": f"ip-{ip.replace('.', '-')}.ec2.internal",
        "privateIPv4Address": ip,
    }
    return {
        "id": str(uuid4()),
        "type": "ElasticNetworkInterface",
        "status": "PRECREATED",
        "details": [{"name": name, "value": value} for name, value in details.items()],
    }
