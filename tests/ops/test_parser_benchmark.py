"""The measurement of parsers finds what fails, and makes the same inputs again."""

import time
from collections.abc import Callable

import pytest

from benchmarks import parsers
from benchmarks.parsers import PARSERS, Parser, run_inputs


def take_parser(monkeypatch: pytest.MonkeyPatch, check: Callable[[str], bool]) -> None:
    monkeypatch.setitem(PARSERS, "own", Parser(("a sample",), ("a piece",), check))


def test_each_parser_takes_some_inputs_and_fails_with_none() -> None:
    for name in PARSERS:
        result = run_inputs(name, "1", 1_000)
        assert result.failures == []
        assert result.taken > 0


def test_a_failure_is_told_with_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(text: str) -> bool:
        if "\0" in text:
            raise IndexError("out of range")
        return True

    take_parser(monkeypatch, check)
    result = run_inputs("own", "1", 500)
    assert 0 < result.taken == 500 - len(result.failures)
    assert all(failure.startswith("IndexError: out of range: ") for failure in result.failures)
    assert all("\\x00" in failure for failure in result.failures)


def test_a_slow_answer_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(_text: str) -> bool:
        end = time.process_time() + 0.02
        while time.process_time() < end:
            pass
        return False

    take_parser(monkeypatch, check)
    monkeypatch.setattr(parsers, "LONGEST_SECONDS", 0.01)
    assert len(run_inputs("own", "1", 3).failures) == 3


def test_a_seed_makes_the_same_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs: list[str] = []

    def check(text: str) -> bool:
        inputs.append(text)
        return True

    take_parser(monkeypatch, check)
    for _ in range(2):
        run_inputs("own", "a seed", 50)
    assert inputs[:50] == inputs[50:]
    assert len(set(inputs)) > 25
