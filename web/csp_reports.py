"""What browsers report of code and styles that a page of ours was not allowed: one line of the log each."""

import json
import logging
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from guards.fault import Refused
from guards.json import read_json
from guards.limits import CSP_REPORT_BYTES, CSP_REPORTS_PER_ADDRESS
from guards.text import clean
from rbac.counting import counts
from web.views import refusal

_SHOWN = 200
_MOST_IN_ONE = 10
_TYPES = ("application/csp-report", "application/reports+json", "application/json")
# As the two generations of reports call them.
_FIELDS = (
    ("effectiveDirective", "effective-directive", "violated-directive"),
    ("blockedURL", "blocked-uri"),
    ("documentURL", "document-uri"),
    ("sourceFile", "source-file"),
    ("lineNumber", "line-number"),
)
log = logging.getLogger("slipway.csp")


@csrf_exempt
@require_POST
def csp_reports(request: HttpRequest) -> HttpResponse:
    """This will write down what a browser reports; anybody may, so it is little, and not often."""
    counted = counts.add(f"csp:{request.META.get('REMOTE_ADDR', '')}", seconds=60)
    if counted > CSP_REPORTS_PER_ADDRESS:
        response = refusal(request, 429, detail=f"One address may report {CSP_REPORTS_PER_ADDRESS} a minute.")
        response["Retry-After"] = "60"
        return response
    if request.content_type not in _TYPES:
        return refusal(request, 415, detail=f"A report comes as one of {', '.join(_TYPES)}.")
    if len(request.body) > CSP_REPORT_BYTES:
        return refusal(request, 413, detail=f"A report may have {CSP_REPORT_BYTES} at most.")
    try:
        given = read_json(request.body.decode("utf-8", "replace"))
    except Refused as refused:
        return refusal(request, 400, detail=refused.fault.sentence)
    for report in _reports(given)[:_MOST_IN_ONE]:
        log.warning("A page was not allowed something: %s", json.dumps(report))
    return HttpResponse(status=204)


def _reports(given: Any) -> list[dict[str, str]]:
    """The violations of a body: {"csp-report": {…}}, or a list of {"type": "csp-violation", "body": {…}}."""
    found = given if isinstance(given, list) else [given]
    bodies = [one.get("body", one.get("csp-report")) for one in found if isinstance(one, dict)]
    return [_shown(body) for body in bodies if isinstance(body, dict)]


def _shown(body: dict[str, Any]) -> dict[str, str]:
    said = {names[0]: next((body[name] for name in names if name in body), "") for names in _FIELDS}
    # Addresses may hold what a person typed: only what comes before the question mark is kept.
    return {name: clean(str(value)).split("?")[0][:_SHOWN] for name, value in said.items()}
