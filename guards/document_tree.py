"""Builder of parsed documents without recursion; limits depth, size and duplicate keys."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from guards.input_problems import InputPath, InputProblem, InputRejected

SourcePosition = TypeVar("SourcePosition")


@dataclass(frozen=True)
class ParsedDocument:
    """What a text says, and on which line and column (from 1) each part of it stands.

    `spellings` holds the numbers whose value does not tell how they were written: 012, 1.10, 0x1F.
    """

    value: Any
    lines: dict[InputPath, int] = field(default_factory=dict, repr=False)
    columns: dict[InputPath, int] = field(default_factory=dict, repr=False)
    spellings: dict[InputPath, str] = field(default_factory=dict, repr=False)


class _OpenNode:
    """A mapping or list whose end has not come yet; `path` is kept where places are."""

    __slots__ = ("awaits_key", "is_mapping", "key", "path", "value")

    def __init__(self, path: InputPath, value: Any) -> None:
        self.path = path
        self.value = value
        self.is_mapping = self.awaits_key = type(value) is dict
        self.key = ""


class DocumentTree(Generic[SourcePosition]):
    """A value that grows.

    `place` turns a parser's position into line and column; those of all parts are only kept if that is asked.
    """

    def __init__(
        self,
        *,
        depth: int,
        values: int,
        place: Callable[[SourcePosition], tuple[int, int]],
        keeps_places: bool = False,
    ) -> None:
        self.depth = int(depth)
        self.left = int(values)
        self.values = int(values)
        self.place = place
        self.keeps_places = keeps_places
        self.lines: dict[InputPath, int] = {}
        self.columns: dict[InputPath, int] = {}
        self.open: list[_OpenNode] = []
        self.inner: _OpenNode | None = None
        self.root: Any = None

    @property
    def path(self) -> InputPath:
        """Where the next value goes."""
        parts: list[str | int] = []
        for number, inner in enumerate(self.open):
            is_last = number == len(self.open) - 1
            parts.append(inner.key if inner.is_mapping else len(inner.value) - (not is_last))
        if self.inner is not None and self.inner.awaits_key:
            parts.pop()
        return tuple(parts)

    def start(self, value: dict[str, Any] | list[Any], at: SourcePosition) -> None:
        """Begin a mapping or a list. Raises `Refused`."""
        if len(self.open) >= self.depth:
            raise self.refused(at, f"nested deeper than {self.depth} levels", "flatten it")
        self.inner = _OpenNode(self.put(value, at), value)
        self.open.append(self.inner)

    def end(self) -> None:
        """End the innermost one."""
        self.open.pop()
        self.inner = self.open[-1] if self.open else None

    def key(self, key: str, at: SourcePosition) -> None:
        """Take the key of the value that comes next. Raises `Refused` on one that is there already."""
        inner = self.open[-1]
        inner.key, inner.awaits_key = key, False
        if key in inner.value:
            first = f" on line {self.lines[(*inner.path, key)]}" if self.keeps_places else ""
            raise self.refused(at, f'the key "{key[:100]}" is already given{first}', "keep one of them")
        if self.keeps_places:
            # The key's line, not the value's: that is where a person looks for it.
            self._keep((*inner.path, key), at)

    def put(self, value: Any, at: SourcePosition) -> InputPath:
        """Put a value where it belongs, and return where that is. Raises `Refused`."""
        self.left -= 1
        if self.left < 0:
            raise self.refused(at, f"more than {self.values} values", "split it")
        inner = self.inner
        path: InputPath = ()
        if inner is None:
            self.root = value
        elif inner.is_mapping:
            inner.value[inner.key] = value
            inner.awaits_key = True
            return (*inner.path, inner.key) if self.keeps_places else ()
        else:
            path = (*inner.path, len(inner.value)) if self.keeps_places else ()
            inner.value.append(value)
        if self.keeps_places:
            self._keep(path, at)
        return path

    def _keep(self, path: InputPath, at: SourcePosition) -> None:
        self.lines[path], self.columns[path] = self.place(at)

    def refused(self, at: SourcePosition, what: str, fix: str = "") -> InputRejected:
        """The refusal of what stands at a position."""
        return InputRejected(InputProblem(what, fix, *self.place(at), self.path))
