"""The share of AWS's quota that is used: counted by all workers together, with a line for who must wait."""

import random
from datetime import UTC, datetime, timedelta

import pytest
import redis
from pytest_django import Settings

from aws.errors import Denied, Throttled
from deployments.journal import rate_limits
from deployments.journal.engine_signals import AnswerPending
from deployments.journal.rate_limits import (
    SERVICE_READS,
    TOKEN_SCRIPT,
    LocalBuckets,
    RateLimitWait,
    TokenGrant,
    TokenRequest,
    build_script_arguments,
    find_rate_limit_wait,
    record_throttling,
    take_tokens,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HERE = "123456789012/eu-west-1"


@pytest.fixture(params=["valkey", "alone"])
def _set_buckets(request: pytest.FixtureRequest, settings: Settings) -> None:
    settings.AWS_QUOTA_SHARE = 0.25
    if request.param == "valkey":
        request.getfixturevalue("live_broker")


def get_wait(holder: str, after: float = 0.0, operation: str = "RegisterTaskDefinition") -> float:
    """Return the seconds that this holder must wait; 0 if the call may be made."""
    now = NOW + timedelta(seconds=after)
    try:
        rate_limits.take_token(HERE, "ecs", operation, holder=holder, now=now)
    except AnswerPending as parked:
        return (parked.until - now).total_seconds()
    return 0.0


@pytest.mark.usefixtures("_set_buckets")
def test_a_quarter_of_the_quota_is_used() -> None:
    assert take_tokens(HERE, SERVICE_READS, 1000, NOW) == 25
    assert take_tokens(HERE, SERVICE_READS, 1000, NOW) == 0
    assert take_tokens(HERE, SERVICE_READS, 1000, NOW + timedelta(seconds=1)) == 5


@pytest.mark.usefixtures("_set_buckets")
def test_another_region_and_another_bucket_are_counted_apart() -> None:
    take_tokens(HERE, SERVICE_READS, 25, NOW)
    assert take_tokens("123456789012/eu-west-2", SERVICE_READS, 25, NOW) == 25
    assert get_wait("a", operation="UpdateService") == 0


@pytest.mark.usefixtures("_set_buckets")
def test_who_gets_no_token_has_a_place_in_line_that_later_ones_do_not_take() -> None:
    for holder in "abcde":
        assert get_wait(holder) == 0
    assert get_wait("f") == pytest.approx(4)
    assert get_wait("g") == pytest.approx(8)
    assert get_wait("f", after=1) == pytest.approx(3)
    assert get_wait("h", after=4) == pytest.approx(8)
    assert get_wait("f", after=4.1) == 0
    assert get_wait("g", after=8.1) == 0


@pytest.mark.usefixtures("_set_buckets")
def test_nobody_is_parked_for_longer_than_half_a_minute_at_a_time() -> None:
    wait_seconds = [get_wait(f"holder {number}") for number in range(40)]
    assert max(wait_seconds) == 30


@pytest.mark.usefixtures("_set_buckets")
def test_a_throttled_call_lets_its_bucket_rest_twice_as_long_each_time() -> None:
    throttled_error = Throttled("ThrottlingException", "Rate exceeded", "ecs", "UpdateService")
    wait_seconds = []
    moment = NOW
    for _ in range(7):
        record_throttling(HERE, throttled_error, moment)
        record_throttling(HERE, throttled_error, moment)
        after = (moment - NOW).total_seconds()
        wait_seconds.append(get_wait("a", after=after, operation="UpdateService"))
        moment += timedelta(seconds=wait_seconds[-1])
    assert wait_seconds == pytest.approx([1, 2, 4, 8, 16, 30, 30])
    assert get_wait("a", operation="DescribeServices") == 0


@pytest.mark.usefixtures("_set_buckets")
def test_only_throttling_lets_a_bucket_rest() -> None:
    record_throttling(HERE, Denied("AccessDeniedException", "no", "ecs", "UpdateService"), NOW)
    assert get_wait("a", operation="UpdateService") == 0


@pytest.mark.usefixtures("_set_buckets")
def test_a_service_whose_quota_is_not_known_only_rests_when_throttled() -> None:
    assert all(get_wait("a", operation="GetCallerIdentity") == 0 for _ in range(500))


def test_valkey_and_a_process_alone_give_the_same_answers(live_broker: str) -> None:
    """The rule is written twice; any order of questions must not tell the two apart."""
    rng, local_buckets, now = random.Random(4), LocalBuckets(), NOW.timestamp()
    with redis.Redis.from_url(live_broker) as client:
        for _ in range(800):
            now += rng.choice((0, 0, 0.01, 0.3, 2, 40))
            reservation = rng.choice(("", "", "a", "b", "c"))
            token_request = TokenRequest(
                key=rng.choice(("k", "l")),
                burst=3,
                per_second=0.5,
                now=now,
                count=1 if reservation else rng.randrange(5),
                reservation=reservation,
                throttled=rng.random() < 0.05,
            )
            keys, values = build_script_arguments(token_request)
            granted_count, wait = client.eval(TOKEN_SCRIPT, len(keys), *keys, *values)
            expected = local_buckets.draw(token_request)
            assert TokenGrant(int(granted_count), pytest.approx(float(wait), abs=1e-3)) == expected, (
                token_request
            )


def test_without_valkey_a_process_counts_alone_and_says_so(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": "unix:///nowhere/valkey.sock",
        }
    }
    assert take_tokens(HERE, SERVICE_READS, 1000, NOW) == 25
    assert take_tokens(HERE, SERVICE_READS, 1000, NOW) == 0
    assert caplog.text.count("counts its calls to AWS alone") == 1


@pytest.mark.usefixtures("_set_buckets")
def test_what_a_holder_waits_for_is_known_to_all() -> None:
    take_tokens(HERE, SERVICE_READS, 25, NOW)
    ready = NOW + timedelta(seconds=get_wait("a", operation="DescribeServices"))

    wait = find_rate_limit_wait(HERE, holder="a", now=NOW)
    assert wait == RateLimitWait("service reads", ready, is_throttled=False)
    assert find_rate_limit_wait(HERE, holder="b", now=NOW) is None
    assert find_rate_limit_wait("123456789012/eu-west-2", holder="a", now=NOW) is None
    assert find_rate_limit_wait(HERE, holder="a", now=NOW + timedelta(minutes=1)) is None


@pytest.mark.usefixtures("_set_buckets")
def test_after_throttling_all_holders_wait() -> None:
    record_throttling(HERE, Throttled("Throttling", "Rate exceeded", "ecs", "UpdateService"), NOW)

    wait = find_rate_limit_wait(HERE, holder="b", now=NOW)
    assert wait == RateLimitWait("service changes", NOW + timedelta(seconds=1), is_throttled=True)
