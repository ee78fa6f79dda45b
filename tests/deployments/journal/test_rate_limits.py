"""AWS's quota: its use is learned and shared by all workers, with a queue for those who must wait."""

import heapq
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
    RateLimitWait,
    find_rate_limit_wait,
    record_success,
    record_throttling,
    reset_buckets,
    take_tokens,
)
from deployments.journal.token_buckets import (
    TOKEN_SCRIPT,
    CallReport,
    LocalBuckets,
    TokenGrant,
    TokenRequest,
    build_script_arguments,
)
from guards.metrics import AWS_RATES

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HERE = "123456789012/eu-west-1"
REGISTRATION = "RegisterTaskDefinition"


@pytest.fixture(params=["valkey", "alone"])
def _set_buckets(request: pytest.FixtureRequest, settings: Settings) -> None:
    settings.AWS_QUOTA_SHARE = 1.0
    if request.param == "valkey":
        request.getfixturevalue("live_broker")


def get_wait(holder: str, after: float = 0.0, operation: str = REGISTRATION, owner: str = "") -> float:
    """Return the seconds that this holder must wait; 0 if the call may be made."""
    now = NOW + timedelta(seconds=after)
    try:
        rate_limits.take_token(HERE, "ecs", operation, holder=holder, now=now, owner=owner)
    except AnswerPending as parked:
        return (parked.until - now).total_seconds()
    return 0.0


def succeed(seconds: int, operation: str = "DescribeServices") -> datetime:
    """Record a success each second, and return the time after them."""
    for second in range(seconds):
        record_success(HERE, "ecs", operation, NOW + timedelta(seconds=second))
    return NOW + timedelta(seconds=seconds)


def throttle(now: datetime, operation: str = "DescribeServices") -> None:
    record_throttling(HERE, Throttled("ThrottlingException", "Rate exceeded", "ecs", operation), now)


def count_in_a_second(now: datetime) -> int:
    """Return the tokens that an empty bucket of reads gets in a second."""
    take_tokens(HERE, SERVICE_READS, 1000, now)
    return take_tokens(HERE, SERVICE_READS, 1000, now + timedelta(seconds=1))


@pytest.mark.usefixtures("_set_buckets")
def test_calls_begin_at_half_of_the_rate_of_aws() -> None:
    # A quarter of the burst is for newcomers.
    assert take_tokens(HERE, SERVICE_READS, 1000, NOW) == 37
    assert take_tokens(HERE, SERVICE_READS, 1000, NOW) == 0
    assert count_in_a_second(NOW + timedelta(seconds=1)) == 10


@pytest.mark.usefixtures("_set_buckets")
def test_the_rate_grows_each_second_in_which_calls_succeed_up_to_that_of_aws() -> None:
    assert count_in_a_second(succeed(4)) == 14
    assert count_in_a_second(succeed(60)) == 20


@pytest.mark.usefixtures("_set_buckets")
def test_many_successes_in_a_second_grow_it_once() -> None:
    for number in range(100):
        record_success(HERE, "ecs", "DescribeServices", NOW + timedelta(milliseconds=number))
    assert count_in_a_second(NOW + timedelta(seconds=1)) == 11


@pytest.mark.usefixtures("_set_buckets")
def test_throttling_halves_the_rate_and_it_grows_more_slowly_from_then_on() -> None:
    throttled_at = succeed(60)
    throttle(throttled_at)
    throttle(throttled_at)
    assert count_in_a_second(throttled_at + timedelta(seconds=5)) == 10
    for second in range(10, 60):
        record_success(HERE, "ecs", "DescribeServices", throttled_at + timedelta(seconds=second))
    assert count_in_a_second(throttled_at + timedelta(seconds=60)) == 12


@pytest.mark.usefixtures("_set_buckets")
def test_a_bucket_that_is_always_throttled_keeps_a_tenth_of_its_rate() -> None:
    for minute in range(8):
        throttle(NOW + timedelta(minutes=minute))
    assert count_in_a_second(NOW + timedelta(minutes=20)) == 2


@pytest.mark.usefixtures("_set_buckets")
def test_the_setting_is_the_upper_bound(settings: Settings) -> None:
    settings.AWS_QUOTA_SHARE = 0.25
    assert count_in_a_second(succeed(60)) == 5


