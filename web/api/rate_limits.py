"""Rate limit of the API per caller, in a sliding window."""

import math
import time
from dataclasses import dataclass

from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from rbac.models import ApiKey
from rbac.usage_counts import counts

WINDOW_SECONDS = 10
RATE_LIMIT_MESSAGE = (
    "Rate limit of {most} requests in {seconds} seconds exceeded. Wait, or request larger pages."
)
_DECISION_ATTRIBUTE = "rate_verdict"


@dataclass(frozen=True)
class RateLimitDecision:
    """Result of counting one request of a caller."""

    limit: int
    remaining: int
    wait_seconds: float

    @property
    def is_allowed(self) -> bool:
        return self.wait_seconds == 0

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of the IETF draft "RateLimit header fields for HTTP"."""
        return {
            "RateLimit-Policy": f'"api";q={self.limit};w={WINDOW_SECONDS}',
            "RateLimit": f'"api";r={self.remaining};t={math.ceil(self.wait_seconds) or WINDOW_SECONDS}',
        }


class ApiRateThrottle(BaseThrottle):
    """Rate limit per API key, so that programs of one user do not share a limit."""

    def allow_request(self, request: Request, view: APIView) -> bool:
        self.verdict = count_request(get_caller_key(request), most=get_window_limit(), now=time.time())
        setattr(request, _DECISION_ATTRIBUTE, self.verdict)
        return self.verdict.is_allowed

    def wait(self) -> float:
        return self.verdict.wait_seconds


def get_window_limit() -> int:
    """Return the number of requests that a caller may send in a window."""
    return max(1, int(settings.API_REQUESTS_PER_MINUTE) * WINDOW_SECONDS // 60)


def count_request(caller: str, *, most: int, now: float) -> RateLimitDecision:
    """Count a request of `caller` at `now` (seconds since the epoch), and return whether it is allowed.

    The window slides: the previous window counts in proportion, so that no boundary doubles the rate.
    """
    number, passed = int(now // WINDOW_SECONDS), now % WINDOW_SECONDS / WINDOW_SECONDS
    key = f"api:{caller}:{number}"
    before = counts.get(f"api:{caller}:{number - 1}")
    count = counts.increment(key, seconds=2 * WINDOW_SECONDS)
    used = count + before * (1 - passed)
    if used <= most:
        return RateLimitDecision(most, int(most - used), 0.0)
    # A refusal is not counted, otherwise persistent callers would wait forever.
    counts.decrement(key)
    return RateLimitDecision(most, 0, _compute_wait(before, count - 1, passed, most))


def add_rate_limit_headers(request: Request, response: Response) -> None:
    """Add the remaining quota to a response."""
    verdict: RateLimitDecision | None = getattr(request, _DECISION_ATTRIBUTE, None)
    if verdict is not None:
        for name, value in verdict.headers.items():
            response[name] = value


def get_caller_key(request: Request) -> str:
    """Return the API key or the user of a request, for limits and idempotency keys."""
    if isinstance(request.auth, ApiKey):
        return f"key:{request.auth.pk}"
    return f"user:{request.user.pk}"


def _compute_wait(before: int, count: int, passed: float, most: int) -> float:
    """Return the seconds until the next request is allowed."""
    if count + 1 <= most:
        share = 1 - (most - count - 1) / before
        return max((share - passed) * WINDOW_SECONDS, 0.01)
    return (1 - passed + 1 - (most - 1) / count) * WINDOW_SECONDS
