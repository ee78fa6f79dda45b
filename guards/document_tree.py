"""Builder of parsed documents without recursion; limits depth, size and duplicate keys."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from guards.input_problems import InputPath, InputProblem, InputRejected

SourcePosition = TypeVar("SourcePosition")


@dataclass(frozen=True)
class ParsedDocument:
    """Parsed text with the line and column (from 1) of each value.

    `number_texts` has the original text of ambiguous numbers: 012, 1.10, 0x1F.
    """

    value: Any
    lines: dict[InputPath, int] = field(default_factory=dict, repr=False)
    columns: dict[InputPath, int] = field(default_factory=dict, repr=False)
    number_texts: dict[InputPath, str] = field(default_factory=dict, repr=False)


class _OpenNode:
    """Unfinished mapping or list; `path` is set if positions are recorded."""

    __slots__ = ("expects_key", "is_mapping", "key", "path", "value")

    def __init__(self, path: InputPath, value: Any) -> None:
        self.path = path
        self.value = value
        self.is_mapping = self.expects_key = type(value) is dict
        self.key = ""


class DocumentTree(Generic[SourcePosition]):
    """Document during parsing.

    `get_position` converts a parser's position to line and column; positions are recorded only on request.
    """

    def __init__(
        self,
        *,
        max_depth: int,
        max_values: int,
        get_position: Callable[[SourcePosition], tuple[int, int]],
        keeps_positions: bool = False,
    ) -> None:
        self.max_depth = int(max_depth)
        self.values_left = int(max_values)
        self.max_values = int(max_values)
        self.get_position = get_position
        self.keeps_positions = keeps_positions
        self.lines: dict[InputPath, int] = {}
        self.columns: dict[InputPath, int] = {}
        self.open_nodes: list[_OpenNode] = []
        self.current_node: _OpenNode | None = None
        self.root: Any = None

    @property
    def path(self) -> InputPath:
        """Return the path of the next value."""
        parts: list[str | int] = []
        for number, node in enumerate(self.open_nodes):
            is_last = number == len(self.open_nodes) - 1
            parts.append(node.key if node.is_mapping else len(node.value) - (not is_last))
        if self.current_node is not None and self.current_node.expects_key:
            parts.pop()
        return tuple(parts)

    def start_collection(self, value: dict[str, Any] | list[Any], position: SourcePosition) -> None:
        """Start a mapping or a list. Raises `InputRejected`."""
        if len(self.open_nodes) >= self.max_depth:
            raise self.build_rejection(position, f"nested deeper than {self.max_depth} levels", "flatten it")
        self.current_node = _OpenNode(self.add_value(value, position), value)
        self.open_nodes.append(self.current_node)

    def end_collection(self) -> None:
        """End the innermost one."""
        self.open_nodes.pop()
        self.current_node = self.open_nodes[-1] if self.open_nodes else None

    def add_key(self, key: str, position: SourcePosition) -> None:
        """Set the key of the next value. Raises `InputRejected` for a duplicate."""
        node = self.open_nodes[-1]
        node.key, node.expects_key = key, False
        if key in node.value:
            first_position = f" on line {self.lines[(*node.path, key)]}" if self.keeps_positions else ""
            raise self.build_rejection(
                position, f'the key "{key[:100]}" is already given{first_position}', "keep one of them"
            )
        if self.keeps_positions:
            # The key's line, not the value's: users search for the key.
            self._record_position((*node.path, key), position)

    def add_value(self, value: Any, position: SourcePosition) -> InputPath:
        """Add a value at the current position, and return its path. Raises `InputRejected`."""
        self.values_left -= 1
        if self.values_left < 0:
            raise self.build_rejection(position, f"more than {self.max_values} values", "split it")
        node = self.current_node
        path: InputPath = ()
        if node is None:
            self.root = value
        elif node.is_mapping:
            node.value[node.key] = value
            node.expects_key = True
            return (*node.path, node.key) if self.keeps_positions else ()
        else:
            path = (*node.path, len(node.value)) if self.keeps_positions else ()
            node.value.append(value)
        if self.keeps_positions:
            self._record_position(path, position)
        return path

    def _record_position(self, path: InputPath, position: SourcePosition) -> None:
        self.lines[path], self.columns[path] = self.get_position(position)

    def build_rejection(self, position: SourcePosition, reason: str, remedy: str = "") -> InputRejected:
        """Return the error for a position."""
        return InputRejected(InputProblem(reason, remedy, *self.get_position(position), self.path))
