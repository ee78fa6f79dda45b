"""Checks that examine something part by part, each finding with its fix."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum


class Result(StrEnum):
    """Result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Finding:
    """Result of one check, with the next step unless it is fine."""

    result: Result
    message: str
    fix: str = ""


@dataclass(frozen=True)
class Check:
    """A named part and what examines it; `needs` names all parts that it cannot do without."""

    name: str
    examine: Callable[[], Iterator[Finding]]
    needs: tuple[str, ...] = ()


def examine(checks: Iterable[Check]) -> Iterator[tuple[str, Finding]]:
    """Yield the findings of the checks in their order with their names, each as soon as it is known."""
    failed: set[str] = set()
    for check in checks:
        if missing := [name for name in check.needs if name in failed]:
            yield check.name, Finding(Result.SKIPPED, f"Not checked without {' and '.join(missing)}.")
            continue
        for finding in check.examine():
            if finding.result is Result.FAILED:
                failed.add(check.name)
            yield check.name, finding
