"""How long calls to one account and region wait after AWS throttled one, shared by all workers."""

from datetime import datetime

from django.core.cache import cache

from aws.errors import AwsError, Throttled
from deployments.engine.turns import Trouble
from deployments.models import Call

LONGEST = 30
FORGET_AFTER = 120


def note(quota: str, error: AwsError, now: datetime) -> None:
    """AWS has throttled a call: everybody who shares this quota waits, twice as long each time."""
    if not isinstance(error, Throttled):
        return
    times = int(cache.get(f"throttled:{quota}:times") or 0) + 1
    cache.set(f"throttled:{quota}:times", times, timeout=FORGET_AFTER)
    wait = min(2 ** (times - 1), LONGEST)
    cache.set(f"throttled:{quota}", now.timestamp() + wait, timeout=wait)


def wait_for(quota: str, call: Call, now: datetime) -> None:
    """Raise `Trouble` while the quota rests."""
    until = cache.get(f"throttled:{quota}")
    if until is not None and until > now.timestamp():
        raise Trouble(Throttled("Resting", "AWS asked for fewer calls", call.service, call.operation))
