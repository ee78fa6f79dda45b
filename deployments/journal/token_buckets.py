"""Token buckets that learn their rate, as Python for one process and as a script for Valkey.

A bucket fills at `level` times the rate of the limit. The level starts at a half, grows while calls succeed,
and is halved by a throttled call. Who finds no token gets a ticket: the bucket serves tickets in order. An
owner without a call in the last seconds may overtake the queue of a batch, a few times.
"""

import math
from dataclasses import dataclass, field
from enum import StrEnum

LONGEST_BACKOFF_SECONDS = 30
BACKOFF_RESET_SECONDS = 120
# Lifetime of a ticket that is not redeemed.
RESERVATION_TTL_SECONDS = 120
BUCKET_TTL_SECONDS = 3600
START_LEVEL, LEAST_LEVEL = 0.5, 0.1
DECREASE = 0.5
# Growth of the level, at most once a second. After a throttled call others use the quota too, and a fast
# growth would end in a longer backoff each time.
GROWTH, GROWTH_AFTER_THROTTLING = 0.05, 0.002
GROWTH_SECONDS = 1
# The part of the bucket that newcomers may use while others queue, and the part of its rate that refills it.
RESERVE_SHARE = 0.25
# An owner is a newcomer again after these seconds without a call.
OWNER_SECONDS = 10
_EPSILON = 1e-6


class CallReport(StrEnum):
    """Result of a call that a bucket learns from."""

    NONE = ""
    SUCCEEDED = "succeeded"
    THROTTLED = "throttled"


@dataclass(frozen=True)
class TokenRequest:
    """Request for `count` tokens of one bucket, or with `report` the result of a call.

    `burst` and `per_second` are its greatest size and refill; a refill of 0 means unlimited. `now` is in
    seconds. `reservation` names the holder that queues if there is no token, `owner` the person or the cause
    behind it; empty for none.
    """

    key: str
    burst: float
    per_second: float
    now: float
    count: int = 0
    reservation: str = ""
    owner: str = ""
    report: CallReport = CallReport.NONE


@dataclass(frozen=True)
class TokenGrant:
    """Number of granted tokens, the seconds to wait if there are none, and the level of the bucket."""

    granted: int
    wait: float
    level: float


@dataclass
class BucketState:
    """State of one bucket; `available` and `issued` count tokens since its beginning.

    A ticket is the number of its token: it is served when `available` reaches it.
    """

    updated_at: float = 0.0
    available: float = 0.0
    issued: float = 0.0
    reserve: float = 0.0
    level: float = START_LEVEL
    grew_at: float = 0.0
    rest_until: float = 0.0
    throttled_at: float = 0.0
    times: int = 0

    def estimate_ready(self, ticket: float, per_second: float) -> float:
        """Return when a ticket will be served at the present level."""
        return self.updated_at + (ticket - self.available) / (per_second * self.level)

    def correct_times(self, now: float) -> None:
        """Take back times that only a clock that was ahead for a moment can have written."""
        latest = now + LONGEST_BACKOFF_SECONDS
        if self.updated_at > latest:
            self.updated_at = now
        self.rest_until = min(self.rest_until, latest)
        if self.grew_at > latest:
            self.grew_at = now
        if self.throttled_at > latest:
            self.throttled_at = now

    def fill(self, request: TokenRequest) -> None:
        """Add the tokens of the time since the last request, up to the size of the bucket."""
        size = request.burst * self.level
        room = self.issued + max(size * (1 - RESERVE_SHARE), 1.0)
        reserve_size = max(size * RESERVE_SHARE, 1.0)
        if not self.updated_at:
            self.updated_at, self.available, self.reserve = request.now, room, reserve_size
        tokens = max(request.now - self.updated_at, 0) * request.per_second * self.level
        self.available = min(self.available + tokens, room)
        self.reserve = min(self.reserve + tokens * RESERVE_SHARE, reserve_size)
        self.updated_at = max(self.updated_at, request.now)

    def learn(self, request: TokenRequest) -> None:
        """Change the level by the result of a call; calls in flight together count as throttled once."""
        if request.report == CallReport.SUCCEEDED:
            self._grow(request.now)
            return
        now = request.now
        if now >= self.rest_until:
            is_repeated = now - self.throttled_at < BACKOFF_RESET_SECONDS
            self.times = self.times + 1 if is_repeated else 1
            self.rest_until = now + min(2 ** (self.times - 1), LONGEST_BACKOFF_SECONDS)
            self.level = max(self.level * DECREASE, LEAST_LEVEL)
        self.throttled_at = now
        # AWS's own bucket is empty, so this one begins to fill when the pause ends.
        self.available = min(self.available, self.issued)
        self.reserve = 0.0
        self.updated_at = max(self.updated_at, self.rest_until)

    def _grow(self, now: float) -> None:
        if now >= self.rest_until and now >= self.grew_at + GROWTH_SECONDS:
            self.level = min(self.level + (GROWTH_AFTER_THROTTLING if self.throttled_at else GROWTH), 1.0)
            self.grew_at = now


