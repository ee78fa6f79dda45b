"""What an audit entry says that changed, place by place."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from web.text_diff import Diff, diff


@dataclass(frozen=True)
class Change:
    """One place that differs; None on the side where it was not there. Longer texts are compared by line."""

    path: str
    before: str | None
    after: str | None

    @property
    def lines(self) -> Diff | None:
        """How the two differ line by line, where either has several lines."""
        before, after = self.before or "", self.after or ""
        return diff(before, after) if "\n" in before or "\n" in after else None


def changes_of(before: Any, after: Any) -> list[Change]:
    """Return each place where the two differ, in the order in which they name them."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    return [
        Change(path, old.get(path), new.get(path))
        for path in dict.fromkeys([*old, *new])
        if old.get(path) != new.get(path)
    ]


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}.{number}" if path else str(number))
    elif value is not None:
        yield path, _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(item if isinstance(item, str) else json.dumps(item) for item in value)
    return value if isinstance(value, str) else json.dumps(value)
