"""Reference page of delegates: what is required of them, its state, and the tests that show it."""

import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from ops.documentation.markdown import Page, code, plain, table

TABLE: Final = Path(__file__).with_name("delegate_requirements.toml")
STATES: Final = {
    "done": "works as required",
    "differently": "works in another way, for the given reason",
    "not": "does not exist, for the given reason",
}


@dataclass(frozen=True)
class Requirement:
    """A requirement; `tests` are pytest IDs without parameters, such as `tests/a/test_b.py::test_c`."""

    identifier: str
    title: str
    state: str
    reason: str = ""
    tests: Sequence[str] = ()

    @property
    def test_names(self) -> list[str]:
        return [test.partition("::")[2] for test in self.tests]


@cache
def read_requirements() -> tuple[Requirement, ...]:
    """Return the requirements in the order of the table."""
    entries = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return tuple(Requirement(identifier, **entry) for identifier, entry in entries.items())


def generate() -> Iterator[Page]:
    """Yield the page of the requirements on delegates."""
    yield Page("reference/delegates.md", "Requirements on delegates", tuple(_build_parts()))


def _build_parts() -> Iterator[str]:
    requirements = read_requirements()
    counts = Counter(requirement.state for requirement in requirements)
    yield (
        "Slipway's delegates follow the published behavior of Harness delegates. Each requirement below has "
        "a number, a state and the automated tests that show it. To install a delegate, see "
        "[Install delegates](../how-to/install-delegates.md)."
    )
    yield table(
        ("State", "Meaning", "Requirements"),
        [(code(state), meaning, str(counts[state])) for state, meaning in STATES.items()],
    )
    yield table(
        ("Number", "Requirement", "State", "Reason", "Tests"),
        [
            (
                requirement.identifier,
                plain(requirement.title),
                code(requirement.state),
                plain(requirement.reason),
                ", ".join(map(code, requirement.test_names)),
            )
            for requirement in requirements
        ],
    )
