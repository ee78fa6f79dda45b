"""Lines that the engine itself writes into the log; inside a commit."""

from deployments.engine.shared import Shared
from deployments.log import NewLine, store
from deployments.models import StepExecution


def say(shared: Shared, step: StepExecution | None, text: str, level: str = "info", unit: str = "") -> None:
    """Write a text, line by line, into the log of a step."""
    now = shared.world.now()
    key, identifier = (step.pk, step.identifier) if step else (None, "")
    lines = [NewLine(now, key, identifier, unit, level, line) for line in text.split("\n")]
    store(shared.execution.pk, lines, mask=shared.mask)
