"""A token bucket: at once up to the burst, then at the rate, by a clock that is moved by hand."""

from delegates.agent.logs.spool import TokenBucket


class Clock:
    """Time that passes only by waiting."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_the_burst_is_free_and_what_follows_comes_at_the_rate() -> None:
    clock = Clock()
    bucket = TokenBucket(1000, 5000, clock, clock.sleep)
    assert [bucket.spend(100) for _ in range(50)] == [False] * 50
    assert clock.now == 0
    for _ in range(100):
        bucket.spend(100)
    assert 9.9 <= clock.now <= 10.1
    # A pause fills it again, to the burst and no further.
    clock.now += 1000
    before = clock.now
    assert not bucket.spend(5000)
    assert bucket.spend(1000)
    assert clock.now == before + 1
