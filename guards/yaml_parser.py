"""Strict YAML and JSON parser with limits, and with the line of every value.

JSON is parsed as YAML, which also accepts JSON with a missing quote (T09). Scalars follow YAML 1.2: `yes` is
a text, `012` is twelve, dates are texts. Values are built from the parser's events without recursion. The
library's own loader, which crashes the process at 50,000 brackets, is never called.
"""

import json
import re
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from typing import Any, Final, NoReturn

import yaml

from guards import limits
from guards.document_tree import DocumentTree, ParsedDocument
from guards.input_problems import InputPath, InputProblem, InputRejected, get_line_and_column
from guards.json_parser import parse_number
from guards.text import find_size_problem, find_text_problem

_EVENT_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KEYWORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_OCTAL_OR_HEX: Final = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_NOT_A_NUMBER: Final = re.compile(r"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z")
_SURROGATE_PAIR: Final = re.compile(
    r"(?<!\\)((?:\\\\)*)((?:\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
_DIRECTIVE: Final = re.compile("^%", re.MULTILINE)
# Characters that copying from a page adds.
_PASTE_ARTIFACTS: Final = {
    "**": ("** is what makes text bold on a page", "remove the asterisks"),
    "...": ("... stands for something that was left out", "put the whole document there"),
    "```": ("``` is what encloses a sample on a page", "remove the line"),
}
_CORE_TAG_PREFIX: Final = "tag:yaml.org,2002:"
_COLLECTION_TAGS: Final = (None, f"{_CORE_TAG_PREFIX}map", f"{_CORE_TAG_PREFIX}seq")
_TEXT_TAGS: Final = (None, f"{_CORE_TAG_PREFIX}str", "!")


def parse_yaml(
    text: str,
    *,
    depth: int = limits.SPEC_DEPTH,
    values: int = limits.SPEC_VALUES,
    max_bytes: int = limits.SPEC_BYTES,
    expands_aliases: bool = False,
) -> ParsedDocument:
    """Parse one document. Raises `InputRejected` for any other text, in linear time.

    `values` and `most` also limit the expansion of aliases.
    """
    if text_problem := find_text_problem(text) or find_size_problem(text, max_bytes):
        raise InputRejected(
            text_problem
            if text_problem.line
            else InputProblem(text_problem.reason, text_problem.remedy, 1, 1)
        )
    if match := _DIRECTIVE.search(text):
        # The parser compares every %TAG with every other before its first event.
        reason = "directives (%) are not allowed"
        raise InputRejected(
            InputProblem(reason, "remove the line", *get_line_and_column(text, match.start()))
        )
    reader = _YamlReader(depth=depth, values=values, anchors=_AnchorEvents() if expands_aliases else None)
    try:
        if expands_aliases and "*" in text and "&" in text:
            expansion = _AliasExpansion(values=values, max_characters=max_bytes)
            for event in yaml.parse(_replace_surrogate_escapes(text), Loader=_EVENT_LOADER):
                expansion.add_event(event)
        for event in yaml.parse(_replace_surrogate_escapes(text), Loader=_EVENT_LOADER):
            reader.add_event(event)
    except yaml.reader.ReaderError as error:
        reason = f"the character U+{error.character:04X} is not allowed"
        raise InputRejected(
            InputProblem(reason, "remove it", *get_line_and_column(text, error.position))
        ) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason, remedy = _describe_parser_error(error, _get_marked_line(text, mark))
        raise InputRejected(
            InputProblem(reason, remedy, *_get_mark_position(mark), reader.tree.path)
        ) from error
    return reader.build_document()


def is_number(text: str) -> bool:
    """Return whether a text without quotes is a number, or would be one if it were not too large."""
    return any(pattern.match(text) for pattern in (_NUMBER, _OCTAL_OR_HEX, _NOT_A_NUMBER))


def _replace_surrogate_escapes(text: str) -> str:
    """Replace surrogate escapes: JSON has two for a character beyond 16 bits, YAML has none."""
    if "\\u" not in text or not text.lstrip().startswith(("{", "[")):
        return text
    return _SURROGATE_PAIR.sub(lambda pair: pair[1] + json.loads(f'"{pair[2]}"'), text)


def _get_marked_line(text: str, mark: Any) -> str:
    """Return the line of a mark, without its indentation."""
    if mark is None:
        return ""
    begin = text.rfind("\n", 0, mark.index) + 1
    return text[begin:].partition("\n")[0].strip()


def _describe_parser_error(error: yaml.MarkedYAMLError, line: str) -> tuple[str, str]:
    message, context = error.problem or "this is not YAML", error.context or ""
    for begin, (reason, remedy) in _PASTE_ARTIFACTS.items():
        if line.startswith(begin):
            return reason, remedy
    if "cannot start any token" in message:
        return "a tab or a reserved character starts this value", "indent with spaces, or put it in quotes"
    if "mapping values are not allowed" in message:
        return (
            "a second colon in one line, or wrong indentation",
            "quote the value if the colon belongs to it",
        )
    if "did not find expected key" in message and "block mapping" in context:
        return (
            "this line is not indented like the keys that it belongs to",
            "begin the keys of one mapping in the same column, two further in than a dash before them",
        )
    if "did not find expected '-' indicator" in message:
        return (
            "this line is not indented like the list that it belongs to",
            "begin the dashes of one list in the same column, and what belongs to an entry further in",
        )
    return f"{message} ({context})" if context else message, ""


class _AliasExpansion:
    """The size of a document with its aliases expanded, added up without expanding any of them."""

    def __init__(self, *, values: int, max_characters: int) -> None:
        # A mapping has a key for each value.
        self.max_nodes = self.nodes_left = 2 * values
        self.characters_left = int(max_characters)
        self.max_characters = int(max_characters)
        self.sizes: dict[str, tuple[int, int]] = {}
        self._open: list[tuple[str | None, int, int]] = []

    def add_event(self, event: yaml.Event) -> None:
        """Count an event. Raises `InputRejected` at the alias, or the value, that is too much."""
        if isinstance(event, yaml.CollectionStartEvent):
            self._open.append((event.anchor, self.nodes_left, self.characters_left))
            self._count(event, 1, 0)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, nodes, characters = self._open.pop()
            if anchor:
                self.sizes[anchor] = (nodes - self.nodes_left, characters - self.characters_left)
        elif isinstance(event, yaml.ScalarEvent):
            self._count(event, 1, len(event.value))
            if event.anchor:
                self.sizes[event.anchor] = (1, len(event.value))
        elif isinstance(event, yaml.AliasEvent):
            # An anchor that is unknown, or not yet at its end, is refused by the reader.
            self._count(event, *self.sizes.get(str(event.anchor), (0, 0)))

    def _count(self, event: yaml.Event, nodes: int, characters: int) -> None:
        self.nodes_left -= nodes
        self.characters_left -= characters
        if self.nodes_left >= 0 and self.characters_left >= 0:
            return
        size = (
            f"{self.max_nodes} values and keys"
            if self.nodes_left < 0
            else f"{self.max_characters // 1024} KiB"
        )
        reason = f"aliases expand to more than {size}"
        raise InputRejected(InputProblem(reason, "use fewer of them", *_get_mark_position(event.start_mark)))


class _AnchorEvents:
    """Nodes with anchors, as slices of the document's events with expanded aliases."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[int, int | None]] = {}
        """By anchor, where a node begins and ends; its end is None until it has come."""
        self._events: list[yaml.Event] = []
        self._open: list[str | None] = []

    def record(self, event: yaml.Event) -> None:
        """Record an event of a node with its anchor, if any; an alias is expanded."""
        if isinstance(event, yaml.AliasEvent):
            return
        begin = len(self._events)
        self._events.append(event)
        if isinstance(event, yaml.ScalarEvent):
            if event.anchor:
                self.nodes[event.anchor] = (begin, begin + 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open.append(event.anchor)
            if event.anchor:
                self.nodes[event.anchor] = (begin, None)
        elif anchor := self._open.pop():
            self.nodes[anchor] = (self.nodes[anchor][0], begin + 1)

    def iterate_events(self, anchor: str) -> Iterator[yaml.Event]:
        """Yield the events of a node without its anchors: an alias defines no anchor."""
        begin, end = self.nodes[anchor]
        for event in self._events[begin:end]:
            if getattr(event, "anchor", None):
                event = copy(event)
                event.anchor = None  # type: ignore[attr-defined]
            yield event


class _YamlReader:
    """Reader that converts the parser's events to values, and rejects unneeded YAML features."""

    def __init__(self, *, depth: int, values: int, anchors: _AnchorEvents | None) -> None:
        self.tree: DocumentTree[Any] = DocumentTree(
            max_depth=depth, max_values=values, get_position=_get_mark_position, keeps_positions=True
        )
        self.document_count = 0
        self.anchors = anchors
        self.number_texts: dict[InputPath, str] = {}

    def add_event(self, event: yaml.Event) -> None:
        if self.anchors and isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            self.anchors.record(event)
        if isinstance(event, yaml.ScalarEvent):
            self._add_scalar(event)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._start_collection(event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self.tree.end_collection()
        elif isinstance(event, yaml.AliasEvent):
            self._expand_alias(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self.document_count += 1
            if self.document_count > 1:
                self._reject(event, "only one document may be in a file", "remove the --- and what follows")

    def build_document(self) -> ParsedDocument:
        if self.document_count == 0 or self.tree.root is None:
            raise InputRejected(InputProblem("the document is empty", "", 1, 1))
        return ParsedDocument(self.tree.root, self.tree.lines, self.tree.columns, self.number_texts)

    def _expand_alias(self, event: yaml.AliasEvent) -> None:
        """Expand an alias once more; the expansion counts against the limits.

        Raises `InputRejected` with the position of the alias.
        """
        if self.anchors is None:
            self._reject(event, "aliases (*name) are not allowed", "write the value out")
        name = str(event.anchor)
        if name not in self.anchors.nodes:
            self._reject(event, f"no anchor &{name[:60]} stands before this alias", "write one")
        if self.anchors.nodes[name][1] is None:
            self._reject(event, f"the alias *{name[:60]} stands inside its own anchor", "remove it")
        try:
            for inner in self.anchors.iterate_events(name):
                self.add_event(inner)
        except InputRejected as rejected:
            line, column = _get_mark_position(event.start_mark)
            raise InputRejected(replace(rejected.problem, line=line, column=column)) from rejected

    def _expects_key(self) -> bool:
        return self.tree.current_node is not None and self.tree.current_node.expects_key

    def _start_collection(self, event: yaml.CollectionStartEvent) -> None:
        if event.tag not in _COLLECTION_TAGS:
            self._reject(event, f"the tag {event.tag} is not allowed", "remove it")
        if self._expects_key():
            self._reject(event, "a key must be a plain word", "put it in quotes if it is one")
        self.tree.start_collection({} if isinstance(event, yaml.MappingStartEvent) else [], event.start_mark)

    def _add_scalar(self, event: yaml.ScalarEvent) -> None:
        if problem := find_text_problem(event.value):
            self._reject(event, problem.reason, problem.remedy)
        if self._expects_key():
            if self.anchors and event.value == "<<" and event.implicit[0]:
                self._reject(event, "merge keys (<<) are not part of YAML 1.2", "write the keys out")
            self.tree.add_key(event.value, event.start_mark)
            return
        value = self._convert_scalar(event)
        path = self.tree.add_value(value, event.start_mark)
        if isinstance(value, int | float) and str(value) != event.value and not isinstance(value, bool):
            self.number_texts[path] = event.value

    def _convert_scalar(self, event: yaml.ScalarEvent) -> Any:
        if event.tag not in _TEXT_TAGS:
            self._reject(event, f"the tag {event.tag} is not allowed", "remove it")
        is_plain = event.implicit[0] and event.tag is None
        return self._convert_plain_scalar(event) if is_plain else event.value

    def _convert_plain_scalar(self, event: yaml.ScalarEvent) -> Any:
        text = event.value
        if text in _KEYWORDS:
            return _KEYWORDS[text]
        if _NOT_A_NUMBER.match(text):
            self._reject(event, f"{text} is not a number", "put it in quotes if it is text")
        if not (_NUMBER.match(text) or _OCTAL_OR_HEX.match(text)):
            return text
        number = _parse_octal_or_hex(text) if _OCTAL_OR_HEX.match(text) else parse_number(text)
        if number is None:
            self._reject(event, "the number is too large", "put it in quotes if it is text")
        return number

    def _reject(self, event: yaml.Event, reason: str, remedy: str) -> NoReturn:
        raise self.tree.build_rejection(event.start_mark, reason, remedy)


def _get_mark_position(mark: Any) -> tuple[int, int]:
    """Return line and column of a mark, from 1; the parser counts from 0, and has none for an empty text."""
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)


def _parse_octal_or_hex(text: str) -> int | None:
    if len(text) > limits.NUMBER_CHARACTERS:
        return None
    number = int(text[2:], 8 if text[1] == "o" else 16)
    return number if number <= limits.MAX_INTEGER else None
