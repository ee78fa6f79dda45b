"""Clock of the sandbox: it runs at any speed, pauses, or is advanced by hand."""

from datetime import UTC, datetime, timedelta
from typing import Any


class Clock:
    """Counts sandbox seconds and gives the dates that AWS answers carry.

    `elapsed` is what every duration is measured in. Dates are today's dates, plus what was skipped by hand:
    a client compares them with its own clock, so a fast sandbox must not live in next week.
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


# moto makes its back ends itself, per account and region, so what they share has to be found by import.
CLOCK = Clock()