@dataclass
class LocalBuckets:
    """Buckets of one process, used without Valkey."""

    _buckets: dict[str, BucketState] = field(default_factory=dict)
    _tickets: dict[str, float] = field(default_factory=dict)
    _busy_until: dict[tuple[str, str], float] = field(default_factory=dict)

    def draw(self, request: TokenRequest) -> TokenGrant:
        """Return the same grant as the script in Valkey."""
        bucket, now = self._buckets.setdefault(request.key, BucketState()), request.now
        bucket.correct_times(now)
        if request.per_second:
            bucket.fill(request)
        if request.report:
            bucket.learn(request)
            return TokenGrant(0, max(bucket.rest_until - now, 0.0), bucket.level)
        if now < bucket.rest_until:
            return TokenGrant(0, bucket.rest_until - now, bucket.level)
        if not request.per_second:
            return TokenGrant(request.count, 0.0, bucket.level)
        granted = self._redeem(bucket, request)
        if granted is None:
            granted = self._take(bucket, request)
        if granted:
            return TokenGrant(granted, 0.0, bucket.level)
        ticket = self._tickets.get(request.reservation, bucket.issued + 1)
        wait = bucket.estimate_ready(ticket, request.per_second) - now
        return TokenGrant(0, wait, bucket.level)

    def _redeem(self, bucket: BucketState, request: TokenRequest) -> int | None:
        """Return whether the ticket of the holder is served; None if it has none."""
        ticket = self._tickets.get(request.reservation)
        if ticket is None or ticket > bucket.issued + _EPSILON:
            # The ticket of a bucket that was lost would never be served.
            return None
        if bucket.available + _EPSILON < ticket:
            return 0
        del self._tickets[request.reservation]
        return 1

    def _take(self, bucket: BucketState, request: TokenRequest) -> int:
        """Return the tokens that nobody queues for; without any, overtake the queue or join it."""
        granted = min(request.count, max(math.floor(bucket.available - bucket.issued + _EPSILON), 0))
        is_newcomer = self._meet_owner(request)
        if granted:
            bucket.issued += granted
            return granted
        if is_newcomer and bucket.reserve + _EPSILON >= 1:
            bucket.reserve -= 1
            # Everybody in the queue waits for one token more, so that the rate stays the same.
            bucket.available -= 1
            return 1
        if request.reservation:
            bucket.issued += 1
            self._tickets[request.reservation] = bucket.issued
        return 0

    def _meet_owner(self, request: TokenRequest) -> bool:
        """Return whether the owner is a newcomer; it is none for the next seconds."""
        if not request.owner:
            return False
        key = request.key, request.owner
        is_newcomer = self._busy_until.get(key, 0.0) <= request.now
        self._busy_until[key] = request.now + OWNER_SECONDS
        return is_newcomer

    def get_state(self, key: str, reservation: str) -> tuple[BucketState, float | None]:
        """Return the state of a bucket, and the ticket of a reservation."""
        return self._buckets.get(key, BucketState()), self._tickets.get(reservation)

    def reset(self) -> None:
        """Restore new buckets without tickets."""
        self._buckets.clear()
        self._tickets.clear()
        self._busy_until.clear()


STATE_FIELDS = (
    "updated_at",
    "available",
    "issued",
    "reserve",
    "level",
    "grew_at",
    "rest_until",
    "throttled_at",
    "times",
)

