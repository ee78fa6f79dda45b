"""AWS access of a connector: boto3 in this process, or tasks for delegates."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from aws.apis.ecs import EcsClient
from aws.caller import BotoCaller, Caller
from aws.clients import AccessKey, AssumedRole, Credentials, WebIdentity
from aws.errors import AwsError, NotSent
from aws.regions import get_service_endpoint
from connectors.models import Connector
from connectors.required_access import get_connector_requirements, require_access
from connectors.secret_managers.base import SecretPending, SecretUnreadable
from connectors.specs.aws import (
    DELEGATE_CREDENTIALS,
    WEB_IDENTITY,
    ConnectorIncomplete,
    get_credentials,
    get_endpoint,
    parse_aws_spec,
)
from delegates.models import Delegate, DelegateTask
from delegates.task_owners import TaskPayload
from delegates.task_queue import block_delegate
from rbac.policy import Principal
from web.http.client import get_outgoing_reach
from web.http.problems import Conflict


class ConnectorUnavailable(Conflict):
    """Error raised when a connector's configuration makes it unusable; the text names the required change."""

    code = "connector_not_usable"


class ConnectorPending(ConnectorUnavailable):
    """Error raised while a delegate reads a secret of the connector; a later attempt succeeds."""


@dataclass(frozen=True)
class EcsCluster:
    """ECS cluster visible to a connector."""

    name: str
    arn: str


@dataclass(frozen=True)
class DelegateAwsAccess:
    """AWS access of a connector through delegates; it supplies the fields of each delegate task."""

    connector: Connector = field(repr=False)
    region: str
    selectors: tuple[str, ...] = ()
    endpoint_url: str | None = None
    uses_own_credentials: bool = False
    """Whether the AWS account depends on the caller."""

    def criterion(self, service: str) -> str:
        """Return the URL that a call to a service needs to reach (R035)."""
        return get_service_endpoint(service, self.region, self.endpoint_url)


def open_aws_access(connector: Connector, region: str) -> Caller | DelegateAwsAccess:
    """Return AWS access for a connector and region: boto3 in this process, or delegate tasks.

    Raises `ConnectorUnavailable` if the connector is incomplete, or the required built-in delegate is
    disabled.
    """
    try:
        spec, endpoint = parse_aws_spec(connector.spec), get_endpoint(connector)
        credentials = get_credentials(connector)
    except SecretPending as pending:
        raise ConnectorPending(str(pending)) from pending
    except (ConnectorIncomplete, SecretUnreadable) as exc:
        raise ConnectorUnavailable(str(exc)) from exc
    if spec.is_remote:
        own = spec.credentials == DELEGATE_CREDENTIALS
        return DelegateAwsAccess(connector, region, spec.delegate_selectors, endpoint, own)
    require_built_in_enabled(connector)
    return BotoCaller(credentials, region, endpoint, get_outgoing_reach())


def build_aws_payload(
    connector: Connector, region: str, service: str, operation: str, params: Mapping[str, Any]
) -> TaskPayload:
    """Return the parameters of one AWS call for an agent, with credentials.

    Credentials are added only when a delegate takes the task. Raises `ConnectorUnavailable` if the connector
    is incomplete.
    """
    try:
        credentials, endpoint = get_credentials(connector), get_endpoint(connector)
    except SecretPending as pending:
        raise ConnectorPending(str(pending)) from pending
    except (ConnectorIncomplete, SecretUnreadable) as exc:
        raise ConnectorUnavailable(str(exc)) from exc
    payload = {
        "service": service,
        "operation": operation,
        "params": dict(params),
        "region": region,
        "endpoint_url": endpoint,
        "credentials": _serialize_credentials(credentials),
    }
    base = credentials
    while isinstance(base, AssumedRole):
        base = base.base
    secrets = (base.secret_access_key, base.session_token) if isinstance(base, AccessKey) else ()
    return TaskPayload(payload, mask=tuple(filter(None, secrets)))


def _serialize_credentials(credentials: Credentials) -> dict[str, Any]:
    if isinstance(credentials, AssumedRole):
        return {
            "kind": "assume_role",
            "role_arn": credentials.role_arn,
            "external_id": credentials.external_id,
            "session_name": credentials.session_name,
            "tags": [list(tag) for tag in credentials.tags],
            "transitive_tag_keys": list(credentials.transitive_tag_keys),
            "base": _serialize_credentials(credentials.base),
        }
    if isinstance(credentials, AccessKey):
        return {
            "kind": "access_key",
            "access_key_id": credentials.access_key_id,
            "secret_access_key": credentials.secret_access_key,
            "session_token": credentials.session_token,
        }
    if isinstance(credentials, WebIdentity):
        return {
            "kind": "web_identity",
            "role_arn": credentials.role_arn,
            "token_file": credentials.token_file,
            "session_name": credentials.session_name,
        }
    return {"kind": "own"}


