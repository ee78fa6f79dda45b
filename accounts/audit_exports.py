"""Export of the audit trail as CSV or JSON, streamed newest first."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any, Final

from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse

from guards.limits import AUDIT_EXPORT_ROWS
from rbac.models import AuditEntry
from web.http.problems import BadInput
from web.http.streaming import stream_response

EXPORT_FORMATS: Final = ("csv", "json")
# Set where more was found than an export holds.
TRUNCATION_HEADER: Final = "X-Slipway-Export-Cut"
_CHUNK_ROWS: Final = 500
_CONTENT_TYPES: Final = {"csv": "text/csv; charset=utf-8", "json": "application/json"}
# Characters that start a formula in a spreadsheet, with their wide East Asian forms (OWASP).
_FORMULA_PREFIXES: Final = tuple("=+-@\t\r\n＝＋－＠")
_COLUMNS: Final = (
    *("id", "at", "actor", "actor_id", "api_key_prefix", "action", "thing_type", "thing_id", "thing_name"),
    *("scope", "source", "request_id", "address", "before", "after"),
)


def export_entries(request: HttpRequest, entries: QuerySet[AuditEntry], form: str) -> StreamingHttpResponse:
    """Return a response with `entries` as a file, limited to the newest ones.

    Raises `BadInput` unless `form` is one of `EXPORT_FORMATS`.
    """
    if form not in EXPORT_FORMATS:
        message = f"must be one of {', '.join(EXPORT_FORMATS)}"
        raise BadInput("The input is not valid.", errors=[{"path": "as", "message": message}])
    ordered = entries.order_by("-pk")
    oldest = ordered.values_list("pk", flat=True)[AUDIT_EXPORT_ROWS - 1 : AUDIT_EXPORT_ROWS + 1]
    is_cut = len(oldest) > 1
    rows = _iterate_entries(ordered.filter(pk__gte=oldest[0]) if is_cut else ordered)
    pieces = _render_csv(rows) if form == "csv" else _render_json(rows, is_cut=is_cut)
    headers = {
        "Content-Disposition": f'attachment; filename="audit-trail.{form}"',
        TRUNCATION_HEADER: str(is_cut).lower(),
    }
    return stream_response(request, pieces, content_type=_CONTENT_TYPES[form], headers=headers)


def _iterate_entries(entries: QuerySet[AuditEntry]) -> Iterator[list[dict[str, Any]]]:
    """Yield the entries in batches; each batch is a query of its own, so none stays open for long."""
    below = entries
    while batch := list(below[:_CHUNK_ROWS]):
        yield [_build_row(entry) for entry in batch]
        below = entries.filter(pk__lt=batch[-1].pk)


def _build_row(entry: AuditEntry) -> dict[str, Any]:
    return {
        "id": entry.pk,
        "at": entry.at.isoformat(),
        "actor": entry.actor_name,
        "scope": entry.scope.path if entry.scope else None,
        **{name: getattr(entry, name) for name in _COLUMNS if name not in ("id", "at", "actor", "scope")},
    }


def _render_json(pieces: Iterator[list[dict[str, Any]]], *, is_cut: bool) -> Iterator[bytes]:
    yield b'{"results":['
    between = ""
    for rows in pieces:
        yield (between + ",\n".join(json.dumps(row) for row in rows)).encode()
        between = ",\n"
    yield b'],"is_cut":%s}\n' % str(is_cut).lower().encode()


def _render_csv(pieces: Iterator[list[dict[str, Any]]]) -> Iterator[bytes]:
    yield _render_lines([_COLUMNS])
    for rows in pieces:
        yield _render_lines([[_escape_cell(row[name]) for name in _COLUMNS] for row in rows])


def _render_lines(rows: Any) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer).writerows(rows)
    return buffer.getvalue().encode("utf-8", "replace")


def _escape_cell(value: Any) -> Any:
    """Return the value of a cell: nested values as JSON, formulas as plain text."""
    if value is None or isinstance(value, int):
        return "" if value is None else value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA_PREFIXES) else text
