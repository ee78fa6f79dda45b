"""Lines that the engine itself writes into the log, with the next commit."""

from deployments.engine.shared import Shared
from deployments.log import NewLine
from deployments.models import StepExecution


def say(shared: Shared, step: StepExecution | None, text: str, level: str = "info", unit: str = "") -> None:
    """Write a text, line by line, into the log of a step."""
    now = shared.world.now()
    key, identifier = (step.pk, step.identifier) if step else (None, "")
    lines = [NewLine(now, key, identifier, unit, level, line) for line in text.split("\n")]
    shared.rows.add_lines(lines, shared.mask)
