"""Messages of SQS queues, received and deleted through connectors."""

from collections.abc import Mapping, Sequence
from typing import Any

from aws.apis.sqs import get_queue_region
from aws.errors import AwsError
from connectors.models import Connector
from connectors.required_access import get_connector_requirements, require_access
from connectors.specs.aws import parse_aws_spec
from delegates.access.aws_access import ConnectorUnavailable, get_local_caller
from delegates.access.lookup_requests import create_lookup_request
from delegates.access.queue_calls import call_queue
from delegates.access.remedies import describe_with_remedy
from delegates.models import LookupRequest
from rbac.models import User


def exchange_messages(
    *, actor: User, connector: Connector, queue_url: str, receipts: Sequence[str]
) -> Mapping[str, Any] | LookupRequest:
    """Delete handled messages, and return the next ones as {"messages": [{"id", "receipt", "body"}]}.

    Returns the lookup request while a delegate does it. Raises `ConnectorUnavailable` after a refusal.
    """
    require_access(actor, get_connector_requirements(connector))
    spec = parse_aws_spec(connector.spec)
    region = get_queue_region(queue_url) or spec.test_region
    if spec.is_remote:
        return create_lookup_request(
            actor=actor,
            connector=connector,
            kind=LookupRequest.Kind.QUEUE,
            region=region,
            subject=queue_url,
            params={"receipts": [*receipts]},
        )
    try:
        return call_queue(get_local_caller(connector, region), queue_url, receipts)
    except AwsError as error:
        raise ConnectorUnavailable(describe_with_remedy(connector, error, region)) from error
