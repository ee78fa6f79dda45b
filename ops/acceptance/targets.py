"""Target of an acceptance run: connector, cluster and network, with defaults read from the cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from aws.apis.ecs import EcsClient
from aws.caller import Caller
from aws.errors import AwsError
from connectors.models import Connector
from connectors.specs.aws import parse_aws_spec
from delegates.access.aws_access import ConnectorUnavailable, get_local_caller
from web.http.problems import BadInput

DEFAULT_IMAGE: Final = "public.ecr.aws/nginx/nginx:stable"


class AcceptanceImpossible(BadInput):
    """Error raised when a run cannot start; the message says what to change."""


@dataclass(frozen=True)
class BlueGreenTarget:
    """Listeners of a load balancer whose rules the run may swap."""

    load_balancer: str
    prod_listener: str
    prod_rule: str
    stage_listener: str
    stage_rule: str


@dataclass(frozen=True)
class AcceptanceTarget:
    """Where a run deploys, and with what."""

    connector: Connector
    region: str
    cluster: str
    subnets: tuple[str, ...]
    security_groups: tuple[str, ...]
    image: str = DEFAULT_IMAGE
    execution_role: str = ""
    has_public_ip: bool = True
    blue_green: BlueGreenTarget | None = None
    caller: Caller = field(kw_only=True, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return all but connector and caller."""
        names = ("region", "cluster", "image", "execution_role", "has_public_ip")
        return {
            **{name: getattr(self, name) for name in names},
            "subnets": list(self.subnets),
            "security_groups": list(self.security_groups),
            "blue_green": asdict(self.blue_green) if self.blue_green else None,
        }

    @classmethod
    def open(cls, connector: Connector, record: Mapping[str, Any]) -> Self:
        """Return a stored target with a new caller. Raises `AcceptanceImpossible`."""
        balancing = record["blue_green"]
        return cls(
            connector=connector,
            **{
                **record,
                "subnets": tuple(record["subnets"]),
                "security_groups": tuple(record["security_groups"]),
                "blue_green": BlueGreenTarget(**balancing) if balancing else None,
            },
            caller=open_caller(connector, record["region"])[0],
        )


def find_connector(reference: str) -> Connector:
    """Return the AWS connector with this identifier, or with its scope's path before it.

    Raises `AcceptanceImpossible`.
    """
    path, _, identifier = reference.rpartition("/")
    connectors = Connector.objects.filter(kind=Connector.Kind.AWS, scope__archived_at=None)
    matches = connectors.filter(identifier=identifier).select_related("scope", "secret")
    found = [row for row in matches.order_by("scope__path") if path in ("", row.scope.path)]
    if len(found) == 1:
        return found[0]
    if found:
        paths = ", ".join(f"{row.scope.path}/{row.identifier}" for row in found)
        raise AcceptanceImpossible(f"Several connectors are called {identifier}. Name one of {paths}.")
    raise AcceptanceImpossible(f"There is no AWS connector {reference}.")


def open_caller(connector: Connector, region: str) -> tuple[Caller, str]:
    """Return the caller of a connector and its region, by default the one that it is tested in.

    Raises `AcceptanceImpossible`.
    """
    region = region or parse_aws_spec(connector.spec).test_region
    try:
        return get_local_caller(connector, region), region
    except ConnectorUnavailable as problem:
        raise AcceptanceImpossible(
            f"{problem} An acceptance run needs a connector that Slipway connects directly."
        ) from problem


def find_network(
    caller: Caller, cluster: str, subnets: Sequence[str], security_groups: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return subnets and security groups; missing ones are those of a service of the cluster.

    Raises `AcceptanceImpossible` if neither is known.
    """
    if subnets and security_groups:
        return tuple(subnets), tuple(security_groups)
    try:
        arns = EcsClient(caller).list_services(cluster)[:10]
        services = EcsClient(caller).describe_raw_services(cluster, arns) if arns else []
    except AwsError as problem:
        raise AcceptanceImpossible(problem.display_message) from problem
    networks = (_get_network(service) for service in services)
    network = next((each for each in networks if each.get("subnets")), {})
    chosen = tuple(subnets) or tuple(network.get("subnets", ()))
    groups = tuple(security_groups) or tuple(network.get("securityGroups", ()))
    if not chosen or not groups:
        raise AcceptanceImpossible(
            f"No service of the cluster {cluster} shows which network to use. Name subnets and security "
            "groups.",
            errors=[
                {"path": path, "message": "No service of the cluster shows which to use."}
                for path, known in (("subnets", chosen), ("security_groups", groups))
                if not known
            ],
        )
    return chosen, groups


def _get_network(service: Mapping[str, Any]) -> Mapping[str, Any]:
    configuration: Mapping[str, Any] = service.get("networkConfiguration") or {}
    network: Mapping[str, Any] = configuration.get("awsvpcConfiguration") or {}
    return network
