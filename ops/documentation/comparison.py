"""Page that compares Slipway with other tools, with the tests that show each answer of Slipway."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from ops.documentation.markdown import Page, anchor, code, plain, table

TABLE: Final = Path(__file__).with_name("comparison.toml")
SLIPWAY: Final = "slipway"
TOOLS: Final = {
    SLIPWAY: "Slipway",
    "harness": "Harness",
    "pipecd": "PipeCD",
    "ecspresso": "ecspresso",
    "aws_console": "AWS console",
    "codedeploy": "CodeDeploy",
}
UNKNOWN: Final = "unknown"
ANSWERS: Final = {
    "yes": "The tool has the feature.",
    "partly": "The tool has a part of it, or reaches it in another way; the note says which.",
    "no": "The tool does not have it.",
    UNKNOWN: "The documentation that was read does not say.",
}


@dataclass(frozen=True)
class Cell:
    """The answer of one tool; `sources` are keys of the table of sources."""

    answer: str
    note: str = ""
    sources: Sequence[str] = ()


@dataclass(frozen=True)
class Feature:
    """A row; `number` is such as `2.3`, `tests` are pytest IDs, `cells` are by key of the tool."""

    number: str
    group: str
    title: str
    tests: Sequence[str]
    cells: Mapping[str, Cell]


@dataclass(frozen=True)
class Source:
    """A page of the public documentation of a tool; `tool` is a key of `TOOLS`."""

    tool: str
    title: str
    url: str


@dataclass(frozen=True)
class Strength:
    """A reason to choose another tool."""

    tool: str
    text: str
    sources: Sequence[str]


@cache
def _read_table() -> dict[str, Any]:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


@cache
def read_features() -> tuple[Feature, ...]:
    """Return the rows in the order of the table, numbered within their groups."""
    groups: dict[str, list[Feature]] = {}
    for entry in _read_table()["features"]:
        features = groups.setdefault(entry["group"], [])
        cells = {tool: Cell(**entry[tool]) for tool in TOOLS if tool in entry}
        number = f"{list(groups).index(entry['group']) + 1}.{len(features) + 1}"
        features.append(Feature(number, entry["group"], entry["feature"], entry.get("tests", ()), cells))
    return tuple(feature for features in groups.values() for feature in features)


@cache
def read_sources() -> dict[str, Source]:
    """Return the sources by their keys."""
    return {key: Source(**entry) for key, entry in _read_table()["sources"].items()}


@cache
def read_strengths() -> tuple[Strength, ...]:
    """Return the reasons to choose another tool."""
    return tuple(Strength(**entry) for entry in _read_table()["strengths"])


def generate() -> Iterator[Page]:
    """Yield the page of the comparison."""
    yield Page("comparison.md", "Comparison with other tools", tuple(_build_parts()))


def _build_parts() -> Iterator[str]:
    yield (
        "This page compares Slipway with five other ways to deploy to Amazon ECS. Each answer of Slipway "
        "leads to the automated tests that show it. Answers of the other tools come from their public "
        f"documentation, read in {_read_table()['looked_up']}; the numbers lead to the pages. "
        "The AWS console stands for what Amazon ECS offers by itself."
    )
    yield table(("Answer", "Meaning"), [(answer.capitalize(), text) for answer, text in ANSWERS.items()])
    yield "## When to choose another tool"
    yield table(
        ("Tool", "Strengths"),
        [
            (TOOLS[strength.tool], f"{plain(strength.text)} {_link_sources(strength.sources)}")
            for strength in read_strengths()
        ],
    )
    for group in dict.fromkeys(feature.group for feature in read_features()):
        yield from _build_group(group, [feature for feature in read_features() if feature.group == group])
    yield "## Sources"
    yield table(
        ("Number", "Tool", "Page"),
        [
            (str(number), TOOLS[source.tool], f"[{plain(source.title)}]({source.url})")
            for number, source in enumerate(read_sources().values(), 1)
        ],
    )


def _build_group(group: str, features: Sequence[Feature]) -> Iterator[str]:
    heading = f"Tests: {group}"
    yield f"## {group}"
    yield table(
        ("Number", "Feature", *TOOLS.values()),
        [
            (
                feature.number,
                plain(feature.title),
                *(_describe(feature, tool, anchor(heading)) for tool in TOOLS),
            )
            for feature in features
        ],
    )
    yield f"### {heading}"
    yield table(
        ("Number", "Tests that show the answer of Slipway"),
        [
            (feature.number, ", ".join(code(test.partition("::")[2]) for test in feature.tests))
            for feature in features
            if feature.tests
        ],
    )


def _describe(feature: Feature, tool: str, tests_anchor: str) -> str:
    cell = feature.cells[tool]
    links = _link_sources(cell.sources)
    if tool == SLIPWAY and feature.tests:
        links = f"[Tests](#{tests_anchor})"
    return f"**{cell.answer.capitalize()}.** {plain(cell.note)} {links}"


def _link_sources(keys: Sequence[str]) -> str:
    """Return links to sources, as numbers of the table of sources."""
    numbers = {key: number for number, key in enumerate(read_sources(), 1)}
    return " ".join(f"[\\[{numbers[key]}\\]]({read_sources()[key].url})" for key in keys)
