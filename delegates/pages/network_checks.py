"""Check of the network that a new delegate is to have, before anything is created (T22)."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from aws.apis.ec2 import SecurityGroup, Subnet
from delegates.access.lookup_options import LookupOptions
from delegates.access.lookup_requests import list_options
from delegates.install.linter import HTTPS_PORT, SpecFinding, lint_network
from delegates.models import LookupRequest
from delegates.pages.network_choices import get_chosen_connector, list_chosen
from web.forms.pages import PageRequest, require_sign_in
from web.http.problems import Problem

_KINDS = (LookupRequest.Kind.SUBNETS, LookupRequest.Kind.GROUPS)


@require_sign_in
@never_cache
@require_safe
def check_network(request: PageRequest) -> HttpResponse:
    """Show what keeps the chosen subnets and security groups from reaching Slipway and AWS."""
    content: dict[str, Any] = {}
    if request.GET.get("connector") and request.GET.get("vpc") and list_chosen(request, "subnets"):
        try:
            content = _check_network(request)
        except Problem as problem:
            content = {"refusal": problem.detail}
    return render(request, "delegates/new/_network_check.html", content)


def _check_network(request: PageRequest) -> dict[str, Any]:
    """Return the findings, or the request that a delegate answers."""
    connector, vpc = get_chosen_connector(request), request.GET["vpc"]
    listed: list[LookupOptions] = []
    for kind in _KINDS:
        options = list_options(
            actor=request.user, connector=connector, kind=kind, region=request.GET["region"], subject=vpc
        )
        if isinstance(options, LookupRequest):
            return {"waits": options, "again": request.get_full_path()}
        listed.append(options)
    subnets, groups = listed
    return {"is_checked": True, "findings": _list_findings(request, vpc, subnets, groups)}


def _list_findings(
    request: PageRequest, vpc: str, subnets: LookupOptions, groups: LookupOptions
) -> list[SpecFinding]:
    chosen = {
        "subnets": list_chosen(request, "subnets"),
        "securityGroups": list_chosen(request, "security_groups"),
        "assignPublicIp": "ENABLED" if request.GET.get("assign_public_ip") else "DISABLED",
    }
    found = [
        *_list_unlisted(vpc, chosen["subnets"], subnets),
        *_list_unlisted(vpc, chosen["securityGroups"], groups),
    ]
    return found + list(
        lint_network(
            {"networkConfiguration": {"awsvpcConfiguration": chosen}},
            [Subnet(row["id"], vpc, row["zone"], row["egress_route"]) for row in subnets],
            [_build_group(vpc, row) for row in groups],
        )
    )


def _build_group(vpc: str, row: dict[str, Any]) -> SecurityGroup:
    ports = ((HTTPS_PORT, HTTPS_PORT),) if row["allows_https"] else ()
    return SecurityGroup(row["id"], vpc, ports)


def _list_unlisted(vpc: str, chosen: Any, options: LookupOptions) -> list[SpecFinding]:
    known = {row["id"] for row in options}
    return [
        SpecFinding("service", value, f"{value} is not in {vpc}", "choose one of this VPC")
        for value in chosen
        if value not in known
    ]
