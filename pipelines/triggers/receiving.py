"""Requests to the addresses of triggers: authenticated, parsed and written, before they are answered."""

from dataclasses import dataclass
from functools import cache
from typing import Final
from uuid import UUID

from django.conf import settings
from django.urls import reverse

from guards.limits import (
    TRIGGER_BODY_BYTES,
    TRIGGER_REFUSALS_PER_ADDRESS,
    TRIGGER_REQUESTS_PER_MINUTE,
)
from guards.metrics import TRIGGER_REQUESTS
from pipelines.models import Trigger, TriggerFiring
from pipelines.tasks import request_firings
from pipelines.triggers.base import HookRequest, RequestRefused, TriggerKind
from pipelines.triggers.events import parse_payload, record_event
from pipelines.triggers.registry import find_kind, list_kinds
from pipelines.triggers.watches import wake_watch
from rbac.policy import NotVisible
from rbac.usage_counts import counts, is_within_limit
from web.http.problems import Problem, TooLarge, TooManyRequests

# Compared for addresses that do not exist, in the time that it takes for others.
NO_SECRET: Final = "0" * 43
REFUSALS_SHOWN_SECONDS: Final = 3600


class SignatureRefused(Problem):
    """Error for a request whose signature, token or time is wrong; it does not say which."""

    status = 401
    code = "not_authenticated"


@dataclass(frozen=True)
class Receipt:
    """Answer to a genuine request: the firings of its events, and how many of them were there before."""

    firings: tuple[TriggerFiring, ...] = ()
    duplicates: int = 0


def receive_request(key: UUID, address: str, request: HookRequest) -> Receipt:
    """Write the events of a request from a network address.

    A refused request leaves only counters. Raises `NotVisible`, `SignatureRefused`, `TooManyRequests`,
    `TooLarge` and `BadInput`.
    """
    require_acceptable(address, request)
    trigger = _find_trigger(key)
    kind = find_kind(trigger.kind) if trigger else None
    try:
        _authenticate(trigger, kind, request)
    except RequestRefused:
        count_refusal(address)
        if trigger is None or kind is None:
            TRIGGER_REQUESTS.labels("unknown").inc()
            raise NotVisible("This trigger does not exist.") from None
        TRIGGER_REQUESTS.labels("refused").inc()
        counts.increment(_get_shown_key(trigger), seconds=REFUSALS_SHOWN_SECONDS)
        raise SignatureRefused("The request was refused.") from None
    if trigger is None or kind is None:
        raise NotVisible("This trigger does not exist.")
    if not is_within_limit("trigger", str(trigger.pk), at_most=TRIGGER_REQUESTS_PER_MINUTE):
        raise TooManyRequests(f"A trigger takes {TRIGGER_REQUESTS_PER_MINUTE} in a minute.")
    events = kind.read_events(trigger.spec, parse_payload(request.body), request.headers)
    TRIGGER_REQUESTS.labels("accepted").inc()
    recorded = [
        record_event(trigger, event)
        for event in events
        if not wake_watch(trigger, kind.find_watched_subject(trigger.spec, event))
    ]
    receipt = Receipt(tuple(firing for firing, _ in recorded), sum(not is_new for _, is_new in recorded))
    # The row is committed: without a broker, the next tick finds it.
    request_firings()
    return receipt


def require_acceptable(address: str, request: HookRequest) -> None:
    """Check size and sender before anything is read.

    Raises `TooLarge`, and `TooManyRequests` for a network address with many refused requests.
    """
    if counts.get(_get_refusal_key(address)) > TRIGGER_REFUSALS_PER_ADDRESS:
        raise TooManyRequests("Too many refused requests. Wait a minute.")
    if len(request.body) > TRIGGER_BODY_BYTES:
        raise TooLarge(f"A payload must be at most {TRIGGER_BODY_BYTES}.")


def count_refusal(address: str) -> None:
    """Count a refused request of a network address."""
    counts.increment(_get_refusal_key(address), seconds=60)


def build_address(trigger: Trigger) -> str:
    """Return the public address of a trigger, "" if its kind has none."""
    kind = find_kind(trigger.kind)
    if kind is None or not kind.has_address:
        return ""
    return f"{settings.PUBLIC_URL}{reverse('trigger-hook', args=[trigger.key])}"


def count_refusals(trigger: Trigger) -> int:
    """Return how many requests of the last hour had a wrong signature."""
    return counts.get(_get_shown_key(trigger))


def _find_trigger(key: UUID) -> Trigger | None:
    rows = Trigger.objects.filter(key=key, pipeline__deleted_at=None)
    return rows.select_related("pipeline__scope").first()


def _authenticate(trigger: Trigger | None, kind: TriggerKind | None, request: HookRequest) -> None:
    """Check the secret of a trigger. Raises `RequestRefused`, for a missing one after the same work."""
    if trigger is None or kind is None or not kind.has_address or not trigger.secret:
        _get_any_kind().authenticate({}, NO_SECRET, request)
        raise RequestRefused
    kind.authenticate(trigger.spec, trigger.secret, request)


@cache
def _get_any_kind() -> TriggerKind:
    return next(kind for kind in list_kinds().values() if kind.has_address)


def _get_refusal_key(address: str) -> str:
    return f"trigger-refused-from:{address}"


def _get_shown_key(trigger: Trigger) -> str:
    return f"trigger-refused:{trigger.pk}"