@pytest.mark.usefixtures("_set_buckets")
def test_another_region_and_another_bucket_are_counted_apart() -> None:
    take_tokens(HERE, SERVICE_READS, 37, NOW)
    assert take_tokens("123456789012/eu-west-2", SERVICE_READS, 25, NOW) == 25
    assert get_wait("a", operation="UpdateService") == 0


@pytest.mark.usefixtures("_set_buckets")
def test_who_gets_no_token_has_a_place_in_line_that_later_ones_do_not_take() -> None:
    for holder in range(7):
        assert get_wait(str(holder)) == 0
    # Half a token is left.
    assert get_wait("f") == pytest.approx(1)
    assert get_wait("g") == pytest.approx(3)
    assert get_wait("f", after=0.5) == pytest.approx(0.5)
    assert get_wait("h", after=1) == pytest.approx(4)
    assert get_wait("f", after=1.1) == 0
    assert get_wait("g", after=3.1) == 0


@pytest.mark.usefixtures("_set_buckets")
def test_checks_of_many_executions_are_not_left_out_by_reads_that_always_queue() -> None:
    take_tokens(HERE, SERVICE_READS, 37, NOW)
    for second in range(5):
        for holder in range(second, 60, 5):
            get_wait(f"sync {holder}", after=second, operation="DescribeServices")
    granted = 0
    for second in range(5, 45):
        for holder in range(second % 5, 60, 5):
            # Whoever is served asks for its next call at once.
            while not get_wait(f"sync {holder}", after=second, operation="DescribeServices"):
                pass
        now = NOW + timedelta(seconds=second)
        assert take_tokens(HERE, SERVICE_READS, 10, now) == 0
        granted += take_tokens(HERE, SERVICE_READS, 10, now, holder="dispatcher")
    assert granted > 3


@pytest.mark.usefixtures("_set_buckets")
def test_those_in_line_are_served_earlier_when_the_rate_grows() -> None:
    waits = [get_wait(f"holder {number}") for number in range(20)]
    assert waits[-1] == pytest.approx(25)
    succeed(25, REGISTRATION)
    assert get_wait("holder 19", after=18) == 0


@pytest.mark.usefixtures("_set_buckets")
def test_a_newcomer_overtakes_a_batch_whose_rate_stays_the_same() -> None:
    waits = [get_wait(f"execution {number}", owner="batch") for number in range(12)]
    assert waits[-1] == pytest.approx(9)
    assert get_wait("of a person", owner="person") == 0
    assert get_wait("execution 11", after=0.5) == pytest.approx(10.5)
    assert get_wait("second of the person", owner="person") > 10, "only the first one overtakes"


@pytest.mark.usefixtures("_set_buckets")
def test_many_newcomers_queue_like_all_others() -> None:
    for number in range(12):
        get_wait(f"execution {number}", owner="batch")
    waits = [get_wait(f"of {name}", owner=name) for name in "abcd"]
    assert [wait == 0 for wait in waits] == [True, True, False, False]


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


@pytest.mark.usefixtures("_set_buckets")
def test_calls_go_on_after_a_clock_was_ahead_for_a_moment() -> None:
    get_wait("ahead", 3600)
    granted = sum(get_wait("holder", second) == 0 for second in range(600))
    reset_buckets()
    assert granted >= sum(get_wait("holder", second) == 0 for second in range(600)) - 20


@pytest.mark.usefixtures("_set_buckets")
def test_a_pause_after_throttling_ends_after_a_clock_was_ahead_for_a_moment() -> None:
    throttle(NOW + timedelta(hours=1), REGISTRATION)
    assert any(get_wait("holder", second) == 0 for second in range(0, 120, 5))


def test_valkey_and_a_process_alone_give_the_same_answers(live_broker: str) -> None:
    """The rule is written twice; any order of questions must not tell the two apart."""
    rng, local_buckets, now = random.Random(4), LocalBuckets(), NOW.timestamp()
    levels = set()
    with redis.Redis.from_url(live_broker) as client:
        for _ in range(1500):
            now += rng.choice((0, 0, 0.01, 0.3, 2, 13, 40))
            reservation = rng.choice(("", "", "a", "b", "c"))
            key = rng.choice(("k", "l"))
            token_request = TokenRequest(
                key=key,
                burst=5,
                per_second=0 if rng.random() < 0.02 else 0.5,
                now=now,
                count=1 if reservation else rng.randrange(5),
                reservation=reservation and f"{key}:{reservation}",
                owner=rng.choice(("", "x", "y")) if reservation else "",
                report=rng.choices(tuple(CallReport), (0.7, 0.25, 0.05))[0],
            )
            keys, values = build_script_arguments(token_request)
            granted_count, wait, level = client.eval(TOKEN_SCRIPT, len(keys), *keys, *values)
            expected = local_buckets.draw(token_request)
            assert (
                TokenGrant(
                    int(granted_count),
                    pytest.approx(float(wait), abs=1e-3),
                    pytest.approx(float(level), abs=1e-6),
                )
                == expected
            ), token_request
            levels.add(round(expected.level, 3))
    assert len(levels) > 20, "the level moves"


