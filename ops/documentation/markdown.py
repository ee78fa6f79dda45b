"""Pages of Markdown, and the parts that they consist of."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_SPECIAL = re.compile(r"([\\`*_\[\]<>])")
NOTICE = "<!-- Generated from code. Change the code, not this page. -->"


@dataclass(frozen=True)
class Page:
    """A generated page; `path` is relative to the folder of the documentation."""

    path: str
    title: str
    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        # MkDocs takes the title from the first line.
        return "\n\n".join((f"# {self.title}", *self.parts, NOTICE)) + "\n"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells may contain Markdown, and their line breaks become spaces."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in cells)} |" for cells in lines)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().replace("|", r"\|")


def code(text: str) -> str:
    """Return a text as inline code, with safe backticks."""
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def plain(text: str) -> str:
    """Return a text with escaped Markdown, except for `code`."""
    parts = re.split(r"(`[^`]+`)", text)
    # Every second part is code.
    return "".join(part if number % 2 else _SPECIAL.sub(r"\\\1", part) for number, part in enumerate(parts))


def block(text: str, language: str = "") -> str:
    """Return a block of code."""
    return f"```{language}\n{text.rstrip()}\n```"


def anchor(heading: str) -> str:
    """Return the anchor that MkDocs gives a heading."""
    slug = re.sub(r"[^\w\s-]", "", heading).strip().lower()
    return re.sub(r"[-\s]+", "-", slug)
