"""Reference page of limits, in the sections that the module of limits has."""

import inspect
import re
from collections.abc import Iterator

from guards import limits
from ops.documentation.markdown import Page, plain, table

_LINE = re.compile(r"^# --- (?P<section>.+?) -+$|^(?P<name>[A-Z][A-Z0-9_]*): Final = Limit\(", re.MULTILINE)
# Introductions of sections; a section without an entry has only its table.
_NOTES = {
    "Requests": (
        "A request that is too large is answered with 413, a URL that is too long with 414, and a body that "
        "arrives too slowly with 408. The API counts requests by API key or by signed-in person; every "
        "answer has `RateLimit-Policy` and `RateLimit`, and a refusal (429) has `Retry-After`."
    ),
    "Sockets": (
        "A message that is too large closes the socket with 1009, too many messages close it with 4429."
    ),
    "Agents": (
        "Compressed bodies count at their uncompressed size. Failed registrations are counted by address "
        "and name; the answer (429) says when to try again."
    ),
    "Delegate tasks": (
        "A task that exceeds a limit fails with a message. When the log spool is full, the oldest lines are "
        "dropped and a line says how many; `SLIPWAY_DELEGATE_SPOOL_MIB` changes its size."
    ),
    "Documents": (
        "JSON follows RFC 8259; YAML follows version 1.2, one document without tags and directives. Aliases "
        "are expanded in manifests and refused elsewhere. Duplicate keys, NaN, infinity and NUL are refused "
        "with 400, a line and a column."
    ),
    "Previews": ("A preview that reaches a limit stops there, and the step says so."),
    "Inventory sync": (
        "Texts, numbers and dates from AWS are shortened to these sizes. This is the only place where "
        "Slipway shortens instead of refusing."
    ),
    "Texts": (
        "A name is one line without control characters, invisible characters and marks that change the "
        "direction of the text. Every script and emoji are allowed."
    ),
}


def generate() -> Iterator[Page]:
    """Yield the page of limits."""
    yield Page("reference/limits.md", "Limits", tuple(_build_parts()))


def _build_parts() -> Iterator[str]:
    yield (
        "Slipway refuses what is larger, deeper, longer or more frequent than these limits. The message "
        "names the place (field, line and column, or path in the document) and the limit. You can change "
        "the number of API requests a minute with `SLIPWAY_API_REQUESTS_PER_MINUTE`; all other limits are "
        "fixed."
    )
    for section, names in list_sections().items():
        yield f"## {section}"
        if note := _NOTES.get(section):
            yield note
        rows_of_section = [limits.LIMITS[name] for name in names]
        rows = [(plain(limit.subject), str(limit), plain(limit.source)) for limit in rows_of_section]
        yield table(("Limit", "Maximum", "Source"), rows)


def list_sections() -> dict[str, list[str]]:
    """Return the names of limits by section, in the order of the source."""
    sections: dict[str, list[str]] = {}
    section = ""
    for match in _LINE.finditer(inspect.getsource(limits)):
        section = match["section"] or section
        if match["name"] in limits.LIMITS:
            sections.setdefault(section, []).append(match["name"])
    return sections
