"""Operations on delegate specs: write one with its token, check one against AWS."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.utils import timezone

from aws.apis.ec2 import Ec2Client, SecurityGroup, Subnet
from aws.caller import Caller
from aws.errors import AwsError
from connectors.models import Connector
from connectors.required_access import get_connector_requirements, require_access
from delegates.access.aws_access import ConnectorUnavailable, DelegateAwsAccess, open_aws_access
from delegates.install import DelegateSpecFiles, InvalidSpec, SpecFinding, SpecRequest, lint_spec, write_spec
from delegates.install.specs import Flavour
from delegates.models.delegates import DelegateToken, get_account_id
from delegates.operations.tokens import reveal_token
from rbac.models import Scope, User
from rbac.policy import Principal, require
from web.http.problems import BadInput

SPEC_PERMISSION = "core_delegate_edit"


def build_default_spec_request(*, flavour: Flavour = "v3", image: str = "") -> SpecRequest:
    """Return the values that all specs of this installation share, for `dataclasses.replace`."""
    return SpecRequest(
        account_id=get_account_id(),
        manager_url=settings.PUBLIC_URL,
        image=image or settings.DELEGATE_IMAGES.get(flavour, settings.DELEGATE_IMAGES["v3"]),
        flavour=flavour,
    )


def write_task_spec(
    *, actor: User, scope: Scope, token: DelegateToken | None, request: SpecRequest
) -> DelegateSpecFiles:
    """Return all files and commands of a delegate of `scope`; a missing token becomes a placeholder.

    A token that is already in a secret is not revealed. Raises `BadInput`.
    """
    require(actor, SPEC_PERMISSION, token or scope)
    if token is not None:
        _check_usable(token)
    spec = render_spec(request)
    if token is None or (request.uses_secret and request.secret.kind == "EXISTING"):
        return spec
    # After all checks: a refused request must not reveal the spec.
    shown_for = f"the spec of {request.name}" if request.name else "a spec"
    value = reveal_token(actor=actor, token=token, shown_for=shown_for)
    return render_spec(replace(request, token=value))


def render_spec(request: SpecRequest) -> DelegateSpecFiles:
    """Return the files and commands of a request. Raises `BadInput` with the required changes."""
    try:
        return write_spec(request)
    except InvalidSpec as exc:
        raise BadInput("The input is not valid.", errors=[fault.to_json() for fault in exc.faults]) from exc


def _check_usable(token: DelegateToken) -> None:
    """Refuse a token that no agent could register with."""
    message = ""
    if token.status != DelegateToken.Status.ACTIVE:
        message = "is revoked; choose another token"
    elif token.expires_at and token.expires_at <= timezone.now():
        message = "has expired; choose another token"
    if message:
        raise BadInput("The token cannot be used.", errors=[{"path": "token_id", "message": message}])


Document = Mapping[str, Any]
NETWORK_PATH = "networkConfiguration.awsvpcConfiguration"


def check_spec(
    *,
    actor: Principal,
    task_definition: Document,
    service: Document | None,
    connector: Connector | None = None,
    region: str = "",
) -> list[SpecFinding]:
    """Return all problems of a spec; with a connector, AWS describes its network.

    Raises `ConnectorUnavailable` if this process cannot use the connector.
    """
    findings = lint_spec(task_definition, service)
    named = _list_network_ids(service) if service and not any(map(_has_fatal_finding, findings)) else {}
    if connector is None or service is None or not named:
        return findings
    require_access(actor, get_connector_requirements(connector))
    caller = open_aws_access(connector, region)
    if isinstance(caller, DelegateAwsAccess):
        raise ConnectorUnavailable(
            f"The connector {connector} connects through a delegate. Use one that connects through Slipway, "
            f"or omit it to skip the network checks."
        )
    subnets, groups, refused = _describe_network(caller, named)
    return [*lint_spec(task_definition, service, subnets=subnets, security_groups=groups), *refused]


def _has_fatal_finding(finding: SpecFinding) -> bool:
    """Return whether a service has errors that prevent a network check."""
    return finding.document == "service" and not finding.is_warning


def _list_network_ids(service: Document) -> dict[str, list[str]]:
    """Return the resource ids in a service definition by resource kind."""
    vpc = (service.get("networkConfiguration") or {}).get("awsvpcConfiguration") or {}
    return {key: list(vpc[key]) for key in ("subnets", "securityGroups") if vpc.get(key)}


def _describe_network(
    caller: Caller, named: Mapping[str, list[str]]
) -> tuple[list[Subnet], list[SecurityGroup], list[SpecFinding]]:
    subnets: list[Subnet] = []
    groups: list[SecurityGroup] = []
    refused = []
    try:
        subnets = Ec2Client(caller).describe_subnets(named.get("subnets", []))
    except AwsError as error:
        refused.append(_build_refusal_finding("subnets", error))
    try:
        if named.get("securityGroups"):
            groups = Ec2Client(caller).describe_security_groups(named["securityGroups"])
    except AwsError as error:
        refused.append(_build_refusal_finding("securityGroups", error))
    return subnets, groups, refused


def _build_refusal_finding(key: str, error: AwsError) -> SpecFinding:
    """Return a finding for a resource that AWS did not describe: it is missing or access is denied."""
    fix = "check the ids and the region, or the permissions of the connector"
    return SpecFinding("service", f"{NETWORK_PATH}.{key}", error.display_message, fix, True)
