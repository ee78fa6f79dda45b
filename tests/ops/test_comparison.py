"""The comparison with other tools is complete, and each answer of Slipway has tests that exist."""

from ops.documentation.comparison import (
    ANSWERS,
    SLIPWAY,
    TOOLS,
    UNKNOWN,
    generate,
    read_features,
    read_sources,
    read_strengths,
)
from tests.ops.named_tests import list_missing_tests


def test_every_row_has_a_known_answer_of_every_tool() -> None:
    incomplete = {
        feature.number: feature.title
        for feature in read_features()
        if set(feature.cells) != set(TOOLS)
        or not {cell.answer for cell in feature.cells.values()} <= set(ANSWERS)
    }
    assert incomplete == {}
    assert 35 <= len(read_features()) <= 60


def test_every_named_test_exists() -> None:
    missing = {
        feature.title: tests for feature in read_features() if (tests := list_missing_tests(feature.tests))
    }
    assert missing == {}


def test_what_slipway_has_is_known_noted_and_has_a_test() -> None:
    cells = {feature.title: (feature.cells[SLIPWAY], feature.tests) for feature in read_features()}
    assert [title for title, (cell, _) in cells.items() if cell.answer == UNKNOWN or not cell.note] == []
    assert [title for title, (cell, tests) in cells.items() if cell.answer != "no" and not tests] == []


def test_answers_of_other_tools_name_pages_of_these_tools() -> None:
    sources = read_sources()
    others = [
        (feature.title, tool, cell)
        for feature in read_features()
        for tool, cell in feature.cells.items()
        if tool != SLIPWAY
    ]
    assert [
        (title, tool) for title, tool, cell in others if (cell.answer == UNKNOWN) == bool(cell.sources)
    ] == []
    foreign = [
        (title, tool) for title, tool, cell in others for key in cell.sources if sources[key].tool != tool
    ]
    assert foreign == []


def test_every_source_is_used_and_every_other_tool_has_a_strength() -> None:
    cells = [cell for feature in read_features() for cell in feature.cells.values()]
    used = {key for named in (*cells, *read_strengths()) for key in named.sources}
    assert used == set(read_sources())
    assert {strength.tool for strength in read_strengths()} == set(TOOLS) - {SLIPWAY}


def test_the_page_leads_from_each_answer_of_slipway_to_its_tests() -> None:
    (page,) = generate()
    lines = page.text.splitlines()
    for feature in read_features():
        rows = [line for line in lines if line.startswith(f"| {feature.number} ")]
        assert len(rows) == 1 + bool(feature.tests), feature.title
        assert ("[Tests](#tests-" in rows[0]) == bool(feature.tests), feature.title
        names = [test.partition("::")[2] for test in feature.tests]
        assert [name for name in names if f"`{name}`" not in rows[-1]] == []
