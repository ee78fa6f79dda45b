"""Asking through a remote delegate on behalf of a person, without holding a worker or a request.

The questions are those that a connector of this Slipway answers at once: they are asked again from the start
with each answer that has come, until none is missing.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction

from aws.errors import AwsError
from connectors.aws_accounts import read_spec
from connectors.downstream import needs_of_connector, refuse_lacking
from connectors.models import Connector
from delegates.doors import Cluster, DoorClosed, call_here
from delegates.errands import FETCH_FILES, SERVICE, SiteDoor
from delegates.inquiring import InquiryCaller, door_of, go_on
from delegates.models import Inquiry
from delegates.pickers import Seen, checked_subject, seen
from rbac.models import User
from web.clock import database_now

# Who asks the same again so soon means the question that is under way, or its answer.
SAME_QUESTION = timedelta(seconds=30)
FORGOTTEN = timedelta(days=1)


@transaction.atomic
def ask(
    *,
    actor: User,
    connector: Connector,
    kind: str,
    region: str = "",
    subject: str = "",
    said: Mapping[str, Any] | None = None,
) -> Inquiry:
    """Ask through a delegate; the answer is in the inquiry once it is finished. Raises `DoorClosed`."""
    refuse_lacking(actor, needs_of_connector(connector))
    if connector.kind == Connector.Kind.AWS:
        region = region or read_spec(connector.spec).test_region
    door_of(connector, kind, region)
    now = database_now()
    _forget_old(connector, kind)
    begun = Inquiry.objects.create(
        connector=connector,
        kind=kind,
        region=region,
        subject=subject,
        said=dict(said or {}),
        asked_by=actor,
        asked_at=now,
    )
    go_on(begun)
    return begun


def ask_or_join(*, actor: User, connector: Connector, kind: str, region: str, subject: str = "") -> Inquiry:
    """The same person's question of a moment ago, or a new one."""
    refuse_lacking(actor, needs_of_connector(connector))
    found = asked_before(Question(actor, connector, kind, region, subject))
    return found or ask(actor=actor, connector=connector, kind=kind, region=region, subject=subject)


@dataclass(frozen=True)
class Question:
    """What somebody asks a connector."""

    actor: User
    connector: Connector
    kind: str
    region: str
    subject: str


def asked_before(question: Question) -> Inquiry | None:
    """The same question of a moment ago by the same person, answered or not."""
    since = max(database_now() - SAME_QUESTION, question.connector.updated_at)
    same = Inquiry.objects.filter(
        connector=question.connector,
        kind=question.kind,
        region=question.region,
        subject=question.subject,
        asked_by=question.actor,
    )
    return same.filter(asked_at__gt=since).select_related("task").order_by("-asked_at").first()


def keep_answer(question: Question, report: Mapping[str, Any]) -> None:
    """This will keep what this Slipway found itself, for who asks the same again in a moment."""
    now = database_now()
    _forget_old(question.connector, question.kind)
    Inquiry.objects.create(
        connector=question.connector,
        kind=question.kind,
        region=question.region,
        subject=question.subject,
        asked_by=question.actor,
        asked_at=now,
        finished_at=now,
        report=dict(report),
    )


def _forget_old(connector: Connector, kind: str) -> None:
    """Nobody asks for what was seen long ago."""
    Inquiry.objects.filter(connector=connector, kind=kind, asked_at__lt=database_now() - FORGOTTEN).delete()


def clusters_by_delegate(*, actor: User, connector: Connector, region: str) -> list[Cluster] | Inquiry:
    """The clusters that a delegate sees, or the inquiry while it looks. Raises `DoorClosed`."""
    asked = ask_or_join(actor=actor, connector=connector, kind=Inquiry.Kind.CLUSTERS, region=region)
    if asked.report is None:
        return asked
    if "error" in asked.report:
        raise DoorClosed(asked.report["error"])
    return [Cluster(**one) for one in asked.report["clusters"]]


def files_by_delegate(
    *, actor: User, connector: Connector, asked: Mapping[str, Any]
) -> dict[str, Any] | Inquiry:
    """The files that `FetchFiles` is asked for, or the inquiry while a delegate fetches them.

    Raises the error of whoever refused, or `DoorClosed`.
    """
    refuse_lacking(actor, needs_of_connector(connector))
    subject = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
    region = str(asked.get("region") or "")
    same = asked_before(Question(actor, connector, Inquiry.Kind.FILES, region, subject))
    found = same or ask(
        actor=actor,
        connector=connector,
        kind=Inquiry.Kind.FILES,
        region=region,
        subject=subject,
        said=asked,
    )
    if found.report is None:
        return found
    if "error" in found.report:
        raise DoorClosed(found.report["error"])
    return InquiryCaller(found, SiteDoor(connector)).call(SERVICE, FETCH_FILES, asked)


def seen_by_connector(
    *, actor: User, connector: Connector, kind: str, region: str, subject: str = ""
) -> Seen | Inquiry:
    """What a connector sees now, or the inquiry while a delegate looks.

    Raises `DoorClosed` with AWS's reason if it refuses, `BadInput` for a subject that is no ARN of its kind.
    """
    refuse_lacking(actor, needs_of_connector(connector))
    subject = checked_subject(kind, subject)
    if not read_spec(connector.spec).is_remote:
        try:
            return seen(kind, call_here(connector, region), subject)
        except AwsError as error:
            raise DoorClosed(error.sentence) from error
    asked = ask_or_join(actor=actor, connector=connector, kind=kind, region=region, subject=subject)
    if asked.report is None:
        return asked
    if "error" in asked.report:
        raise DoorClosed(asked.report["error"])
    return list(asked.report["seen"])
