"""YAML lines of a merged manifest, each with its level, file and line."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.manifests.layers import ManifestPart, MergedDocument, OverriddenValue
from guards.input_problems import InputPath

_PLAIN_PATTERN = re.compile(r"[A-Za-z0-9_/$][A-Za-z0-9_./:@+-]*\Z", re.ASCII)
_NUMBER_PATTERN = re.compile(r"[-+.0-9]")
_RESERVED_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


@dataclass(frozen=True)
class MergedLine:
    """A line: its text, source level and position, and the values that it overrides."""

    text: str
    level: str
    file: str
    line: int | None
    before: tuple[OverriddenValue, ...] = ()
    is_removed: bool = False


def render_lines(merged: MergedDocument) -> list[MergedLine]:
    """Render the merged document line by line; removed parts stay in place, marked."""
    removed: dict[InputPath, list[tuple[str, ManifestPart]]] = {}
    for path, part in merged.parts.items():
        if part.is_removed:
            removed.setdefault(path[:-1], []).append((str(path[-1]), part))
    return list(_LineRenderer(merged.parts, removed).render_block((), merged.document.value, 0, ""))


@dataclass(frozen=True)
class _LineRenderer:
    parts: Mapping[InputPath, ManifestPart]
    removed: Mapping[InputPath, Sequence[tuple[str, ManifestPart]]]

    def render_block(self, path: InputPath, value: Any, depth: int, first: str) -> Iterator[MergedLine]:
        """Yield the lines of a mapping or a list; `first` is the dash before its first line."""
        if isinstance(value, list):
            for number, inner in enumerate(value):
                yield from self._entry((*path, number), inner, depth, first if number == 0 else "")
        elif isinstance(value, Mapping):
            for number, (key, inner) in enumerate(value.items()):
                lead = first if number == 0 else ""
                yield from self._pair((*path, key), key, inner, depth, lead)
        else:
            yield self._line(path, depth, _render_scalar(value))
        for key, part in self.removed.get(path, ()):
            yield MergedLine(
                f"{_indent(depth)}{key}", part.level, part.file, part.line, part.before, is_removed=True
            )

    def _entry(self, path: InputPath, value: Any, depth: int, first: str) -> Iterator[MergedLine]:
        if isinstance(value, Mapping | list) and value:
            yield from self.render_block(path, value, depth + 1, f"{first}- ")
        else:
            yield self._line(path, depth - len(first) // 2, f"{first}- {_render_scalar(value)}")

    def _pair(self, path: InputPath, key: str, value: Any, depth: int, first: str) -> Iterator[MergedLine]:
        at = depth - len(first) // 2
        if isinstance(value, Mapping | list) and value:
            yield self._line(path, at, f"{first}{_render_scalar(key)}:")
            yield from self.render_block(path, value, depth + 1, "")
        else:
            yield self._line(path, at, f"{first}{_render_scalar(key)}: {_render_scalar(value)}".rstrip())

    def _line(self, path: InputPath, depth: int, text: str) -> MergedLine:
        part = self.parts[path]
        return MergedLine(f"{_indent(depth)}{text}", part.level, part.file, part.line, part.before)


def _indent(depth: int) -> str:
    return "  " * depth


def _render_scalar(value: Any) -> str:
    """Render a value as one line of YAML that parses back to the same value."""
    if value is None:
        return "null"
    if not isinstance(value, str):
        return json.dumps(value)
    is_plain = (
        _PLAIN_PATTERN.match(value)
        and not _NUMBER_PATTERN.match(value)
        and value.lower() not in _RESERVED_WORDS
    )
    return value if is_plain and not value.endswith(":") else json.dumps(value, ensure_ascii=False)
