"""What was applied before, as a preview sees it: nothing is noted, and plans are made by a run alone."""

from typing import Any

from deployments.engine.provisions import EngineProvisions
from steps.actions.provisions import Planned


class PreviewProvisions(EngineProvisions):
    """Reads what is there; what a previewed action would note is dropped with it."""

    def plan(self, identifier: str) -> Planned | None:
        """Only a run makes a plan, so whatever a step would inherit is there."""
        return Planned("", {}, destroys=None)

    def keep(self, identifier: str, used: Any) -> str:
        return ""

    def flush(self) -> None:
        """Nothing is written."""
