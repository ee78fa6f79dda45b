"""Opens a connector's door: gives the caller that reaches what the connector names."""

from dataclasses import dataclass

from aws.caller import BotoCaller, Caller
from aws.ecs import Ecs
from aws.errors import AwsError
from connectors.aws_accounts import ConnectorIncomplete, credentials_of, endpoint_of
from connectors.encryption import WrongKey
from connectors.models import Connector
from rbac.policy import Principal, require
from web.problems import NotAvailable


class DoorClosed(NotAvailable):
    """A connector cannot be used as it is; the text says what to change."""

    code = "connector_not_usable"


@dataclass(frozen=True)
class Cluster:
    """An ECS cluster that a connector can see."""

    name: str
    arn: str


def open_door(connector: Connector, region: str) -> Caller:
    """The caller for a connector and region: boto3 in this process.

    Raises `DoorClosed` if the connector lacks something.
    """
    try:
        return BotoCaller(credentials_of(connector), region, endpoint_of(connector))
    except (ConnectorIncomplete, WrongKey) as exc:
        raise DoorClosed(str(exc)) from exc


def door_key(connector: Connector) -> str:
    """What looks may share: the same key means the same credentials by the same way."""
    return f"built-in:{connector.pk}:{connector.updated_at.timestamp():.6f}"


def list_clusters(*, actor: Principal, connector: Connector, region: str) -> list[Cluster]:
    """The clusters of a region, by name (R183). Raises `DoorClosed` with AWS's reason if it refuses."""
    require(actor, "core_connector_access", connector)
    try:
        arns = Ecs(open_door(connector, region)).list_clusters()
    except AwsError as error:
        raise DoorClosed(error.sentence) from error
    return sorted((Cluster(arn.rsplit("/", 1)[-1], arn) for arn in arns), key=lambda one: one.name)
