"""Opens a connector's door: gives the way to what the connector names, from here or through a delegate."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aws.addresses import endpoint_of_service
from aws.caller import BotoCaller, Caller
from aws.credentials import AccessKey, AssumedRole, Credentials
from aws.ecs import Ecs
from aws.errors import AwsError
from connectors.aws_accounts import OF_DELEGATE, ConnectorIncomplete, credentials_of, endpoint_of, read_spec
from connectors.downstream import needs_of_connector, refuse_lacking
from connectors.models import Connector
from delegates.models import Delegate
from delegates.owners import Payload
from rbac.encryption import WrongKey
from rbac.policy import Principal
from web.outgoing import own_reach
from web.problems import Conflict


class DoorClosed(Conflict):
    """A connector cannot be used as it is; the text says what to change."""

    code = "connector_not_usable"


@dataclass(frozen=True)
class Cluster:
    """An ECS cluster that a connector can see."""

    name: str
    arn: str


@dataclass(frozen=True)
class DelegateDoor:
    """The door of a connector whose calls a delegate makes: what each of its tasks has to say."""

    connector: Connector = field(repr=False)
    region: str
    selectors: tuple[str, ...] = ()
    endpoint_url: str | None = None
    uses_own_credentials: bool = False
    """Whether the AWS account depends on who makes the call."""

    def criterion(self, service: str) -> str:
        """The URL that a call to a service needs to reach (R035)."""
        return endpoint_of_service(service, self.region, self.endpoint_url)


def open_door(connector: Connector, region: str) -> Caller | DelegateDoor:
    """The way to AWS for a connector and region: boto3 in this process, or tasks for delegates.

    Raises `DoorClosed` if the connector lacks something, or the built-in delegate that it needs is disabled.
    """
    try:
        spec, endpoint = read_spec(connector.spec), endpoint_of(connector)
        credentials = credentials_of(connector)
    except (ConnectorIncomplete, WrongKey) as exc:
        raise DoorClosed(str(exc)) from exc
    if spec.is_remote:
        own = spec.credentials == OF_DELEGATE
        return DelegateDoor(connector, region, spec.delegate_selectors, endpoint, own)
    refuse_disabled(connector)
    return BotoCaller(credentials, region, endpoint, own_reach())


def call_payload(
    connector: Connector, region: str, service: str, operation: str, params: Mapping[str, Any]
) -> Payload:
    """What an agent needs to make one call, its credentials among it; made only when a delegate takes it.

    Raises `DoorClosed` if the connector lacks something.
    """
    try:
        credentials, endpoint = credentials_of(connector), endpoint_of(connector)
    except (ConnectorIncomplete, WrongKey) as exc:
        raise DoorClosed(str(exc)) from exc
    said = {
        "service": service,
        "operation": operation,
        "params": dict(params),
        "region": region,
        "endpoint_url": endpoint,
        "credentials": _as_sent(credentials),
    }
    base = credentials.base if isinstance(credentials, AssumedRole) else credentials
    return Payload(said, mask=(base.secret_access_key,) if isinstance(base, AccessKey) else ())


def _as_sent(credentials: Credentials) -> dict[str, Any]:
    if isinstance(credentials, AssumedRole):
        return {
            "kind": "assume_role",
            "role_arn": credentials.role_arn,
            "external_id": credentials.external_id,
            "base": _as_sent(credentials.base),
        }
    if isinstance(credentials, AccessKey):
        return {
            "kind": "access_key",
            "access_key_id": credentials.access_key_id,
            "secret_access_key": credentials.secret_access_key,
            "session_token": credentials.session_token,
        }
    return {"kind": "own"}


def refuse_disabled(connector: Connector) -> None:
    """Do nothing while the built-in delegate may work. Raises `DoorClosed`."""
    built_in = Delegate.objects.filter(is_built_in=True).exclude(admission=Delegate.Admission.ENABLED)
    if built_in.exists():
        raise DoorClosed(
            f"The connector {connector} makes its calls from this Slipway, whose built-in delegate is "
            "disabled. Enable it on the page of delegates, or let the connector go through a delegate."
        )


def door_key(connector: Connector) -> str:
    """What looks may share: the same key means the same credentials by the same way."""
    way = "delegate" if read_spec(connector.spec).is_remote else "built-in"
    return f"{way}:{connector.pk}:{connector.updated_at.timestamp():.6f}"


def call_here(connector: Connector, region: str) -> Caller:
    """The caller of a connector whose calls go out from this Slipway. Raises `DoorClosed`."""
    found = open_door(connector, region)
    if isinstance(found, DelegateDoor):
        raise DoorClosed(f"The connector {connector} makes its calls through a delegate.")
    return found


def list_clusters(*, actor: Principal, connector: Connector, region: str) -> list[Cluster]:
    """The clusters of a region, by name (R183). Raises `DoorClosed` with AWS's reason if it refuses."""
    refuse_lacking(actor, needs_of_connector(connector))
    try:
        return clusters_seen_by(call_here(connector, region))
    except AwsError as error:
        raise DoorClosed(error.sentence) from error


def clusters_seen_by(caller: Caller) -> list[Cluster]:
    """The clusters that a caller sees, by name. Raises `AwsError`."""
    arns = Ecs(caller).list_clusters()
    return sorted((Cluster(arn.rsplit("/", 1)[-1], arn) for arn in arns), key=lambda one: one.name)
