"""Goes on with a chain, one call after another: from this process, or asked of a delegate."""

import logging
import time
from collections.abc import Callable
from typing import Final

from aws.caller import Caller
from aws.errors import AwsError
from connectors.models import Connector
from delegates.doors import DelegateDoor, DoorClosed
from deployments.engine import quota
from deployments.engine.recent_reads import publish_targets
from deployments.engine.turns import NoToken
from inventory.sync.chains.chain import Chain, TakenOver
from inventory.sync.chains.paging import NoSense
from inventory.sync.pausing import Failure
from inventory.sync.reading import Question
from web.clock import database_now

logger = logging.getLogger(__name__)

# A worker turns to something else in between.
SLICE_SECONDS: Final = 20.0
OpenDoor = Callable[[Connector, str], Caller | DelegateDoor]


def go_on(kind: type[Chain], pk: int, open_way: OpenDoor) -> None:
    """Go on for a while from here; through a delegate the next call is only asked for."""
    chain = kind.claim(pk)
    if chain is None:
        return
    try:
        if _is_read(chain, open_way):
            chain.close()
    except TakenOver:
        logger.info("Another worker has taken over the %s of %s", kind.OWNER, chain.cluster)


def _is_read(chain: Chain, open_way: OpenDoor) -> bool:
    """Whether all is read that this chain wanted; what keeps it from that is noted."""
    try:
        return _slice(chain, open_way)
    except NoToken as wait:
        chain.pause(wait.until)
    except DoorClosed as closed:
        chain.shut(closed)
    except NoSense as error:
        chain.fail(Failure(str(error)))
    return False


def _slice(chain: Chain, open_way: OpenDoor) -> bool:
    if chain.reading.is_over:
        return True
    until = time.monotonic() + SLICE_SECONDS
    door = open_way(chain.cluster.connector, chain.cluster.region)
    while not chain.reading.is_over:
        chain.use_recent_reads()
        if chain.reading.is_over:
            break
        question = chain.question()
        holder, now = f"{chain.OWNER}:{chain.row.pk}", database_now()
        quota.go_or_park(chain.quota, question.service, question.operation, holder=holder, now=now)
        if isinstance(door, DelegateDoor):
            chain.ask(door, question)
            return False
        if not _asked_here(chain, door, question):
            return False
        if time.monotonic() > until and not chain.reading.is_over:
            chain.pause(database_now())
            return False
    return True


def _asked_here(chain: Chain, door: Caller, question: Question) -> bool:
    """Make one call; whether the chain goes on."""
    begun = database_now()
    try:
        answer = door.call(question.service, question.operation, question.params)
    except AwsError as error:
        return chain.refuse(error)
    if question.operation == "DescribeScalableTargets":
        place = chain.cluster
        publish_targets(place.connector, place.region, question.params, answer, begun=begun)
    chain.take(question, answer)
    return True
