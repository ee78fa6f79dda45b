"""No text of the server controls the terminal."""

import json
import subprocess
import sys

import pytest

from cli.text import clean_document, clean_line, clean_text
from tests.fixtures.processes import ROOT


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;another title\x07text", "text"),
        ("\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]8;;https://evil.example\ufffdlink\x1b]8;;\ufffd and more", "link and more"),
        ("\x1b]0;never ended", "0;never ended"),
        ("\x9b31mred", "31mred"),
        ("before\x1b", "before"),
        ("one\rtwo", "onetwo"),
        ("bell\x07 back\x08space", "bell backspace"),
        ("user\u202etxt.exe", "usertxt.exe"),
        ("half \ud800 of a pair", "half  of a pair"),
        ("[bold]markup[/bold] :smile:", "[bold]markup[/bold] :smile:"),
        ("äöü 漢字 🙂\ttab", "äöü 漢字 🙂\ttab"),
    ],
)
def test_control_sequences_are_removed_and_other_text_stays(text: str, shown: str) -> None:
    assert clean_text(text) == shown


def test_a_line_has_no_line_end() -> None:
    assert clean_line("one\r\ntwo\nthree") == "one two three"


def test_a_document_is_cleaned_in_keys_and_values() -> None:
    document = {"a\x1b[1m": ["\x07x", {"b": 1, "c": None}]}

    assert clean_document(document) == {"a": ["x", {"b": 1, "c": None}]}
    assert json.dumps(clean_document(document)) == '{"a": ["x", {"b": 1, "c": null}]}'


def test_a_document_is_utf_8_in_a_file_whatever_the_locale() -> None:
    script = "from cli.console import print_document; print_document('Größe → \u6f22')"
    written = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=True,
    )

    assert written.stdout.decode() == "Größe → 漢\n"
