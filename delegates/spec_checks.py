"""Checks a delegate's task spec, with what AWS says of its network where a connector may ask (N13, T22)."""

from collections.abc import Mapping
from typing import Any

from aws.caller import Caller
from aws.ec2 import Ec2, SecurityGroup, Subnet
from aws.errors import AwsError
from connectors.downstream import needs_of_connector, refuse_lacking
from connectors.models import Connector
from delegates.doors import DelegateDoor, DoorClosed, open_door
from delegates.specs import Finding, lint
from rbac.policy import Principal

Document = Mapping[str, Any]
PLACE = "networkConfiguration.awsvpcConfiguration"


def check_spec(
    *,
    actor: Principal,
    task_definition: Document,
    service: Document | None,
    connector: Connector | None = None,
    region: str = "",
) -> list[Finding]:
    """Everything that is wrong with a spec; its network is asked for where there is a connector.

    Raises `DoorClosed` where the connector cannot be used from here.
    """
    found = lint(task_definition, service)
    named = _named(service) if service and not any(map(_is_wrong, found)) else {}
    if connector is None or service is None or not named:
        return found
    refuse_lacking(actor, needs_of_connector(connector))
    caller = open_door(connector, region)
    if isinstance(caller, DelegateDoor):
        raise DoorClosed(
            f"The connector {connector} goes through a delegate. Name one that makes its calls from this "
            "Slipway, or leave it out: the network is not looked at then."
        )
    subnets, groups, refused = _known(caller, named)
    return [*lint(task_definition, service, subnets=subnets, security_groups=groups), *refused]


def _is_wrong(finding: Finding) -> bool:
    """Whether a service is too wrong to be asked about."""
    return finding.document == "service" and not finding.is_warning


def _named(service: Document) -> dict[str, list[str]]:
    """The ids that a service names, by what they are of."""
    vpc = (service.get("networkConfiguration") or {}).get("awsvpcConfiguration") or {}
    return {key: list(vpc[key]) for key in ("subnets", "securityGroups") if vpc.get(key)}


def _known(
    caller: Caller, named: Mapping[str, list[str]]
) -> tuple[list[Subnet], list[SecurityGroup], list[Finding]]:
    subnets: list[Subnet] = []
    groups: list[SecurityGroup] = []
    refused = []
    try:
        subnets = Ec2(caller).subnets(named.get("subnets", []))
    except AwsError as error:
        refused.append(_refused("subnets", error))
    try:
        if named.get("securityGroups"):
            groups = Ec2(caller).security_groups(named["securityGroups"])
    except AwsError as error:
        refused.append(_refused("securityGroups", error))
    return subnets, groups, refused


def _refused(key: str, error: AwsError) -> Finding:
    """What AWS would not describe is wrong, or may not be seen; either is worth saying."""
    fix = "check the ids and the region, or what the connector may do"
    return Finding("service", f"{PLACE}.{key}", error.sentence, fix, True)
