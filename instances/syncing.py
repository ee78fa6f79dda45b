"""The sync of one cluster, one call after another: from this process, or asked of a delegate."""

import logging
import time
from collections.abc import Callable
from typing import Final

from aws.caller import Caller
from aws.errors import AwsError
from connectors.models import Connector
from delegates.clock import database_now
from delegates.doors import DelegateDoor, DoorClosed, open_door
from deployments.engine import quota
from deployments.engine.turns import NoToken
from instances.delegated import ask
from instances.pausing import Failure
from instances.progress import Sync, TakenOver, claim, refuse, shut
from instances.reading import NoSense, Question

logger = logging.getLogger(__name__)

# A worker turns to something else in between.
SLICE_SECONDS: Final = 20.0
OpenDoor = Callable[[Connector, str], Caller | DelegateDoor]


def go_on(pk: int, open_way: OpenDoor = open_door) -> None:
    """Sync a cluster for a while, from here; through a delegate its next call is only asked for."""
    sync = claim(pk)
    if sync is None:
        return
    try:
        _slice(sync, open_way)
    except TakenOver:
        logger.info("Another worker has taken over the sync of %s", sync.cluster)


def _slice(sync: Sync, open_way: OpenDoor) -> None:
    until = time.monotonic() + SLICE_SECONDS
    try:
        door = open_way(sync.cluster.connector, sync.cluster.region)
        while not sync.reading.is_over:
            question = sync.question()
            holder, now = f"sync:{sync.cluster.pk}", database_now()
            quota.go_or_park(sync.quota, question.service, question.operation, holder=holder, now=now)
            if isinstance(door, DelegateDoor):
                ask(sync, door, question)
                return
            _ask_here(sync, door, question)
            if time.monotonic() > until:
                sync.pause(database_now())
                return
    except NoToken as wait:
        sync.pause(wait.until)
    except DoorClosed as closed:
        shut(sync, closed)
    except NoSense as error:
        sync.fail(Failure(str(error)))
    except AwsError as error:
        refuse(sync, error)


def _ask_here(sync: Sync, door: Caller, question: Question) -> None:
    try:
        answer = door.call(question.service, question.operation, question.params)
    except AwsError as error:
        if not sync.skips(error):
            raise
        sync.skip(error)
        return
    sync.take(question, answer)
