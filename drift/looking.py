"""The look for drift in one cluster, one call after another: from this process, or asked of a delegate."""

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
from drift.delegated import ask, ended_in_failure
from drift.progress import Look, TakenOver, claim

logger = logging.getLogger(__name__)

# A worker turns to something else in between.
SLICE_SECONDS: Final = 20.0
OpenDoor = Callable[[Connector, str], Caller | DelegateDoor]


def go_on(pk: int, open_way: OpenDoor = open_door) -> None:
    """Look at a cluster for a while, from here; through a delegate its next call is only asked for."""
    look = claim(pk)
    if look is None:
        return
    try:
        _slice(look, open_way)
    except TakenOver:
        logger.info("Another worker has taken over the look for drift in %s", look.compared)


def _slice(look: Look, open_way: OpenDoor) -> None:
    until = time.monotonic() + SLICE_SECONDS
    try:
        while not look.reading.is_over:
            door = open_way(look.compared.cluster.connector, look.compared.cluster.region)
            question = look.question()
            quota.go_or_park(
                look.quota,
                question.service,
                question.operation,
                holder=f"drift:{look.compared.pk}",
                now=database_now(),
            )
            if isinstance(door, DelegateDoor):
                ask(look, door, question)
                return
            if not _asked_here(look, door):
                return
            if time.monotonic() > until and not look.reading.is_over:
                look.pause(database_now())
                return
        look.close()
    except NoToken as wait:
        look.pause(wait.until)
    except DoorClosed as closed:
        look.fail(str(closed))


def _asked_here(look: Look, door: Caller) -> bool:
    """Make one call; whether there is anything to go on with."""
    question = look.question()
    try:
        look.take(door.call(question.service, question.operation, question.params))
    except AwsError as error:
        look.refuse(error)
        return not ended_in_failure(look)
    return True
