"""The fuzzing of parsers finds faults, and makes the same inputs again for a seed."""

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from benchmarks import parsers
from benchmarks.parsers import ANSI_SCRIPT, PARSERS, Parser, fuzz_batch, fuzz_script
from guards import masks, yaml_parser
from steps import expressions


def add_parser(monkeypatch: pytest.MonkeyPatch, check: Callable[[str], bool]) -> None:
    monkeypatch.setitem(PARSERS, "own", Parser(("a sample",), ("a token",), 10_000, check))


def test_each_parser_accepts_some_inputs_and_fails_for_none() -> None:
    for name in PARSERS:
        result = fuzz_batch(name, "1", 1_000)
        assert result.failures == []
        assert result.accepted > 0


def test_a_failure_is_reported_with_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(text: str) -> bool:
        if "\0" in text:
            raise IndexError("out of range")
        return True

    add_parser(monkeypatch, check)
    result = fuzz_batch("own", "1", 500)
    assert result.accepted == 500 - result.failed
    assert len(result.failures) == parsers.KEPT_FAILURES < result.failed
    assert all(failure.startswith("IndexError: 'out of range': ") for failure in result.failures)
    assert all("\\x00" in failure for failure in result.failures)


def test_a_slow_parser_fails_and_an_endless_one_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter((0.0, 0.02, 60.0))

    def check(_text: str) -> bool:
        end = time.process_time() + next(seconds)
        while time.process_time() < end:
            pass
        return False

    add_parser(monkeypatch, check)
    monkeypatch.setattr(parsers, "LONGEST_SECONDS", 0.01)
    slow, interrupted, interrupted_slow = fuzz_batch("own", "1", 3).failures
    assert " s for " in slow
    assert interrupted.startswith("TimeoutError: ")
    assert " s for " in interrupted_slow


def test_a_seed_makes_the_same_inputs_and_some_long_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs: list[str] = []

    def check(text: str) -> bool:
        inputs.append(text)
        return True

    add_parser(monkeypatch, check)
    monkeypatch.setattr(parsers, "LONG_INTERVAL", 20)
    for _ in range(2):
        fuzz_batch("own", "a seed", 50)
    assert inputs[:50] == inputs[50:]
    assert len(set(inputs)) > 25
    assert len(inputs[19]) > 5_000


@pytest.mark.parametrize(
    ("name", "module", "function", "wrong"),
    [
        ("expressions", expressions, "_format_scalar", lambda *_: ""),
        ("YAML", yaml_parser, "_replace_surrogate_escapes", lambda text: text.replace("web", "wob")),
        ("log lines", masks.SecretMask, "mask_lines", lambda _, texts: list(texts)),
        ("log lines", parsers, "sanitize_text", lambda text: text),
        ("JSON", parsers, "parse_json", lambda text: len(text)),
    ],
)
def test_a_wrong_result_is_a_failure(
    name: str,
    module: object,
    function: str,
    wrong: Callable[..., object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, function, wrong)
    assert fuzz_batch(name, "1", 500).failed > 0


def test_the_script_of_the_pages_passes_in_the_browser(page: Page) -> None:
    result = fuzz_script(page, ANSI_SCRIPT.read_text(), 5_000)
    assert result.failures == []
    assert result.accepted == 5_000


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("pieces.push({ text: part, css })", "pieces.push({ text: part.trim(), css })"), "another text"),
        (("return [color,", 'return ["<i>", color,'), "an unknown class"),
        (('"sym");\n  }', '"sym");\n    else push(match[0], "sym");\n  }'), "a control character"),
    ],
)
def test_a_wrong_script_fails_in_the_browser(page: Page, change: tuple[str, str], reason: str) -> None:
    script = ANSI_SCRIPT.read_text()
    assert change[0] in script
    result = fuzz_script(page, script.replace(*change), 500)
    assert result.failed > 0
    assert reason in result.failures[0]
