"""Fields of the install wizard that AWS fills with choices, through the connector of the form."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from aws.regions import list_regions
from connectors.models import Connector
from connectors.specs.aws import parse_aws_spec
from delegates.access.aws_access import list_clusters
from delegates.access.lookup_options import LookupOptions
from delegates.access.lookup_requests import list_clusters_by_delegate, list_options
from delegates.forms.installation import LISTED_PREFIX, NewDelegateForm
from delegates.models import LookupRequest
from delegates.queries.aws_connectors import list_aws_connectors
from guards.text import parse_key
from web.forms.pages import PageRequest, require_sign_in
from web.http.problems import Problem

_KINDS: Final = LookupRequest.Kind
# Names of hidden fields with the values that the page chose by itself.
DEFAULT_PREFIX: Final = "default_"
_ROUTES: Final = {"internet": "public", "nat": "private, with a NAT gateway", "other": "private"}


@dataclass(frozen=True)
class Choice:
    """A value to choose, with what a person knows it by."""

    value: str
    text: str


def _describe_vpc(option: Mapping[str, Any]) -> Choice:
    default = "default" if option["is_default"] else ""
    return Choice(option["id"], _join(option["name"], option["id"], option["cidr"], default))


def _describe_subnet(option: Mapping[str, Any]) -> Choice:
    route = _ROUTES.get(option["egress_route"], "no route to other networks")
    return Choice(option["id"], _join(option["name"], option["id"], option["zone"], option["cidr"], route))


def _describe_group(option: Mapping[str, Any]) -> Choice:
    egress = "" if option["allows_https"] else "does not allow outbound HTTPS"
    return Choice(option["id"], _join(option["name"], option["id"], egress))


def _describe_id(option: Mapping[str, Any]) -> Choice:
    return Choice(option["id"], option["id"])


def _describe_name(option: Mapping[str, Any]) -> Choice:
    return Choice(option["name"], option["name"])


def _join(*words: str) -> str:
    return " · ".join(word for word in words if word)


def _choose_nothing(_options: LookupOptions) -> list[str]:
    return []


def _choose_default_vpc(options: LookupOptions) -> list[str]:
    return [option["id"] for option in options if option["is_default"]]


def _choose_public_subnets(options: LookupOptions) -> list[str]:
    """Return a public subnet in each of two zones, for tasks with a public IP."""
    by_zone = {
        option["zone"]: option["id"] for option in reversed(options) if option["egress_route"] == "internet"
    }
    return [by_zone[zone] for zone in sorted(by_zone)[:2]]


def _choose_group(options: LookupOptions) -> list[str]:
    """Return the only security group, or the default one, if it allows outbound HTTPS."""
    usual = [option for option in options if len(options) == 1 or option["name"] == "default"]
    return [option["id"] for option in usual if option["allows_https"]]


def _choose_only(options: LookupOptions) -> list[str]:
    return [str(option.get("id") or option["name"]) for option in options] if len(options) == 1 else []


@dataclass(frozen=True)
class ChoiceField:
    """Field of the wizard with the lookup that lists its choices and the permissions that this takes.

    `choose` returns the values that a new delegate gets without a choice.
    """

    kind: str
    noun: str
    describe: Callable[[Mapping[str, Any]], Choice]
    permissions: str
    choose: Callable[[LookupOptions], list[str]] = _choose_nothing
    is_of_vpc: bool = False
    takes_many: bool = False


_ROLES: Final = ChoiceField(_KINDS.ROLES, "roles of ECS tasks", _describe_name, "iam:ListRoles")
CHOICE_FIELDS: Final[Mapping[str, ChoiceField]] = {
    "aws_account_id": ChoiceField(
        _KINDS.ACCOUNT, "AWS accounts", _describe_id, "sts:GetCallerIdentity", _choose_only
    ),
    "vpc": ChoiceField(_KINDS.VPCS, "VPCs", _describe_vpc, "ec2:DescribeVpcs", _choose_default_vpc),
    "subnets": ChoiceField(
        _KINDS.SUBNETS,
        "subnets",
        _describe_subnet,
        "ec2:DescribeSubnets and ec2:DescribeRouteTables",
        _choose_public_subnets,
        is_of_vpc=True,
        takes_many=True,
    ),
    "security_groups": ChoiceField(
        _KINDS.GROUPS,
        "security groups",
        _describe_group,
        "ec2:DescribeSecurityGroups",
        _choose_group,
        is_of_vpc=True,
        takes_many=True,
    ),
    "cluster": ChoiceField(_KINDS.CLUSTERS, "clusters", _describe_name, "ecs:ListClusters", _choose_only),
    "execution_role": _ROLES,
    "task_role": _ROLES,
}


@require_sign_in
@never_cache
@require_safe
def show_choices(request: PageRequest, name: str) -> HttpResponse:
    """Render a field of the wizard with what the chosen connector sees in AWS; text stays possible."""
    if name not in CHOICE_FIELDS:
        raise Http404
    field = CHOICE_FIELDS[name]
    typed, ticked = _list_typed(request, name), _list_words(request, f"{LISTED_PREFIX}{name}")
    content: dict[str, Any] = {
        "field": NewDelegateForm.base_fields[name],
        "name": name,
        "choices": field,
        "region": request.GET.get("region", ""),
        "entered": " ".join([*ticked, *typed]),
    }
    if request.GET.get("connector"):
        content |= _look_up(request, field, typed, ticked)
    response = render(request, "delegates/new/_choices.html", content)
    # What is listed for a VPC waits for the choice of one, and the check of the network for both.
    response["HX-Trigger-After-Settle"] = f"{name}-listed"
    return response


def _list_typed(request: PageRequest, name: str) -> list[str]:
    """Return the typed values; one that an earlier connector chose is none."""
    typed = _list_words(request, name)
    return [] if typed == _list_words(request, f"{DEFAULT_PREFIX}{name}") else typed


def _list_words(request: PageRequest, name: str) -> list[str]:
    return list(dict.fromkeys(" ".join(request.GET.getlist(name)).replace(",", " ").split()))


def _look_up(request: PageRequest, field: ChoiceField, typed: list[str], ticked: list[str]) -> dict[str, Any]:
    """Return the choices, the request that a delegate answers, or why there is neither."""
    vpc = request.GET.get("vpc", "")
    if field.is_of_vpc and not vpc:
        return {"hint": "Choose a VPC to list them."}
    try:
        connector = get_chosen_connector(request)
        options = _list_options(request, connector, field, vpc if field.is_of_vpc else "")
    except Problem as problem:
        return {"refusal": problem.detail}
    if isinstance(options, LookupRequest):
        # A repeated request returns the response, or waits.
        return {"waits": options, "again": request.get_full_path()}
    listed = [field.describe(option) for option in options]
    known = {choice.value for choice in listed}
    chosen = [value for value in (*ticked, *typed) if value in known or value in typed]
    defaults = [] if chosen or not request.GET.get("chooses") else field.choose(options)
    return {
        "connector": connector,
        "listed": listed,
        "chosen": chosen or defaults,
        "default": "" if field.takes_many else " ".join(defaults),
        "entered": " ".join(chosen or defaults),
        # Ticks of another VPC go with it; typed text stays.
        "others": " ".join(value for value in typed if value not in known),
    }


def list_chosen(request: PageRequest, name: str) -> list[str]:
    """Return the values of a field: those that are ticked, then those that are typed."""
    return [*dict.fromkeys([*_list_words(request, f"{LISTED_PREFIX}{name}"), *_list_words(request, name)])]


def get_chosen_connector(request: PageRequest) -> Connector:
    """Return the connector of the form. Raises `Problem` without one, or without a region."""
    key = parse_key(request.GET.get("connector", ""))
    connector = list_aws_connectors(request.user).filter(pk=key).first() if key else None
    if connector is None:
        raise Problem("Choose a connector that you can use.")
    if not any(request.GET.get("region") == region.name for region in list_regions()):
        raise Problem("Choose a region first.")
    return connector


def _list_options(
    request: PageRequest, connector: Connector, field: ChoiceField, subject: str
) -> LookupOptions | LookupRequest:
    region = request.GET["region"]
    if field.kind != _KINDS.CLUSTERS:
        return list_options(
            actor=request.user, connector=connector, kind=field.kind, region=region, subject=subject
        )
    list_them = list_clusters_by_delegate if parse_aws_spec(connector.spec).is_remote else list_clusters
    clusters = list_them(actor=request.user, connector=connector, region=region)
    return clusters if isinstance(clusters, LookupRequest) else [asdict(cluster) for cluster in clusters]
