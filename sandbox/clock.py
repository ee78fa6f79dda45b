"""Clock of the sandbox: it runs at any speed, pauses, or is advanced manually."""

from datetime import UTC, datetime, timedelta
from typing import Any


class Clock:
    """Sandbox seconds, and the dates of AWS responses.

    Durations use `elapsed`. Dates are today's plus the manually skipped time, because clients compare them
    with their own clocks.
    """

    def __init__(self) -> None:
        self.elapsed = 0.0
        self.skipped = 0.0
        self.speed = 1.0
        self.paused = False

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.skipped)

    def move(self, seconds: float, *, by_hand: bool) -> None:
        self.elapsed += seconds
        if by_hand:
            self.skipped += seconds

    def reset(self) -> None:
        self.elapsed = 0.0
        self.skipped = 0.0

    def to_record(self) -> dict[str, Any]:
        return {"elapsed": self.elapsed, "skipped": self.skipped}

    def restore(self, record: dict[str, Any]) -> None:
        self.elapsed = float(record["elapsed"])
        self.skipped = float(record["skipped"])

    def describe(self) -> dict[str, Any]:
        return {
            "elapsed": round(self.elapsed, 3),
            "speed": self.speed,
            "paused": self.paused,
            "now": self.now().isoformat(),
        }


# moto creates its back ends per account and region, so they share the clock by import.
CLOCK = Clock()
