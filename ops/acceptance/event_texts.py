"""Texts of the ECS service events that the sandbox knows, normalized as observations are."""

import re
from collections.abc import Iterable
from typing import Final

_TASKS = r"\(task \d+\)(?: \(task \d+\))*"
_KNOWN: Final = (
    rf"has started \d+ tasks: {_TASKS}\.(?: Amazon ECS replaced \d+ tasks due to an unhealthy status\.)?",
    rf"has stopped \d+ running tasks: {_TASKS}\.",
    r"stopped \d+ pending tasks\.",
    r"registered \d+ targets in \(target group \d+\)",
    r"deregistered \d+ targets in \(target group \d+\)",
    r"has begun draining connections on \d+ tasks\.",
    r"\(task \d+\) \(port \d+\) is unhealthy in \(target group \d+\) due to \(reason .+\)\.",
    r"\(task \d+\) failed container health checks\.",
    r"\(deployment \d+\) deployment failed: tasks failed to start\.",
    r"rolling back to deployment \d+\.",
    r"\(deployment \d+\) deployment completed\.",
    r"has reached a steady state\.",
    r"was unable to place a task\. Reason: .+",
    r"is unable to consistently start tasks successfully\..*",
)
_EVENT = re.compile(
    r"\(service [\w-]+(?:, taskSet deployment \d+)?\) (?:" + "|".join(_KNOWN) + r")", re.DOTALL
)


def find_unknown_events(texts: Iterable[str]) -> list[str]:
    """Return the events with a text that the sandbox never uses."""
    return [text for text in dict.fromkeys(texts) if not _EVENT.fullmatch(text)]
