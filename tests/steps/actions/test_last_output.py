"""Last lines of a container that the banner of a failure quotes."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from guards.masks import MASK_TEXT
from steps.actions.context import StepContext
from steps.actions.ecs_service.diagnosis import QUOTED_CHARACTERS, QUOTED_LINES, list_last_output


def _redact(texts: Sequence[str]) -> list[str]:
    return [text.replace("hunter2", MASK_TEXT) for text in texts]


CONTEXT = cast(StepContext, SimpleNamespace(redact=_redact))


def _quote(*output: str) -> list[str]:
    lines: list[Any] = ["First failure", *(f"  | {line}" for line in output), "Cause: it exited"]
    return list_last_output(CONTEXT, lines)


def test_only_the_last_lines_of_the_container_are_quoted() -> None:
    assert _quote(*map(str, range(10))) == [str(number) for number in range(10 - QUOTED_LINES, 10)]
    assert list_last_output(CONTEXT, ["First failure", "Cause: it exited"]) == []


def test_blank_lines_colours_and_ends_of_long_lines_are_left_out() -> None:
    assert _quote("\x1b[31mred\x1b[0m \n", "", "nul\0") == ["red", "nul\ufffd"]
    (line,) = _quote("x" * 5_000)
    assert line == "x" * (QUOTED_CHARACTERS - 1) + "…"


def test_a_secret_is_masked_before_its_line_is_cut() -> None:
    (line,) = _quote("x" * (QUOTED_CHARACTERS - 4) + "hunter2")
    assert "hunt" not in line
