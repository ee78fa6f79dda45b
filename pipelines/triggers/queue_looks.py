"""Looks at SQS queues to which EventBridge sends the pushes to Amazon ECR."""

import hashlib
from collections.abc import Mapping
from typing import Final

from connectors.models import Connector
from connectors.queries import find_connector
from delegates.access.aws_access import ConnectorUnavailable
from delegates.access.queues import exchange_messages
from delegates.models import LookupRequest
from guards.limits import QUEUE_MESSAGE_CHARACTERS
from pipelines.models import TriggerWatch
from pipelines.triggers.base import TriggerEvent
from pipelines.triggers.events import parse_payload
from pipelines.triggers.kinds.image import CONNECTOR, ImagePush
from pipelines.triggers.watches import Look
from rbac.models import User
from web.http.problems import BadInput

# In a state: the messages whose firings are stored, for the next exchange to delete.
RECEIPTS: Final = "receipts"
_SHOWN_CHARACTERS: Final = 2_000


def look_at_queue(watch: TriggerWatch, actor: User) -> Look:
    """Return the events of the next messages, with the rights of a user. Raises `ConnectorUnavailable`.

    A message is deleted after the commit of its firing. One that comes again has the same key.
    """
    reference = str(watch.settings[CONNECTOR])
    connector = find_connector(watch.scope, reference, Connector.Kind.AWS)
    if connector is None:
        raise ConnectorUnavailable(f"There is no connector {reference} to AWS for {watch.scope}.")
    report = (
        watch.lookup.report
        if watch.lookup
        else exchange_messages(
            actor=actor,
            connector=connector,
            queue_url=watch.subject,
            receipts=watch.state.get(RECEIPTS, []),
        )
    )
    if isinstance(report, LookupRequest) or report is None:
        return Look(watch.state, lookup=report or watch.lookup)
    if "error" in report:
        raise ConnectorUnavailable(str(report["error"]))
    events: list[TriggerEvent] = []
    refused: list[tuple[TriggerEvent, str]] = []
    for message in report["messages"]:
        try:
            events += _read_message(message["body"])
        except BadInput as problem:
            refused.append((_build_refused_event(message), problem.detail))
    receipts = [message["receipt"] for message in report["messages"]]
    return Look({RECEIPTS: receipts}, tuple(events), tuple(refused), continues=bool(receipts))


def _read_message(body: str) -> list[TriggerEvent]:
    if len(body) > QUEUE_MESSAGE_CHARACTERS:
        raise BadInput(f"A message must have at most {QUEUE_MESSAGE_CHARACTERS}.")
    payload = parse_payload(body.encode())
    if payload.get("source") != "aws.ecr":
        raise BadInput("The message is no event of Amazon ECR (source aws.ecr).")
    return ImagePush().read_events({}, payload, {})


def _build_refused_event(message: Mapping[str, str]) -> TriggerEvent:
    key = f"queue:{hashlib.sha256(message['id'].encode()).hexdigest()}"
    payload = {"message": message["body"][:_SHOWN_CHARACTERS]}
    return TriggerEvent(key, key, "message of the queue", {}, payload)
