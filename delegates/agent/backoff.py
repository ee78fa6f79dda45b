"""How long to wait before trying again: longer each time, and never all agents at the same moment."""

import random
from dataclasses import dataclass


@dataclass
class Backoff:
    """Waits of up to `first`, twice that, and so on to `most` seconds; at least half of each."""

    first: float = 0.5
    most: float = 30.0
    tried: int = 0

    def next(self) -> float:
        """Seconds to wait now."""
        highest = min(self.most, self.first * 2 ** min(self.tried, 16))
        self.tried += 1
        return random.uniform(highest / 2, highest)  # noqa: S311  -- spreads retries, guards nothing

    def reset(self) -> None:
        self.tried = 0
