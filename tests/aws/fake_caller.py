"""A caller that answers from a list, for tests of the verbs."""

from collections.abc import Mapping
from typing import Any


def skip_sleep(_seconds: float) -> None:
    """Return at once, so that a retry does not wait."""


class ListedCaller:
    """A caller that returns the listed answers in order and records the calls."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[str, str, dict[str, Any]]] = []

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.calls.append((service, operation, dict(params)))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer
