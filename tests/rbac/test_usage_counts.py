"""Counters of each process while the cache is away: none is forgotten because of many others."""

from typing import Never

import pytest
import redis

from guards.limits import SIGN_INS_PER_ACCOUNT, SIGN_INS_PER_ADDRESS
from rbac import usage_counts
from rbac.usage_counts import UsageCounts, count_attempt


class CacheAway:
    """A cache whose server does not answer."""

    def __getattr__(self, name: str) -> Never:
        raise redis.ConnectionError


@pytest.fixture(autouse=True)
def own_counts(monkeypatch: pytest.MonkeyPatch) -> UsageCounts:
    """Return the counters of this process, which count alone."""
    counts = UsageCounts()
    counts._own.clear()
    monkeypatch.setattr(usage_counts, "counts", counts)
    monkeypatch.setattr(usage_counts, "cache", CacheAway())
    return counts


def fail(account: str, address: str, times: int) -> bool:
    return [count_attempt(account=account, address=address) for _ in range(times)][-1]


def test_a_thousand_other_names_forget_no_failure_of_an_account() -> None:
    assert not fail("anna", "192.0.2.1", SIGN_INS_PER_ACCOUNT + 1)
    for number in range(1000):
        fail(f"nobody{number}", f"198.51.100.{number % 200}", 1)
    assert not fail("anna", "192.0.2.99", 1)


def test_a_refused_address_counts_for_no_account(own_counts: UsageCounts) -> None:
    for number in range(SIGN_INS_PER_ADDRESS):
        assert fail(f"nobody{number}", "192.0.2.1", 1)
    assert not fail("anna", "192.0.2.1", SIGN_INS_PER_ACCOUNT)
    assert fail("anna", "192.0.2.2", SIGN_INS_PER_ACCOUNT)


def test_the_lockout_counts_on_while_an_account_is_refused() -> None:
    lockout = usage_counts.SIGN_IN_LIMITS[2]
    fail("anna", "192.0.2.1", SIGN_INS_PER_ACCOUNT + 2)
    assert usage_counts.counts.get(lockout.key("anna")) == SIGN_INS_PER_ACCOUNT + 2


def test_nothing_is_counted_again_while_a_request_is_repeated() -> None:
    with usage_counts.without_counting():
        assert fail("anna", "192.0.2.1", SIGN_INS_PER_ACCOUNT * 2)
    assert fail("anna", "192.0.2.1", SIGN_INS_PER_ACCOUNT)
