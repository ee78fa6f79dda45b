"""Reads of the real account during a preview, within a budget of calls and seconds."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aws.caller import Caller
from aws.errors import NotFound


class PreviewLimitReached(Exception):
    """Error raised above the preview's limit of calls or time; the message names the limit."""


class ExistsOnlyInPreview(NotFound):
    """Error raised for a read of a resource that exists only in the preview."""

    def __init__(self, service: str, operation: str) -> None:
        super().__init__("OnlyPlanned", "it exists in this preview alone", service, operation)


@dataclass
class ReadBudget:
    """Budget of a preview: the number of reads and the seconds."""

    calls: int
    seconds: float
    monotonic: Callable[[], float] = time.monotonic
    _started_at: float | None = None

    def consume(self) -> None:
        """Count one read. Raises `PreviewLimitReached` where that is one too many, or too late."""
        if self._started_at is None:
            self._started_at = self.monotonic()
        if self.monotonic() - self._started_at > self.seconds:
            raise PreviewLimitReached(f"AWS took more than {self.seconds:g} seconds to respond.")
        if self.calls < 1:
            raise PreviewLimitReached("The preview exceeds its limit of AWS calls.")
        self.calls -= 1


@dataclass
class PreviewPlaceholders:
    """Placeholders for ids that only AWS can assign."""

    _names: set[str] = field(default_factory=set)

    def create(self, text: str) -> str:
        """Return a name in angle brackets."""
        name = f"<{text}>"
        self._names.add(name)
        return name

    def are_used_in(self, value: object) -> bool:
        """Return whether any of them is somewhere in a value."""
        text = json.dumps(value, default=str, ensure_ascii=False)
        return any(json.dumps(name, ensure_ascii=False)[1:-1] in text for name in self._names)


@dataclass(frozen=True)
class LiveAccount:
    """Read access to the real account."""

    caller: Caller
    budget: ReadBudget
    placeholders: PreviewPlaceholders

    def read(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return AWS's response. Raises `AwsError`, and `ExistsOnlyInPreview` for planned resources."""
        if self.placeholders.are_used_in(params):
            raise ExistsOnlyInPreview(service, operation)
        self.budget.consume()
        return self.caller.call(service, operation, params)


TagPair = Mapping[str, str]


@dataclass
class TagOverlay:
    """Tags set and removed for each resource; `key` and `value` are the service's key names."""

    key: str = "key"
    value: str = "value"
    _changes: dict[str, dict[str, str | None]] = field(default_factory=dict)

    def set_tags(self, arn: str, tags: Sequence[TagPair]) -> None:
        self._get_changes(arn).update({tag[self.key]: tag.get(self.value, "") for tag in tags})

    def remove_tags(self, arn: str, keys: Sequence[str]) -> None:
        self._get_changes(arn).update(dict.fromkeys(keys))

    def apply_to(self, arn: str, live_tags: Sequence[TagPair]) -> list[dict[str, Any]]:
        """Return the tags that were found, as they would be now."""
        merged: dict[str, str | None] = {tag[self.key]: tag.get(self.value, "") for tag in live_tags}
        merged.update(self._changes.get(arn, {}))
        return [{self.key: key, self.value: value} for key, value in merged.items() if value is not None]

    def _get_changes(self, arn: str) -> dict[str, str | None]:
        return self._changes.setdefault(arn, {})
