"""Values in the types that AWS takes: numbers as text where it wants text, without choices left empty."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from aws.problems import Path, ShapeProblem
from aws.walk import is_free

Spelling = Callable[[Path], str | None]


def fitted_values(shape: Any, value: Any, spelling_of: Spelling) -> tuple[Any, list[ShapeProblem]]:
    """Return a value as AWS takes it, and a warning for each number in it that became text.

    `spelling_of` tells how the number at a path is written where that is not how Python writes it: 012, 1.10.
    A choice that is empty text, as PipeCD writes pidMode, is none.
    """
    notes: list[ShapeProblem] = []
    return _fitted(shape, value, (), spelling_of, notes), notes


def _fitted(shape: Any, value: Any, path: Path, spelling_of: Spelling, notes: list[ShapeProblem]) -> Any:
    if is_free(shape):
        return value
    kind = shape.type_name
    if kind == "structure" and isinstance(value, Mapping):
        return {
            key: _fitted(shape.members[key], inner, (*path, key), spelling_of, notes)
            if key in shape.members
            else inner
            for key, inner in _chosen(shape, value)
        }
    if kind == "map" and isinstance(value, Mapping):
        return {
            key: _fitted(shape.value, one, (*path, key), spelling_of, notes) for key, one in value.items()
        }
    if kind == "list" and isinstance(value, list):
        return [_fitted(shape.member, one, (*path, n), spelling_of, notes) for n, one in enumerate(value)]
    if kind == "string" and isinstance(value, int | float) and not isinstance(value, bool):
        text = spelling_of(path) or str(value)
        notes.append(ShapeProblem(path, f'the number is sent as the text "{text}"', is_warning=True))
        return text
    return value


def _chosen(shape: Any, value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        member = shape.members.get(key)
        if inner != "" or "" in (getattr(member, "enum", None) or [""]):
            yield key, inner