def require_built_in_enabled(connector: Connector) -> None:
    """Check that the built-in delegate is enabled. Raises `ConnectorUnavailable`."""
    built_in = Delegate.objects.filter(is_built_in=True).exclude(admission=Delegate.Admission.ENABLED)
    if built_in.exists():
        raise ConnectorUnavailable(
            f"The connector {connector} connects through the built-in delegate, which is disabled. Enable "
            f"it on the delegates page, or connect through another delegate."
        )


def build_cache_key(connector: Connector) -> str:
    """Return the cache key of shared reads: equal keys mean equal credentials through the same delegates."""
    way = "delegate" if parse_aws_spec(connector.spec).is_remote else "built-in"
    return f"{way}:{connector.pk}:{connector.updated_at.timestamp():.6f}"


def get_local_caller(connector: Connector, region: str) -> Caller:
    """Return the caller of a connector that Slipway connects directly. Raises `ConnectorUnavailable`."""
    access = open_aws_access(connector, region)
    if isinstance(access, DelegateAwsAccess):
        raise ConnectorUnavailable(f"The connector {connector} connects through a delegate.")
    return access


def get_delegate_access(connector: Connector, region: str) -> DelegateAwsAccess:
    """Return the access of a connector through delegates. Raises `ConnectorUnavailable`."""
    access = open_aws_access(connector, region)
    if not isinstance(access, DelegateAwsAccess):
        raise ConnectorUnavailable(f"The connector {connector} connects through Slipway.")
    return access


def list_clusters(*, actor: Principal, connector: Connector, region: str) -> list[EcsCluster]:
    """Return the clusters of a region, by name (R183).

    Raises `ConnectorUnavailable` with AWS's reason if it refuses.
    """
    require_access(actor, get_connector_requirements(connector))
    try:
        return fetch_clusters(get_local_caller(connector, region))
    except AwsError as error:
        raise ConnectorUnavailable(error.display_message) from error


def fetch_clusters(caller: Caller) -> list[EcsCluster]:
    """Return the clusters visible to a caller, by name. Raises `AwsError`."""
    arns = EcsClient(caller).list_clusters()
    return sorted((EcsCluster(arn.rsplit("/", 1)[-1], arn) for arn in arns), key=lambda cluster: cluster.name)


AWS_SESSIONS, WEB_IDENTITIES = "aws-sessions", "web-identity"


def list_required_features(connector: Connector | None) -> list[str]:
    """Return the features of `delegates.agent.FEATURES` that a connector needs of a delegate."""
    if connector is None or connector.kind != Connector.Kind.AWS:
        return []
    spec = parse_aws_spec(connector.spec)
    sessions = [AWS_SESSIONS] if any(spec.session_texts.values()) else []
    return [*sessions, WEB_IDENTITIES] if spec.credentials == WEB_IDENTITY else sessions


_TOO_OLD = "Its release does not know all of what the connector needs: upgrade it."
_CREDENTIALS_NOT_LENT = "This installation does not allow the use of its own credentials."


def require_lendable_credentials(task: DelegateTask, connector: Connector) -> None:
    """Release the task to another delegate if the built-in one has no permitted credentials for it.

    Raises `NotSent`; the built-in delegate is blocked for such tasks for five minutes. Raises it too if the
    connector needs another release of the delegate since the task was assigned.
    """
    delegate = task.instance.delegate if task.instance else None
    if task.instance is not None and not task.instance.has_features(list_required_features(connector)):
        block_delegate(task.instance.delegate, task.criterion, _TOO_OLD)
        raise NotSent("TooOld", _TOO_OLD)
    if delegate is None or not delegate.is_built_in or connector.kind != Connector.Kind.AWS:
        return
    if parse_aws_spec(connector.spec).needs_secret or settings.ALLOW_MANAGER_CREDENTIALS:
        return
    block_delegate(delegate, task.criterion, _CREDENTIALS_NOT_LENT)
    raise NotSent("NotLent", _CREDENTIALS_NOT_LENT)
