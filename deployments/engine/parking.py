"""Parked executions: they wait for an ECS service to change and are looked at together (rule 5)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any, Protocol

from django.db.models import Case, Value, When

from connectors.models import Connector
from delegates.doors import door_key

# Whatever was not thought of is found by a whole look now and then.
LOOK_ANYWAY = timedelta(minutes=15)


@dataclass(frozen=True)
class Parking:
    """The ECS service that an execution waits for since then, and how it looked when last judged.

    An empty `sight` wants to be judged at the next turn, however the service looks; so does everything at
    `judge_by`.
    """

    awaits: str
    awaits_since: datetime
    sight: str
    judge_by: datetime
    quota: str
    group: str


class Located(Protocol):
    """A cluster as one connector reaches it."""

    region: str
    cluster: str
    connector: Connector


class Calling(Protocol):
    """Who makes calls in a region, in an account that may not be known yet."""

    account: str
    region: str
    connector: Connector


def quota_of(place: Calling, region: str = "") -> str:
    """Whose calls are counted together: an account and region; a connector while its account is unknown.

    `region` is where the calls go that do not go to the region of the place.
    """
    return f"{place.account or door_key(place.connector)}/{region or place.region}"


def group_of(place: Located) -> str:
    """Whose looks may share calls: one door, region and cluster."""
    return "|".join((door_key(place.connector), place.region, place.cluster))[:512]


def sight_of(service: Mapping[str, Any] | None) -> str:
    """One word for how an ECS service looks: another word if anything has changed that a look would judge."""
    if service is None:
        return "none"
    events = service.get("events") or [{}]
    looks = {**service, "events": events[0].get("id", "")}
    return blake2b(json.dumps(looks, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()


def columns(parking: Parking | None, *, unless_woken: datetime) -> dict[str, Any]:
    """What the end of a look writes. Who was woken meanwhile is not parked: the next look comes at once."""
    if parking is None:
        return {"awaits": "", "awaits_since": None, "sight": "", "judge_by": None, "quota": ""}
    awaits = Case(When(look_at__lt=unless_woken, then=Value("")), default=Value(parking.awaits))
    return {
        "awaits": awaits,
        "awaits_since": parking.awaits_since,
        "sight": parking.sight,
        "judge_by": parking.judge_by,
        "quota": parking.quota,
        "group": parking.group,
    }
