"""Runner of cluster scans: it makes calls from this process or queues them for a delegate."""

import logging
import time
from collections.abc import Callable
from typing import Final

from aws.caller import Caller
from aws.errors import AwsError
from connectors.models import Connector
from delegates.access.aws_access import ConnectorUnavailable, DelegateAwsAccess
from deployments.journal import rate_limits
from deployments.journal.engine_signals import RateLimited
from deployments.journal.recent_reads import publish_targets
from inventory.sync.cursor import ReadCall
from inventory.sync.pauses import ScanFailure
from inventory.sync.scans.cluster_scan import ClusterScan, ScanLeaseLost
from inventory.sync.scans.pagination import InvalidAwsResponse
from web.clock import get_database_time

logger = logging.getLogger(__name__)

# A worker turns to something else in between.
TIME_SLICE_SECONDS: Final = 20.0
OpenConnector = Callable[[Connector, str], Caller | DelegateAwsAccess]


def run_scan(kind: type[ClusterScan], pk: int, open_way: OpenConnector) -> None:
    """Go on for a while from here; through a delegate the next call is only asked for."""
    chain = kind.claim(pk)
    if chain is None:
        return
    try:
        if _run_until_read(chain, open_way):
            chain.finish()
    except ScanLeaseLost:
        logger.info("Another worker has taken over the %s of %s", kind.OWNER, chain.cluster)


def _run_until_read(chain: ClusterScan, open_way: OpenConnector) -> bool:
    """Whether all is read that this chain wanted; what keeps it from that is noted."""
    try:
        return _run_time_slice(chain, open_way)
    except RateLimited as wait:
        chain.pause(wait.until)
    except ConnectorUnavailable as closed:
        chain.handle_unavailable_connector(closed)
    except InvalidAwsResponse as error:
        chain.fail(ScanFailure(str(error)))
    return False


def _run_time_slice(chain: ClusterScan, open_way: OpenConnector) -> bool:
    if chain.cursor.is_over:
        return True
    until = time.monotonic() + TIME_SLICE_SECONDS
    door = open_way(chain.cluster.connector, chain.cluster.region)
    while not chain.cursor.is_over:
        chain.use_recent_reads()
        if chain.cursor.is_over:
            break
        question = chain.build_call()
        holder, now = f"{chain.OWNER}:{chain.row.pk}", get_database_time()
        rate_limits.take_token(chain.quota, question.service, question.operation, holder=holder, now=now)
        if isinstance(door, DelegateAwsAccess):
            chain.queue_call(door, question)
            return False
        if not _make_call(chain, door, question):
            return False
        if time.monotonic() > until and not chain.cursor.is_over:
            chain.pause(get_database_time())
            return False
    return True


def _make_call(chain: ClusterScan, door: Caller, question: ReadCall) -> bool:
    """Make one call; whether the chain goes on."""
    begun = get_database_time()
    try:
        answer = door.call(question.service, question.operation, question.params)
    except AwsError as error:
        return chain.handle_error(error)
    if question.operation == "DescribeScalableTargets":
        place = chain.cluster
        publish_targets(place.connector, place.region, question.params, answer, begun=begun)
    chain.apply_response(question, answer)
    return True
