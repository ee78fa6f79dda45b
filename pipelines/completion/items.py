"""Completion items of expressions: path, source, value and visibility."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from guards.limits import EXPRESSION_VALUE_CHARACTERS
from steps.expression_names import DIGEST, FIXED
from steps.expressions import is_path

MASKED_VALUE = "****"
LONGEST_SEARCH = 200
# Longer paths are not listed: the cursor of a page contains a path.
LONGEST_PATH = 400
AFTER_LAST_STEP = "After the last step"


@dataclass(frozen=True)
class StepChoice:
    """A selectable position: `key` is its URL key, as STAGE/STEP; `group` is its stage."""

    key: str
    title: str
    group: str

    def as_rollback_choice(self) -> "StepChoice":
        """Return the same choice among the rollback steps of its stage."""
        return replace(self, group=f"{self.group}, rollback")


class CompletionState(StrEnum):
    """Availability of a value: known, unknown or hidden."""

    KNOWN = "KNOWN"
    SECRET = "SECRET"  # noqa: S105 - a state, not a password
    HIDDEN = "HIDDEN"
    LATER = "LATER"


@dataclass(frozen=True)
class CompletionItem:
    """A name that an expression may use: `path` without brackets, `source` with its origin.

    `value` is None unless it is known and visible; a secret has stars.
    """

    path: str
    source: str
    about: str = ""
    state: CompletionState = CompletionState.KNOWN
    value: Any = None

    @property
    def expression(self) -> str:
        """Return the expression as written in YAML."""
        return f"<+{self.path}>"

    @property
    def text(self) -> str:
        """Return the value for display, truncated."""
        text = self.full_text
        most = int(EXPRESSION_VALUE_CHARACTERS)
        return text if len(text) <= most else f"{text[:most]}…"

    @property
    def full_text(self) -> str:
        """Return the full value as text."""
        return self.value if isinstance(self.value, str) else json.dumps(self.value, ensure_ascii=False)

    @property
    def is_cut(self) -> bool:
        return len(self.full_text) > EXPRESSION_VALUE_CHARACTERS


def format_step_title(name: str, identifier: str) -> str:
    """Return the display name of a step with its identifier."""
    return f"Step {name or identifier}" if identifier in name or not name else f"Step {name} ({identifier})"


def mask_item(item: CompletionItem) -> CompletionItem:
    """Return the item without its value."""
    return replace(item, state=CompletionState.SECRET, value=MASKED_VALUE)


def iterate_leaves(value: Any, before: str) -> Iterator[tuple[str, Any]]:
    """Yield every path below a value with its leaf; keys that no path can name stay inside their parent."""
    if isinstance(value, Mapping) and value and all(_is_nameable(before, str(key)) for key in value):
        for key, item in value.items():
            yield from iterate_leaves(item, f"{before}.{key}" if before else str(key))
    elif before and value != {}:
        yield before, value


def _is_nameable(before: str, key: str) -> bool:
    return is_path(key) and len(before) + len(key) < LONGEST_PATH


def search_items(items: Iterable[CompletionItem], search: str = "") -> list[CompletionItem]:
    """Return the distinct items with `search` in name or value, in alphabetical order."""
    needle = search.strip().removeprefix("<+").removesuffix(">").casefold()[:LONGEST_SEARCH]
    by_path = {item.path: item for item in items}
    ordered = [by_path[path] for path in sorted(by_path)]
    return [item for item in ordered if needle in _build_search_text(item)] if needle else ordered


def _build_search_text(item: CompletionItem) -> str:
    value_text = item.full_text if item.state == CompletionState.KNOWN and item.value is not None else ""
    return f"{item.path}\n{item.source}\n{value_text}".casefold()


_VARIABLE_SOURCES: Mapping[str, str] = {
    "pipeline.variables": "Variables of the pipeline",
    "service.variables": "Variables of the service",
    "env.variables": "Variables of the environment",
    "serviceVariables": "Effective variables of the service",
    "variables": "Effective variables, including those of the pipeline",
}
_ROOT_SOURCES: Mapping[str, str] = {
    "pipeline": "Pipeline",
    "stage": "Stage",
    "service": "Service",
    "env": "Environment",
    "infra": "Infrastructure",
    "primary": "Image",
    "execution": "Run",
    "provisioner": "Provisioner",
}


def describe_source(path: str, values: Mapping[str, Any]) -> str:
    """Describe the origin of a value; `values` are those of the stage, with display names."""
    before = next((prefix for prefix in _VARIABLE_SOURCES if path.startswith(f"{prefix}.")), "")
    if before:
        return _VARIABLE_SOURCES[before]
    root = path.partition(".")[0]
    name = values.get(root, {}).get("name", "") if root in values else ""
    return f"{_ROOT_SOURCES.get(root, root)} {name}".strip()


def describe_path(path: str) -> str:
    """Describe a built-in name; empty for other names."""
    return FIXED.get(path) or DIGEST.get(path, "")
