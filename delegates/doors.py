"""Opens a connector's door: gives the caller that reaches what the connector names, and tries it."""

from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from aws.caller import BotoCaller, Caller
from aws.ecs import Ecs
from aws.errors import AwsError
from aws.sts import Identity, Sts
from connectors.aws_accounts import ConnectorIncomplete, credentials_of, endpoint_of, read_spec
from connectors.encryption import WrongKey
from connectors.models import Connector
from rbac.audit import record
from rbac.policy import Principal, require
from web.problems import NotAvailable


class DoorClosed(NotAvailable):
    """A connector cannot be used as it is; the text says what to change."""

    code = "connector_not_usable"


@dataclass(frozen=True)
class ConnectorTest:
    """What came of trying a connector."""

    ok: bool
    message: str
    account_id: str = ""


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


def test_connector(  # an operation, not a pytest function
    *,
    actor: Principal,
    connector: Connector,
    region: str = "",  # noqa: PT028
) -> ConnectorTest:
    """Ask AWS who we are and for the clusters of a region (R152); the result is kept on the connector."""
    require(actor, "core_connector_access", connector)
    tested = _try(connector, region or read_spec(connector.spec).test_region)
    connector.last_tested_at = timezone.now()
    connector.last_test_ok = tested.ok
    connector.last_test_message = tested.message
    with transaction.atomic():
        connector.save(update_fields=["last_tested_at", "last_test_ok", "last_test_message"])
        after = {"ok": tested.ok, "message": tested.message}
        record(actor=actor, action="connector.test", thing=connector, after=after)
    return tested


def list_clusters(*, actor: Principal, connector: Connector, region: str) -> list[Cluster]:
    """The clusters of a region, by name (R183). Raises `DoorClosed` with AWS's reason if it refuses."""
    require(actor, "core_connector_access", connector)
    try:
        arns = Ecs(open_door(connector, region)).list_clusters()
    except AwsError as error:
        raise DoorClosed(error.sentence) from error
    return sorted((Cluster(arn.rsplit("/", 1)[-1], arn) for arn in arns), key=lambda one: one.name)


def _try(connector: Connector, region: str) -> ConnectorTest:
    try:
        caller = open_door(connector, region)
        identity = Sts(caller).identity()
    except (AwsError, DoorClosed) as problem:
        return ConnectorTest(False, str(problem))
    try:
        count = len(Ecs(caller).list_clusters())
    except AwsError as error:
        return ConnectorTest(False, f"{_connected(identity)} {error.sentence}", identity.account_id)
    clusters = "1 ECS cluster" if count == 1 else f"{count} ECS clusters"
    return ConnectorTest(True, f"{_connected(identity)} {clusters} in {region}.", identity.account_id)


def _connected(identity: Identity) -> str:
    return f"Connected to account {identity.account_id} as {identity.arn}."
