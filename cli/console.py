"""Consoles of the command line, and its output as tables or JSON."""

import json
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.text import clean_line, clean_text

STATUS_STYLES: Final = {
    "SUCCESS": "green",
    "COMPLETED": "green",
    "CONNECTED": "green",
    "RUNNING": "cyan",
    "ASYNC_WAITING": "cyan",
    "ROLLING_BACK": "yellow",
    "APPROVAL_WAITING": "yellow",
    "INTERVENTION_WAITING": "yellow",
    "INPUT_WAITING": "yellow",
    "IGNORE_FAILED": "yellow",
    "ROLLED_BACK": "yellow",
    "FAILED": "red",
    "EXPIRED": "red",
    "ABORTED": "red",
    "APPROVAL_REJECTED": "red",
    "DISCONNECTED": "red",
    "SKIPPED": "dim",
    "QUEUED": "dim",
}


@cache
def get_console() -> Console:
    """Return the console of standard output. Markup is off: texts of the server are printed as they are."""
    return _build(is_error=False)


@cache
def get_error_console() -> Console:
    """Return the console of standard error, for errors, questions and progress."""
    return _build(is_error=True)


def print_text(text: object, *, style: str = "", is_error: bool = False) -> None:
    """Print a text of any length without control sequences."""
    console = get_error_console() if is_error else get_console()
    console.print(Text(clean_text(text), style=style), soft_wrap=True)


def print_document(text: str) -> None:
    """Print a document for a file: unchanged and in UTF-8, as files are read, except on a terminal."""
    if get_console().is_terminal:
        print_text(text)
    else:
        sys.stdout.buffer.write(f"{text}\n".encode(errors="replace"))


def print_json(value: Any) -> None:
    """Print a value as JSON for programs; escapes keep control characters away from the terminal."""
    print_text(json.dumps(value, indent=2))


def print_json_line(value: Any) -> None:
    """Print a value as one line of JSON, and flush it."""
    print_text(json.dumps(value, separators=(",", ":")))
    sys.stdout.flush()


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows as a table; as tab-separated columns if the output is not a terminal."""
    console = get_console()
    texts = [[clean_line("" if value is None else value) for value in row] for row in rows]
    if not console.is_terminal:
        for line in (headings, *texts):
            # Rich would turn the tabs into spaces.
            sys.stdout.write("\t".join(line) + "\n")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in texts:
        table.add_row(*(Text(value, style=STATUS_STYLES.get(value, "")) for value in row))
    console.print(table)


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Print names and values, one pair on a line; pairs without a value are left out."""
    shown = [(name, clean_line(value)) for name, value in fields if value not in (None, "", [], {})]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        line = Text(f"{name.ljust(width)}  ", style="dim")
        get_console().print(
            line.append(value, style=f"not dim {STATUS_STYLES.get(value, '')}"), soft_wrap=True
        )


def _build(*, is_error: bool) -> Console:
    stream = sys.stderr if is_error else sys.stdout
    if hasattr(stream, "reconfigure"):
        # A terminal without Unicode shows a question mark, not a traceback.
        stream.reconfigure(errors="replace")
    return Console(stderr=is_error, markup=False, highlight=False, emoji=False)
