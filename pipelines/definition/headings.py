"""The headings above steps that are in groups or side by side, in lists that show all below each other."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.definition.nesting import PARALLEL


@dataclass(frozen=True)
class Around:
    """A group as a list shows it; `parent` is the key of the group around it."""

    kind: str
    name: str
    parent: Any

    @property
    def text(self) -> str:
        return "Side by side" if self.kind == PARALLEL else f"Group {self.name}"


def headings(keys: Iterable[Any], groups: Mapping[Any, Around]) -> list[dict[str, Any]]:
    """For each step, by the key of its group: how deep it lies, and the headings that come before it."""
    found: list[dict[str, Any]] = []
    opened: list[Any] = []
    for key in keys:
        path = _path(key, groups)
        kept = next((n for n, (a, b) in enumerate(zip(path, opened, strict=False)) if a != b), len(opened))
        heads = [
            {"text": groups[one].text, "depth": depth} for depth, one in enumerate(path) if depth >= kept
        ]
        found.append({"depth": len(path), "heads": heads})
        opened = path
    return found


def parted(
    places: Sequence[Mapping[str, Any]], sections: Sequence[str], provisioning: int
) -> list[dict[str, Any]]:
    """The same with a heading before the steps of a provisioner, and one before those that come after them.

    `sections` are those of the steps, in their order; `provisioning` counts the steps of the provisioner.
    """
    forward = [n for n, section in enumerate(sections) if section == "EXECUTION"]
    named = {0: "Provisioner", provisioning: "Deployment"} if provisioning else {}
    texts = {forward[n]: text for n, text in named.items() if n < len(forward)}
    return [
        {**place, "heads": [*([{"text": texts[n], "depth": 0}] if n in texts else []), *place["heads"]]}
        for n, place in enumerate(places)
    ]


def _path(key: Any, groups: Mapping[Any, Around]) -> list[Any]:
    path: list[Any] = []
    while key is not None:
        path.insert(0, key)
        key = groups[key].parent
    return path