def test_two_hundred_that_start_at_once_begin_as_fast_as_aws_admits_them() -> None:
    """AWS admits 20 registrations at once, then one a second; a waiting execution is half a second late."""
    buckets, tokens, filled_at, last = LocalBuckets(), 20.0, 1.0, 1.0
    waiting = [(1.0, number) for number in range(200)]
    while waiting:
        now, number = heapq.heappop(waiting)
        request = TokenRequest("k", 20, 1, now, count=1, reservation=str(number), owner="batch")
        grant = buckets.draw(request)
        if not grant.granted:
            heapq.heappush(waiting, (now + min(grant.wait, 30) + 0.5, number))
            continue
        tokens, filled_at, last = min(tokens + now - filled_at, 20) - 1, now, now
        assert tokens >= 0, "AWS would throttle this call"
        buckets.draw(TokenRequest("k", 20, 1, now, report=CallReport.SUCCEEDED))
    assert last < 200


@pytest.mark.usefixtures("live_broker")
def test_a_place_in_the_line_of_a_bucket_that_valkey_lost_is_given_anew(
    settings: Settings,
) -> None:
    settings.AWS_QUOTA_SHARE = 1.0
    waits = [get_wait(f"holder {number}") for number in range(20)]
    assert waits[-1] > 0
    with redis.Redis.from_url(settings.CACHES["default"]["LOCATION"]) as client:
        assert client.delete(f"quota:{HERE}:definition changes")

    assert get_wait("holder 19") == 0


def test_without_valkey_a_process_counts_alone_and_says_so(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": "unix:///nowhere/valkey.sock",
        }
    }
    assert take_tokens(HERE, SERVICE_READS, 1000, NOW) == 37
    assert take_tokens(HERE, SERVICE_READS, 1000, NOW) == 0
    assert caplog.text.count("counts its calls to AWS alone") == 1


@pytest.mark.usefixtures("_set_buckets")
def test_what_a_holder_waits_for_is_known_to_all() -> None:
    take_tokens(HERE, SERVICE_READS, 37, NOW)
    ready = NOW + timedelta(seconds=get_wait("a", operation="DescribeServices"))

    wait = find_rate_limit_wait(HERE, holder="a", now=NOW)
    assert wait == RateLimitWait("service reads", ready, is_throttled=False, per_second=10, quota=20)
    assert find_rate_limit_wait(HERE, holder="b", now=NOW) is None
    assert find_rate_limit_wait("123456789012/eu-west-2", holder="a", now=NOW) is None
    assert find_rate_limit_wait(HERE, holder="a", now=NOW + timedelta(minutes=1)) is None


@pytest.mark.usefixtures("_set_buckets")
def test_after_throttling_all_holders_wait() -> None:
    record_throttling(HERE, Throttled("Throttling", "Rate exceeded", "ecs", "UpdateService"), NOW)

    wait = find_rate_limit_wait(HERE, holder="b", now=NOW)
    until = NOW + timedelta(seconds=1)
    assert wait == RateLimitWait("service changes", until, is_throttled=True, per_second=1.25, quota=5)


@pytest.mark.usefixtures("_set_buckets")
def test_a_pause_of_calls_without_a_known_quota_is_known_too() -> None:
    record_throttling(HERE, Throttled("Throttling", "Rate exceeded", "elbv2", "ModifyListener"), NOW)

    wait = find_rate_limit_wait(HERE, holder="b", now=NOW)
    until = NOW + timedelta(seconds=1)
    assert wait == RateLimitWait("elbv2 calls", until, is_throttled=True, per_second=0, quota=0)


def test_the_learned_rate_is_a_metric() -> None:
    succeed(5)
    take_tokens(HERE, SERVICE_READS, 1, NOW)
    assert AWS_RATES.labels(HERE, "service reads")._value.get() == pytest.approx(15)