# KEYS: bucket, reservation, owner. ARGV: fields of the request. Result: tokens, seconds to wait, level.
TOKEN_SCRIPT = f"""
local bucket, reservation, owner = KEYS[1], KEYS[2], KEYS[3]
local burst, rate, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local count, is_queued, has_owner, report = tonumber(ARGV[4]), ARGV[5] == '1', ARGV[6] == '1', ARGV[7]
local kept = redis.call('HMGET', bucket, '{"', '".join(STATE_FIELDS)}')
local updated_at, available, issued = tonumber(kept[1] or 0), tonumber(kept[2] or 0), tonumber(kept[3] or 0)
local reserve, level = tonumber(kept[4] or 0), tonumber(kept[5] or {START_LEVEL})
local grew_at, rest_until = tonumber(kept[6] or 0), tonumber(kept[7] or 0)
local throttled_at, times = tonumber(kept[8] or 0), tonumber(kept[9] or 0)

local function format(number) return string.format('%.9f', number) end

local function answer(granted, wait)
  redis.call('HSET', bucket, 'updated_at', format(updated_at), 'available', format(available),
    'issued', format(issued), 'reserve', format(reserve), 'level', format(level),
    'grew_at', format(grew_at), 'rest_until', format(rest_until),
    'throttled_at', format(throttled_at), 'times', times)
  redis.call('EXPIRE', bucket, math.ceil(math.max(wait, 0)) + {BUCKET_TTL_SECONDS})
  return {{granted, format(wait), format(level)}}
end

local latest = now + {LONGEST_BACKOFF_SECONDS}
if updated_at > latest then updated_at = now end
rest_until = math.min(rest_until, latest)
if grew_at > latest then grew_at = now end
if throttled_at > latest then throttled_at = now end

if rate > 0 then
  local size = burst * level
  local room = issued + math.max(size * {1 - RESERVE_SHARE}, 1)
  local reserve_size = math.max(size * {RESERVE_SHARE}, 1)
  if updated_at == 0 then updated_at, available, reserve = now, room, reserve_size end
  local tokens = math.max(now - updated_at, 0) * rate * level
  available = math.min(available + tokens, room)
  reserve = math.min(reserve + tokens * {RESERVE_SHARE}, reserve_size)
  updated_at = math.max(updated_at, now)
end

if report == '{CallReport.SUCCEEDED}' then
  if now >= rest_until and now >= grew_at + {GROWTH_SECONDS} then
    level = math.min(level + (throttled_at > 0 and {GROWTH_AFTER_THROTTLING} or {GROWTH}), 1)
    grew_at = now
  end
  return answer(0, math.max(rest_until - now, 0))
end
if report == '{CallReport.THROTTLED}' then
  if now >= rest_until then
    times = (now - throttled_at < {BACKOFF_RESET_SECONDS}) and times + 1 or 1
    rest_until = now + math.min(2 ^ (times - 1), {LONGEST_BACKOFF_SECONDS})
    level = math.max(level * {DECREASE}, {LEAST_LEVEL})
  end
  throttled_at = now
  available = math.min(available, issued)
  reserve = 0
  updated_at = math.max(updated_at, rest_until)
  return answer(0, rest_until - now)
end
if now < rest_until then return answer(0, rest_until - now) end
if rate == 0 then return answer(count, 0) end

local function wait_for(ticket)
  local wait = updated_at + (ticket - available) / (rate * level) - now
  if is_queued then
    redis.call('SET', reservation, format(ticket), 'EX', math.ceil(wait) + {RESERVATION_TTL_SECONDS})
  end
  return answer(0, wait)
end

local ticket = is_queued and redis.call('GET', reservation)
if ticket and tonumber(ticket) <= issued + {_EPSILON} then
  if available + {_EPSILON} < tonumber(ticket) then return wait_for(tonumber(ticket)) end
  redis.call('DEL', reservation)
  return answer(1, 0)
end

local is_newcomer = false
if has_owner then
  is_newcomer = tonumber(redis.call('GET', owner) or 0) <= now
  redis.call('SET', owner, format(now + {OWNER_SECONDS}), 'EX', {OWNER_SECONDS})
end
local granted = math.min(count, math.max(math.floor(available - issued + {_EPSILON}), 0))
if granted > 0 then
  issued = issued + granted
  return answer(granted, 0)
end
if is_newcomer and reserve + {_EPSILON} >= 1 then
  reserve = reserve - 1
  available = available - 1
  return answer(1, 0)
end
if not is_queued then return wait_for(issued + 1) end
issued = issued + 1
return wait_for(issued)
"""


def build_script_arguments(request: TokenRequest) -> tuple[list[str], list[str]]:
    """Return the keys and arguments of the script for a request."""
    owner = f"{request.key}:owner:{request.owner}" if request.owner else request.key
    return [request.key, request.reservation or request.key, owner], [
        f"{request.burst:.6f}",
        f"{request.per_second:.6f}",
        f"{request.now:.6f}",
        str(request.count),
        "1" if request.reservation else "0",
        "1" if request.owner else "0",
        request.report,
    ]
