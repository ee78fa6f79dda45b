"""Reports of Content Security Policy violations, one log line each."""

import json
import logging
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from guards.input_problems import InputRejected
from guards.json_parser import parse_json
from guards.limits import CSP_REPORT_BYTES, CSP_REPORTS_PER_ADDRESS
from guards.text import sanitize_text
from rbac.usage_counts import counts
from web.http.error_pages import render_problem

_VALUE_CHARACTERS = 200
_MOST_REPORTS = 10
_REPORT_TYPES = ("application/csp-report", "application/reports+json", "application/json")
# As the two generations of reports call them.
_REPORT_FIELDS = (
    ("effectiveDirective", "effective-directive", "violated-directive"),
    ("blockedURL", "blocked-uri"),
    ("documentURL", "document-uri"),
    ("sourceFile", "source-file"),
    ("lineNumber", "line-number"),
)
log = logging.getLogger("slipway.csp")


@csrf_exempt
@require_POST
def record_csp_reports(request: HttpRequest) -> HttpResponse:
    """Log a browser's report, limited in size and rate, because the URL needs no sign-in."""
    counted = counts.increment(f"csp:{request.META.get('REMOTE_ADDR', '')}", seconds=60)
    if counted > CSP_REPORTS_PER_ADDRESS:
        response = render_problem(
            request, 429, detail=f"One address may report {CSP_REPORTS_PER_ADDRESS} a minute."
        )
        response["Retry-After"] = "60"
        return response
    if request.content_type not in _REPORT_TYPES:
        return render_problem(request, 415, detail=f"A report comes as one of {', '.join(_REPORT_TYPES)}.")
    if len(request.body) > CSP_REPORT_BYTES:
        return render_problem(request, 413, detail=f"A report may have {CSP_REPORT_BYTES} at most.")
    try:
        given = parse_json(request.body.decode("utf-8", "replace"))
    except InputRejected as refused:
        return render_problem(request, 400, detail=refused.problem.display_message)
    for report in _list_reports(given)[:_MOST_REPORTS]:
        log.warning("A page was not allowed something: %s", json.dumps(report))
    return HttpResponse(status=204)


def _list_reports(given: Any) -> list[dict[str, str]]:
    """Return the violations of a body: {"csp-report": {…}}, or a list of {"type": "csp-violation", "body":
    {…}}.
    """
    found = given if isinstance(given, list) else [given]
    bodies = [one.get("body", one.get("csp-report")) for one in found if isinstance(one, dict)]
    return [_format_report(body) for body in bodies if isinstance(body, dict)]


def _format_report(body: dict[str, Any]) -> dict[str, str]:
    said = {names[0]: next((body[name] for name in names if name in body), "") for names in _REPORT_FIELDS}
    # Addresses may hold what a person typed: only what comes before the question mark is kept.
    return {name: sanitize_text(str(value)).split("?")[0][:_VALUE_CHARACTERS] for name, value in said.items()}
