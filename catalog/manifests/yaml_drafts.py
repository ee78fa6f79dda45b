"""YAML drafts: edits of a text that preserve comments, order and quotes."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from guards.input_problems import InputRejected
from guards.yaml_parser import is_number, parse_yaml

_UNLIMITED_WIDTH = 10**9


class IndentedDumper(yaml.SafeDumper):
    """YAML dumper that indents lists and writes no anchors."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent lists too."""
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        """Return True: pipelines may not contain references."""
        return True


def represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Represent a text, in quotes if it is a number to our parser: the library leaves 12e3 as it is."""
    style = "'" if is_number(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


IndentedDumper.add_representer(str, represent_text)


def render_scalar(value: Any, style: str | None = None) -> str:
    """Render a scalar on one line; text in the quotes of `style`."""
    if isinstance(value, str) and style == "'" and _is_printable(value):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, str) and style == '"':
        return _quote(value)
    if isinstance(value, list | dict):
        return "[]" if isinstance(value, list) else "{}"
    if value is None:
        return "null"
    dumped = yaml.dump(value, Dumper=IndentedDumper, width=_UNLIMITED_WIDTH, allow_unicode=True)
    text = str(dumped).removesuffix("...\n").strip("\n")
    return text if _is_parsed_as(text, value) else _quote(value)


def render_value(value: Any) -> str:
    """Render a value for a form: YAML without a trailing empty line."""
    dumped = yaml.dump(
        value, Dumper=IndentedDumper, sort_keys=False, allow_unicode=True, default_flow_style=False
    )
    return str(dumped).removesuffix("...\n").strip("\n")


def render_block(text: str, column: int) -> tuple[str, list[str]] | None:
    """Render multi-line text as a block scalar: its header and lines; None if that is impossible."""
    lines = text.removesuffix("\n").split("\n")
    if len(lines) < 2 or not lines[0].strip() or lines[0].startswith((" ", "\t")) or not lines[-1].strip():
        return None
    head = "|" if text.endswith("\n") else "|-"
    body = [" " * column + line if line else "" for line in lines]
    parsed = _parse_or_none(
        f"key: {head}\n" + "\n".join(f"  {line}" if line else "" for line in lines) + "\n"
    )
    return (head, body) if parsed == {"key": text} else None


def _quote(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _is_printable(text: str) -> bool:
    return text.isprintable()


def _is_parsed_as(text: str, value: Any) -> bool:
    parsed = _parse_or_none(f"key: {text}\n")
    return isinstance(parsed, dict) and parsed["key"] == value and type(parsed["key"]) is type(value)


def _parse_or_none(text: str) -> Any:
    try:
        return parse_yaml(text).value
    except InputRejected:
        return None


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INDENT_WIDTH = 2
# YAML counts them as ends of lines; here they are characters of a line.
_OTHER_LINE_ENDS = re.compile("[\x85\u2028\u2029]")
_UNCHANGEABLE = "This cannot be changed in a form; change it in the YAML."
_COMMENT_PATTERN = re.compile(r"\s*#")


class NotEditable(ValueError):
    """A text that cannot be changed this way; the message has the alternative."""


@dataclass(frozen=True)
class _EntryLines:
    """The lines of a mapping entry or list item, including the comments above it."""

    begin: int
    line: int
    last: int
    end: int
    value: yaml.Node


@dataclass
class _NodeOrigin:
    """The source position of a mapping or a list of the tree."""

    node: yaml.CollectionNode
    column: int
    snapshot: Any
    end: int
    """The line after the last one inside; comments that are less far in come after it."""
    own: _EntryLines | None = None
    """As an item of a list: the whole of it, with the comments above."""
    dash: int = 0
    parts: dict[str | int, _EntryLines] = field(default_factory=dict)


class YamlDraft:
    """Editable YAML text: change `value` in place, then call `render`.

    A moved object keeps its text.
    """

    def __init__(self, text: str) -> None:
        """Parse a text. Raises `NotEditable` with the reason if it is not a YAML mapping."""
        self.text = text.replace("\r\n", "\n").replace("\r", "\n")
        self.lines = self.text.removesuffix("\n").split("\n")
        try:
            self.value: Any = parse_yaml(self.text).value
            snapshot = parse_yaml(self.text).value
            node = yaml.compose(_OTHER_LINE_ENDS.sub("_", self.text), Loader=_LOADER)
        except InputRejected as error:
            raise NotEditable(error.problem.display_message) from error
        except yaml.YAMLError as error:
            is_valid = _OTHER_LINE_ENDS.search(self.text)
            raise NotEditable(_UNCHANGEABLE if is_valid else "The text is not valid YAML.") from error
        self.origins: dict[int, _NodeOrigin] = {}
        self._register(node, self.value, snapshot, (0, len(self.lines)))
        self.original = snapshot

    def render(self) -> str:
        """Return the text with all changes. Raises `NotEditable` if they cannot be written into it."""
        if is_identical(self.value, self.original):
            return self.text
        root = self.origins.get(id(self.value))
        after = self.lines[root.end :] if root else []
        text = "\n".join([*self._lines_of(self.value, 0), *after]) + "\n"
        try:
            means = parse_yaml(text).value
        except InputRejected as error:
            raise NotEditable(error.problem.display_message) from error
        if not is_identical(means, self.value):
            raise NotEditable(_UNCHANGEABLE)
        return text

    def _register(self, node: yaml.Node | None, value: Any, snapshot: Any, region: tuple[int, int]) -> None:
        if not isinstance(node, yaml.CollectionNode) or not value:
            return
        column = node.start_mark.column
        end = self._end(_get_last_line(node, self.lines), region[1], column)
        origin = self.origins[id(value)] = _NodeOrigin(node, column, snapshot, end)
        is_list = isinstance(node, yaml.SequenceNode)
        if is_list != isinstance(value, list) or len(node.value) != len(value):
            raise NotEditable(_UNCHANGEABLE)
        if node.flow_style:
            return
        children = (
            [(i, item, item) for i, item in enumerate(node.value)]
            if is_list
            else [(key.value, key, inner) for key, inner in node.value]
        )
        if not is_list and [name for name, _, _ in children] != list(value):
            raise NotEditable(_UNCHANGEABLE)
        first = [
            self._dash_line(begun, column) if is_list else begun.start_mark.line for _, begun, _ in children
        ]
        begins = [region[0]]
        for number in range(1, len(children)):
            begins.append(
                self._gap(_get_last_line(children[number - 1][2], self.lines), first[number], column)
            )
        ends = [*begins[1:], end]
        for (name, _, inner), line, begin, end in zip(children, first, begins, ends, strict=True):
            last = max(line, _get_last_line(inner, self.lines))
            part = origin.parts[name] = _EntryLines(begin, line, last, end, inner)
            self._register(inner, value[name], snapshot[name], (line if is_list else line + 1, end))
            if is_list and id(value[name]) in self.origins:
                entry = self.origins[id(value[name])]
                entry.own, entry.dash = part, column

    def _dash_line(self, node: yaml.Node, column: int) -> int:
        line = node.start_mark.line
        while line > 0 and self.lines[line][column : column + 1] != "-":
            line -= 1
        return line

    def _end(self, last: int, limit: int, column: int) -> int:
        """Return the end of a mapping or a list: before the first comment with less indentation."""
        for number in range(last + 1, limit):
            if self.lines[number].strip() and _count_indent(self.lines[number]) < column:
                return number
        return limit

    def _gap(self, last: int, following: int, column: int) -> int:
        """Return the first of the lines between two parts that belongs to the second."""
        first_line = last + 1
        for number in range(last + 1, following):
            line = self.lines[number]
            if line.strip() and _count_indent(line) <= column:
                break
            if line.strip():
                first_line = number + 1
        return first_line

    def _lines_of(self, value: Any, column: int) -> list[str]:
        """Return the lines of a non-empty mapping or list with its content in `column`."""
        origin = self.origins.get(id(value))
        if origin is None or origin.node.flow_style:
            return self._new_list(value, column) if isinstance(value, list) else self._new(value, column)
        if isinstance(value, list):
            return self._old_list(origin, value, column)
        lines: list[str] = []
        for key, inner in value.items():
            lines += self._entry(origin, key, inner, column)
        return lines

    def _entry(self, origin: _NodeOrigin, key: str, inner: Any, column: int) -> list[str]:
        part = origin.parts.get(key)
        if part is None:
            return self._new({key: inner}, column)
        by = column - origin.column
        lead = _shift_lines(self.lines[part.begin : part.line], by)
        own = [_blank_dashes(self.lines[part.line], origin.column), *self.lines[part.line + 1 : part.end]]
        if is_identical(inner, origin.snapshot[key]):
            return [*lead, *_shift_lines(own, by)]
        old = self.origins.get(id(inner))
        if old and old.node is part.value and not old.node.flow_style and inner:
            after = _shift_lines(self.lines[old.end : part.end], by)
            return [*lead, *_shift_lines(own[:1], by), *self._lines_of(inner, old.column + by), *after]
        tail = _shift_lines(self.lines[part.last + 1 : part.end], by)
        return [*lead, *_shift_lines(self._changed(part, key, inner, own), by), *tail]

    def _changed(self, part: _EntryLines, key: str, inner: Any, own: list[str]) -> list[str]:
        """Return the lines of an entry with a changed value, in the columns of the old text."""
        column = _count_indent(own[0])
        start, end = part.value.start_mark, part.value.end_mark
        style = part.value.style if isinstance(part.value, yaml.ScalarNode) else "|"
        is_plain = style not in ("|", ">")
        is_one_line = not isinstance(inner, dict | list) and not (isinstance(inner, str) and "\n" in inner)
        if is_plain and is_one_line and start.line == end.line == part.line:
            text = render_scalar(inner, style)
            before = own[0][: start.column]
            return [before + (" " if before.endswith(":") else "") + text + own[0][end.column :]]
        colon = own[0].find(":", column + len(key))
        if colon < 0:
            # The key has a question mark, and the colon is in another line.
            raise NotEditable(_UNCHANGEABLE)
        head = own[0][: colon + 1]
        comment = ""
        if part.last == part.line and start.line == part.line:
            comment = own[0][end.column :].strip()
        elif not is_plain and start.line > part.line:
            comment = own[0][len(head) :].strip()
        fresh = self._new({key: inner}, column)
        behind = fresh[0].partition(":")[2]
        return [head + behind + (f" {comment}" if comment else ""), *fresh[1:]]

    def _old_list(self, origin: _NodeOrigin, value: list[Any], column: int) -> list[str]:
        if is_identical(value, origin.snapshot):
            lines = self._list_text(origin)
            return _shift_lines(lines, column - origin.column)
        if any(not isinstance(item, dict | list) for item in value):
            return self._new_list(value, column)
        return self._items(value, column)

    def _list_text(self, origin: _NodeOrigin) -> list[str]:
        parts = list(origin.parts.values())
        lines = self.lines[parts[0].begin : origin.end]
        at = parts[0].line - parts[0].begin
        return [*lines[:at], _blank_dashes(lines[at], origin.column), *lines[at + 1 :]]

    def _items(self, value: list[Any], column: int) -> list[str]:
        return [line for item in value for line in self._item(item, column)]

    def _item(self, value: Any, column: int) -> list[str]:
        if not isinstance(value, dict | list) or not value:
            return [f"{' ' * column}- {render_scalar(value)}"]
        origin = self.origins.get(id(value))
        part = origin.own if origin else None
        if origin is None or part is None or origin.node.flow_style:
            return _add_dash(self._lines_of(value, column + _INDENT_WIDTH), column)
        by = column - origin.dash
        lead = _shift_lines(self.lines[part.begin : part.line], by)
        if is_identical(value, origin.snapshot):
            own = [_blank_dashes(self.lines[part.line], origin.dash), *self.lines[part.line + 1 : part.end]]
            return [*lead, *_shift_lines(own, by)]
        after = _shift_lines(self.lines[origin.end : part.end], by)
        return [*lead, *_add_dash(self._lines_of(value, origin.column + by), column), *after]

    def _new_list(self, value: list[Any], column: int) -> list[str]:
        return self._items(value, column)

    def _new(self, value: dict[str, Any], column: int) -> list[str]:
        lines: list[str] = []
        for key, inner in value.items():
            head = f"{' ' * column}{render_scalar(key)}:"
            if isinstance(inner, dict | list) and inner:
                lines += [head, *self._lines_of(inner, column + _INDENT_WIDTH)]
            elif isinstance(inner, str) and (block := render_block(inner, column + _INDENT_WIDTH)):
                lines += [f"{head} {block[0]}", *block[1]]
            else:
                lines.append(f"{head} {render_scalar(inner)}")
        return lines


def is_identical(first: Any, second: Any) -> bool:
    """Return whether two values are equal in types and key order: 1 is not true."""
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return list(first) == list(second) and all(
            is_identical(value, second[key]) for key, value in first.items()
        )
    if isinstance(first, list):
        return len(first) == len(second) and all(map(is_identical, first, second))
    return bool(first == second)


def _get_last_line(node: yaml.Node, lines: list[str]) -> int:
    """Return the last line of a value; the parser's end mark is the start of the next one."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return max(_get_last_line(child, lines) for child in (last if isinstance(last, tuple) else (last,)))
    end = node.end_mark
    if not isinstance(node, yaml.ScalarNode) or node.style not in ("|", ">"):
        return int(end.line)
    line = min(end.line if end.column else end.line - 1, len(lines) - 1)
    while line > node.start_mark.line and not lines[line].strip():
        line -= 1
    return int(line)


def _count_indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _blank_dashes(line: str, column: int) -> str:
    """Blank the dashes of the surrounding lists in the line of an entry that starts in `column`."""
    return " " * column + line[column:]


def _add_dash(lines: list[str], column: int) -> list[str]:
    """Add the dash of a list item to its first line that is not a comment."""
    at = next(
        number for number, line in enumerate(lines) if line.strip() and not _COMMENT_PATTERN.match(line)
    )
    dashed = f"{' ' * column}-{lines[at][column + 1 :]}"
    return [*lines[:at], dashed, *lines[at + 1 :]]


def _shift_lines(lines: list[str], by: int) -> list[str]:
    if by >= 0:
        return [" " * by + line if line else line for line in lines]
    return [line[min(-by, _count_indent(line)) :] for line in lines]
