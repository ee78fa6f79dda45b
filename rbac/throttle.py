"""Slows down guessing of passwords: failed sign-ins are counted per account and per address."""

import hashlib
from dataclasses import dataclass

from guards import limits
from rbac.counting import counts


@dataclass(frozen=True)
class Limit:
    """So many failures in so many seconds, counted by this."""

    by: str
    failures: int
    seconds: int

    def key(self, subject: str) -> str:
        # What people type may be long or hold characters that a cache refuses.
        digest = hashlib.sha256(subject.strip().lower().encode("utf-8", "surrogatepass")).hexdigest()
        return f"sign-in:{self.by}:{self.seconds}:{digest}"


# The third one is the lockout: patient guessing costs a quarter of an hour.
LIMITS = (
    Limit("account", failures=limits.SIGN_INS_PER_ACCOUNT, seconds=60),
    Limit("address", failures=limits.SIGN_INS_PER_ADDRESS, seconds=60),
    Limit("account", failures=limits.SIGN_INS_PATIENT, seconds=15 * 60),
)


def admit(*, account: str, address: str) -> bool:
    """Count this try before it is made, and say whether it may be made.

    Counting first leaves no gap for tries sent side by side; `forgive` takes a successful one back.
    """
    within = [_count(limit, account, address) <= limit.failures for limit in LIMITS]
    return all(within)


def forgive(*, account: str, address: str) -> None:
    """Take back what `admit` counted, for the sign-in worked; the account starts afresh."""
    for limit in LIMITS:
        key = limit.key(_subject(limit, account, address))
        if limit.by == "account":
            counts.forget(key)
        else:
            counts.take_back(key)


def _count(limit: Limit, account: str, address: str) -> int:
    return counts.add(limit.key(_subject(limit, account, address)), seconds=limit.seconds)


def _subject(limit: Limit, account: str, address: str) -> str:
    return account if limit.by == "account" else address


def few(what: str, subject: str, *, at_most: int, seconds: int = 60) -> bool:
    """Count one more of `what` for `subject`, and say whether it is still one of few."""
    return counts.add(Limit(what, at_most, seconds).key(subject), seconds=seconds) <= at_most
