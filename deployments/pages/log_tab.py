"""Log tab of an execution before its script runs: last lines, lines around a line, or matches of a text."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from deployments import log
from deployments.models import Execution
from guards.text import format_plain

LINES: Final = 200
LINE_CHARACTERS: Final = 2_000
HITS: Final = 100
LONGEST_TEXT: Final = 512
# Lines above the line of an address, so that the line is in view.
_LINES_ABOVE: Final = 8
# Characters before the first match of a long line.
_CHARACTERS_BEFORE: Final = 200
_MOST_DIGITS: Final = 9


@dataclass(frozen=True)
class LogAddress:
    """Place in a log that an address names: a text to find, a line, or both."""

    text: str = ""
    match_case: bool = False
    after: int = 0
    line: int = 0
    page: int = 1

    def build_url(self, *, line: int = 0, page: int = 1, after: int | None = None) -> str:
        """Return the address of another place with the same search."""
        after = self.after if after is None else after
        query = {"find": self.text, "case": "1"} if self.match_case else {"find": self.text}
        query = query if self.text else {}
        numbers = {"after": after, "page": page if page > 1 else 0, "line": line}
        query |= {name: str(number) for name, number in numbers.items() if number}
        return f"?{urlencode(query)}#{f'L{line}' if line else 'panel-log'}"


def parse_log_address(query: Mapping[str, str]) -> LogAddress:
    """Return the place that a query names; an invalid number counts as missing."""
    return LogAddress(
        text=query.get("find", "")[:LONGEST_TEXT],
        match_case=query.get("case") == "1",
        after=_parse_number(query.get("after", "")),
        line=_parse_number(query.get("line", "")),
        page=max(1, _parse_number(query.get("page", ""))),
    )


def build_log_tab(execution: Execution, address: LogAddress) -> dict[str, Any]:
    """Return the lines of the log tab, and the matches if the address has a text."""
    last = execution.next_line_number - 1
    tab: dict[str, Any] = {"log_address": address, "log_last": last}
    matches = _find_matches(execution.pk, address) if address.text else None
    if matches and not address.line:
        return tab | _build_hits(execution.pk, address, matches)
    line = min(address.line, last)
    if matches and line:
        tab["log_hit"] = _build_hit(address, matches, line)
    after = max(0, line - 1 - _LINES_ABOVE) if line else max(0, last - LINES)
    lines = log.read_lines(execution.pk, after=after, limit=LINES)
    tab["log_rows"] = _build_rows(lines, address, picked=line)
    if line and lines:
        first_shown, last_shown = lines[0]["number"], lines[-1]["number"]
        if first_shown > 1:
            tab["log_earlier"] = address.build_url(line=max(1, first_shown - LINES + _LINES_ABOVE))
        if last_shown < last:
            tab["log_later"] = address.build_url(line=last_shown + 1)
    return tab


def _parse_number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else 0


def _find_matches(execution_id: UUID, address: LogAddress) -> log.LineMatches:
    line_filter = log.LineFilter(text=address.text, match_case=address.match_case)
    return log.search_for_page(execution_id, line_filter, after=address.after)


def _build_hits(execution_id: UUID, address: LogAddress, matches: log.LineMatches) -> dict[str, Any]:
    """Return one page of matching lines, and the addresses of its neighbors."""
    pages = max(1, -(-len(matches.numbers) // HITS))
    page = min(address.page, pages)
    numbers = matches.numbers[(page - 1) * HITS : page * HITS]
    hits: dict[str, Any] = {
        "count": len(matches.numbers),
        "first": (page - 1) * HITS + 1,
        "last": (page - 1) * HITS + len(numbers),
        "previous": address.build_url(page=page - 1) if page > 1 else "",
        "next": address.build_url(page=page + 1) if page < pages else "",
        "searched_to": matches.next,
    }
    if matches.next is not None:
        hits["further"] = address.build_url(after=matches.next)
    lines = log.read_numbered_lines(execution_id, numbers)
    return {"log_hits": hits, "log_rows": _build_rows(lines, address, has_steps=True)}


def _build_hit(address: LogAddress, matches: log.LineMatches, line: int) -> dict[str, Any]:
    """Return the position of a line among the matches, and the addresses of the neighbors."""
    numbers = matches.numbers
    at = bisect_left(numbers, line)
    is_match = at < len(numbers) and numbers[at] == line
    following = at + 1 if is_match else at
    return {
        "count": len(numbers),
        "position": at + 1 if is_match else None,
        "previous": address.build_url(line=numbers[at - 1]) if at else "",
        "next": address.build_url(line=numbers[following]) if following < len(numbers) else "",
        "is_cut": matches.next is not None,
        "all": address.build_url(page=at // HITS + 1),
    }


def _build_rows(
    lines: Iterable[log.LogLine], address: LogAddress, *, picked: int = 0, has_steps: bool = False
) -> list[dict[str, Any]]:
    return [
        {
            "number": line["number"],
            "step": line["step"] if has_steps else "",
            "level": line["level"],
            "is_picked": line["number"] == picked,
            "url": address.build_url(line=line["number"]),
            "parts": _split_text(format_plain(line["text"]), address),
        }
        for line in lines
    ]


def _split_text(text: str, address: LogAddress) -> list[tuple[str, bool]]:
    """Return the parts of a line, each with whether it matches; a long line is cut around its first match."""
    pattern = re.compile(re.escape(address.text), 0 if address.match_case else re.IGNORECASE)
    first = pattern.search(text) if address.text else None
    start = max(0, first.start() - _CHARACTERS_BEFORE) if first and len(text) > LINE_CHARACTERS else 0
    parts = [("…", False)] if start else []
    rest = text[start:]
    if len(rest) > LINE_CHARACTERS:
        rest = f"{rest[: LINE_CHARACTERS - 1]}…"
    position = 0
    for match in pattern.finditer(rest) if address.text else ():
        parts += [(rest[position : match.start()], False), (match[0], True)]
        position = match.end()
    parts.append((rest[position:], False))
    return [part for part in parts if part[0]]
