"""Tags after the planned writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TagPair = Mapping[str, str]


@dataclass
class TagOverlay:
    """What was set and removed of each resource; `key` and `value` are how the service spells a tag."""

    key: str = "key"
    value: str = "value"
    _changes: dict[str, dict[str, str | None]] = field(default_factory=dict)

    def set_tags(self, arn: str, tags: Sequence[TagPair]) -> None:
        self._get_changes(arn).update({tag[self.key]: tag.get(self.value, "") for tag in tags})

    def remove_tags(self, arn: str, keys: Sequence[str]) -> None:
        self._get_changes(arn).update(dict.fromkeys(keys))

    def apply_to(self, arn: str, live_tags: Sequence[TagPair]) -> list[dict[str, Any]]:
        """The tags that were found, as they would be now."""
        merged: dict[str, str | None] = {tag[self.key]: tag.get(self.value, "") for tag in live_tags}
        merged.update(self._changes.get(arn, {}))
        return [{self.key: key, self.value: value} for key, value in merged.items() if value is not None]

    def _get_changes(self, arn: str) -> dict[str, str | None]:
        return self._changes.setdefault(arn, {})
