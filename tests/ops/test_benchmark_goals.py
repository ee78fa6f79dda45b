"""The table of goals that `make bench` ends with, and the figures that it keeps until then."""

from pathlib import Path

import pytest

from benchmarks.goals import GOALS, Figure, format_goals, parse_lines
from benchmarks.kept_figures import KeptFigures, UnreadableFigures


def test_a_miss_is_named_with_its_cause_and_the_worst_figure_counts() -> None:
    figures = [Figure("P10 p50", 2.4), Figure("P10 p50", 3.1, "bare loop 2.4"), Figure("P10 p95", 4.0)]
    table = list(format_goals(figures, is_whole=False))
    (median,) = (line for line in table if "reported after ECS completed" in line)
    assert median.split()[-5:] == ["3.1", "MISSED", "bare", "loop", "2.4"]
    assert f"  P10 p50: {GOALS['P10 p50'].cause}" in table
    assert not any("P10 p95:" in line for line in table)


def test_a_goal_of_at_least_is_missed_below_it() -> None:
    assert GOALS["P1 heartbeats"].is_met(12_000)
    assert not GOALS["P1 heartbeats"].is_met(11_999)


def test_the_whole_table_has_every_goal_and_what_was_not_measured() -> None:
    table = list(format_goals([], is_whole=True))
    assert len(table) == len(GOALS) + 1
    proofs = ("not measured", "tests/", "docker", "make soak", "not tried")
    assert all(any(proof in line for proof in proofs) for line in table[1:])


def test_figures_of_a_child_process_arrive_among_its_lines() -> None:
    figure = Figure("P8 pages", 58.5, "sqlite")
    assert list(parse_lines(["a line\n", figure.to_line() + "\n"])) == ["a line", figure]


def test_a_run_that_was_cut_goes_on_with_the_figures_of_what_had_ended(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    figures = [Figure("P8 pages", 58.5, "sqlite"), Figure("P8 log", 40.0, "sqlite")]
    KeptFigures.load(file).keep("pages", figures)
    continued = KeptFigures.load(file)
    assert list(continued.list_figures()) == figures
    assert str(continued.measurements["pages"]).startswith("measured at 20")
    continued.keep("start", [Figure("P16 start", 2.9)])
    assert set(KeptFigures.load(file).measurements) == {"pages", "start"}


@pytest.mark.parametrize(
    "text", ["{", "[1]", '{"pages": {}}', '{"pages": {"at": "", "commit": "", "figures": [1]}}']
)
def test_another_file_is_not_taken_for_figures(tmp_path: Path, text: str) -> None:
    file = tmp_path / "figures.json"
    file.write_text(text)
    with pytest.raises(UnreadableFigures, match="Delete it, or name another file"):
        KeptFigures.load(file)
    assert file.read_text() == text
