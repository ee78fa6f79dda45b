"""Rate limits of sign-in attempts per account and per address."""

import hashlib
from dataclasses import dataclass

from guards import limits
from rbac.usage_counts import counts


@dataclass(frozen=True)
class AttemptLimit:
    """So many failures in so many seconds, counted by this."""

    by: str
    failures: int
    seconds: int

    def key(self, subject: str) -> str:
        # What people type may be long or hold characters that a cache refuses.
        digest = hashlib.sha256(subject.strip().lower().encode("utf-8", "surrogatepass")).hexdigest()
        return f"sign-in:{self.by}:{self.seconds}:{digest}"


# The third one is the lockout: patient guessing costs a quarter of an hour.
SIGN_IN_LIMITS = (
    AttemptLimit("account", failures=limits.SIGN_INS_PER_ACCOUNT, seconds=60),
    AttemptLimit("address", failures=limits.SIGN_INS_PER_ADDRESS, seconds=60),
    AttemptLimit("account", failures=limits.SIGN_INS_PER_QUARTER_HOUR, seconds=15 * 60),
)


def count_attempt(*, account: str, address: str) -> bool:
    """Count this try before it is made, and say whether it may be made.

    Counting first leaves no gap for tries sent side by side; `forgive` takes a successful one back.
    """
    within = [_increment(limit, account, address) <= limit.failures for limit in SIGN_IN_LIMITS]
    return all(within)


def reset_attempts(*, account: str, address: str) -> None:
    """Take back what `admit` counted, for the sign-in worked; the account starts afresh."""
    for limit in SIGN_IN_LIMITS:
        key = limit.key(_get_subject(limit, account, address))
        if limit.by == "account":
            counts.reset(key)
        else:
            counts.decrement(key)


def _increment(limit: AttemptLimit, account: str, address: str) -> int:
    return counts.increment(limit.key(_get_subject(limit, account, address)), seconds=limit.seconds)


def _get_subject(limit: AttemptLimit, account: str, address: str) -> str:
    return account if limit.by == "account" else address


def is_within_limit(what: str, subject: str, *, at_most: int, seconds: int = 60) -> bool:
    """Count one more of `what` for `subject`, and say whether it is still one of few."""
    return counts.increment(AttemptLimit(what, at_most, seconds).key(subject), seconds=seconds) <= at_most
