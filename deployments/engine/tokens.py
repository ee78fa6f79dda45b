"""A bucket of tokens with a line before it: in Lua for Valkey, and in Python for a process without one.

A bucket is one number, `full_at`: the moment at which it will be full again if nobody takes more. Each token
taken, or promised to somebody in line, moves it on by the time that one token needs to come back.
"""

import math
from dataclasses import dataclass, field

LONGEST_REST = 30
FORGET_AFTER = 120
# A place in line is kept for somebody who comes late, and lost if he never comes.
KEEP_A_PLACE = 120
KEEP_A_BUCKET = 3600


@dataclass(frozen=True)
class Question:
    """What is asked of one bucket: `wanted` tokens, or, when AWS has `throttled` a call, rest for all.

    `burst` and `per_second` are its size and refill; 0 each second means that it never runs out. `now` is in
    seconds. `place` names whoever waits in line if there is no token; empty for nobody.
    """

    key: str
    burst: float
    per_second: float
    now: float
    wanted: int = 0
    place: str = ""
    throttled: bool = False


@dataclass(frozen=True)
class Answer:
    """How many tokens there were, and for how many seconds to wait when there were none."""

    granted: int
    wait: float


@dataclass
class _Bucket:
    full_at: float = 0.0
    rest_until: float = 0.0
    throttled_at: float = 0.0
    times: int = 0


@dataclass
class OwnBuckets:
    """The buckets of one process, for when there is no Valkey."""

    _buckets: dict[str, _Bucket] = field(default_factory=dict)
    _places: dict[str, float] = field(default_factory=dict)

    def ask(self, question: Question) -> Answer:
        """Answer as the script does in Valkey."""
        bucket = self._buckets.setdefault(question.key, _Bucket())
        if question.throttled:
            _rest(bucket, question)
            return Answer(0, bucket.rest_until - question.now)
        if question.now < bucket.rest_until:
            return Answer(0, bucket.rest_until - question.now)
        if not question.per_second:
            return Answer(question.wanted, 0.0)
        ready = self._places.get(question.place)
        if ready is not None:
            return self._in_line(question, ready)
        return self._draw(bucket, question)

    def _in_line(self, question: Question, ready: float) -> Answer:
        if question.now < ready:
            return Answer(0, ready - question.now)
        del self._places[question.place]
        return Answer(1, 0.0)

    def _draw(self, bucket: _Bucket, question: Question) -> Answer:
        each, now = 1 / question.per_second, question.now
        room = question.burst * each
        full_at = max(bucket.full_at, now)
        granted = min(question.wanted, max(math.floor((room - (full_at - now)) / each + 1e-6), 0))
        bucket.full_at = full_at + granted * each
        if granted:
            return Answer(granted, 0.0)
        ready = full_at + each - room
        if question.place:
            self._places[question.place] = ready
            bucket.full_at = full_at + each
        return Answer(0, ready - now)

    def forget(self) -> None:
        """Full buckets and no lines, as at the start."""
        self._buckets.clear()
        self._places.clear()


def _rest(bucket: _Bucket, question: Question) -> None:
    """Twice as long each time; calls that were under way together are throttled once."""
    now = question.now
    if now >= bucket.rest_until:
        again = now - bucket.throttled_at < FORGET_AFTER
        bucket.times = bucket.times + 1 if again else 1
        bucket.rest_until = now + min(2 ** (bucket.times - 1), LONGEST_REST)
    bucket.throttled_at = now
    if question.per_second:
        bucket.full_at = max(bucket.full_at, bucket.rest_until + question.burst / question.per_second)


# KEYS: the bucket, the place in line. ARGV: the question's fields. The answer: tokens, seconds to wait.
SCRIPT = f"""
local bucket, place = KEYS[1], KEYS[2]
local burst, rate, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local wanted, in_line, throttled = tonumber(ARGV[4]), ARGV[5] == '1', ARGV[6] == '1'
local kept = redis.call('HMGET', bucket, 'full_at', 'rest_until', 'throttled_at', 'times')
local full_at, rest_until = tonumber(kept[1] or 0), tonumber(kept[2] or 0)
local throttled_at, times = tonumber(kept[3] or 0), tonumber(kept[4] or 0)

local function answer(granted, wait)
  return {{granted, string.format('%.6f', wait)}}
end

local function keep(ahead)
  redis.call('HSET', bucket, 'full_at', string.format('%.6f', full_at),
    'rest_until', string.format('%.6f', rest_until),
    'throttled_at', string.format('%.6f', throttled_at), 'times', times)
  redis.call('EXPIRE', bucket, math.ceil(math.max(ahead, 0)) + {KEEP_A_BUCKET})
end

if throttled then
  if now >= rest_until then
    times = (now - throttled_at < {FORGET_AFTER}) and times + 1 or 1
    rest_until = now + math.min(2 ^ (times - 1), {LONGEST_REST})
  end
  throttled_at = now
  if rate > 0 then full_at = math.max(full_at, rest_until + burst / rate) end
  keep(full_at - now)
  return answer(0, rest_until - now)
end
if now < rest_until then return answer(0, rest_until - now) end
if rate == 0 then return answer(wanted, 0) end
if in_line then
  local ready = tonumber(redis.call('GET', place) or -1)
  if ready >= 0 and now < ready then return answer(0, ready - now) end
  if ready >= 0 then
    redis.call('DEL', place)
    return answer(1, 0)
  end
end

local each = 1 / rate
local room = burst * each
full_at = math.max(full_at, now)
local granted = math.min(wanted, math.max(math.floor((room - (full_at - now)) / each + 1e-6), 0))
if granted > 0 then
  full_at = full_at + granted * each
  keep(full_at - now)
  return answer(granted, 0)
end
local ready = full_at + each - room
if in_line then
  redis.call('SET', place, string.format('%.6f', ready), 'EX', math.ceil(ready - now) + {KEEP_A_PLACE})
  full_at = full_at + each
end
keep(full_at - now)
return answer(0, ready - now)
"""


def arguments(question: Question) -> tuple[list[str], list[str]]:
    """The keys and arguments that the script takes for a question."""
    return [question.key, question.place or question.key], [
        f"{question.burst:.6f}",
        f"{question.per_second:.6f}",
        f"{question.now:.6f}",
        str(question.wanted),
        "1" if question.place else "0",
        "1" if question.throttled else "0",
    ]
