"""Resources of AWS to choose from, by kind of lookup, with the subject that limits each kind."""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from aws.caller import Caller
from delegates.access.load_balancers import fetch_listener_rules, fetch_listeners, fetch_load_balancers
from delegates.access.network_options import (
    fetch_accounts,
    fetch_security_groups,
    fetch_subnets,
    fetch_task_roles,
    fetch_vpcs,
)
from delegates.access.service_starts import fetch_service_starts
from delegates.access.service_traffic import fetch_service_traffic
from delegates.models import LookupRequest
from web.http.problems import BadInput

LookupOptions = list[dict[str, Any]]
_KINDS = LookupRequest.Kind
LOOKUPS: Mapping[str, Callable[[Caller, str], list[Any]]] = {
    _KINDS.BALANCERS: fetch_load_balancers,
    _KINDS.LISTENERS: fetch_listeners,
    _KINDS.RULES: fetch_listener_rules,
    _KINDS.VPCS: fetch_vpcs,
    _KINDS.SUBNETS: fetch_subnets,
    _KINDS.GROUPS: fetch_security_groups,
    _KINDS.ROLES: fetch_task_roles,
    _KINDS.ACCOUNT: fetch_accounts,
    _KINDS.STARTS: fetch_service_starts,
    _KINDS.TRAFFIC: fetch_service_traffic,
}


def fetch_options(kind: str, caller: Caller, subject: str) -> LookupOptions:
    """Return the resources that a caller can list, as JSON. Raises `AwsError`."""
    return [asdict(option) for option in LOOKUPS[kind](caller, subject)]


@dataclass(frozen=True)
class _Subject:
    """The resource that a lookup is limited to: its parameter, name and pattern."""

    parameter: str
    name: str
    pattern: str


_BALANCING_ARN = r"arn:aws[a-z-]*:elasticloadbalancing:[a-z0-9-]+:\d{12}"
_ECS_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,254}"
_VPC = _Subject("vpc", "ID of a VPC", r"vpc-[0-9a-z]{1,40}")
# Subjects become part of calls with credentials.
_SUBJECTS = {
    _KINDS.LISTENERS: _Subject(
        "load_balancer", "ARN of a load balancer", _BALANCING_ARN + r":loadbalancer/[A-Za-z0-9/_-]{1,300}"
    ),
    _KINDS.RULES: _Subject(
        "listener", "ARN of a listener", _BALANCING_ARN + r":listener/[A-Za-z0-9/_-]{1,300}"
    ),
    _KINDS.SUBNETS: _VPC,
    _KINDS.GROUPS: _VPC,
    _KINDS.STARTS: _Subject(
        "service", "cluster, service and family", rf"(?=.{{5,400}}\Z){_ECS_NAME}/{_ECS_NAME}/{_ECS_NAME}"
    ),
    _KINDS.TRAFFIC: _Subject("service", "cluster and service", rf"(?=.{{3,400}}\Z){_ECS_NAME}/{_ECS_NAME}"),
}


def validate_subject(kind: str, subject: str) -> str:
    """Return the resource in the subject of a query. Raises `BadInput` for any other text."""
    if kind not in _SUBJECTS:
        return ""
    expected = _SUBJECTS[LookupRequest.Kind(kind)]
    if re.fullmatch(expected.pattern, subject):
        return subject
    message = f"is not the {expected.name}" if subject else "is missing"
    raise BadInput(f"Enter the {expected.name}.", errors=[{"path": expected.parameter, "message": message}])
