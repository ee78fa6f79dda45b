"""Origin policy: content security policy, headers, and reports of violations."""

import json
import logging
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from guards.input_problems import InputRejected
from guards.json_parser import parse_json
from guards.limits import CSP_REPORT_BYTES, CSP_REPORTS_PER_ADDRESS
from guards.text import sanitize_text
from rbac.usage_counts import counts
from web.http.error_pages import is_api_path, render_problem

GetResponse = Callable[[HttpRequest], HttpResponseBase]
_CROSS_SITE_VALUES = ("cross-site", "same-site")
_CROSS_SITE_REFUSAL = "This request came from another site. Open the page in Slipway, then try again."
# No page needs any of these; injected code could request a feature that is not listed.
_DISABLED_FEATURES = (
    "accelerometer",
    "camera",
    "display-capture",
    "geolocation",
    "gyroscope",
    "magnetometer",
    "microphone",
    "midi",
    "payment",
    "usb",
    "xr-spatial-tracking",
)
_PASSKEY_FEATURES = ("publickey-credentials-create", "publickey-credentials-get")
_SECURITY_HEADERS = {
    "Permissions-Policy": ", ".join(
        [*(f"{name}=()" for name in _DISABLED_FEATURES), *(f"{name}=(self)" for name in _PASSKEY_FEATURES)]
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Reporting-Endpoints": 'csp="/csp-reports"',
}


class OriginPolicyMiddleware:
    """Middleware that rejects cross-site requests with our cookies, except links to pages."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if is_cross_site(request):
            return render_problem(request, 403, detail=_CROSS_SITE_REFUSAL)
        return self.get_response(request)


def is_cross_site(request: HttpRequest) -> bool:
    """Return whether another site sent this request, except a followed link.

    Programs send no such headers, and browsers never add an API key by themselves.
    """
    headers = request.headers
    if (
        headers.get("Sec-Fetch-Site") not in _CROSS_SITE_VALUES
        or "x-api-key" in headers
        or "Authorization" in headers
    ):
        return False
    is_link = headers.get("Sec-Fetch-Mode") == "navigate" and request.method in ("GET", "HEAD")
    return not (is_link and headers.get("Sec-Fetch-Dest", "document") == "document")


class SecurityHeadersMiddleware:
    """Middleware that adds security headers; headers of a view take precedence."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        for name, value in _SECURITY_HEADERS.items():
            response.setdefault(name, value)
        is_api = is_api_path(request.path)
        response.setdefault("Cache-Control", "no-store" if is_api else "private, no-cache")
        return response


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
            request, 429, detail=f"Rate limit of {CSP_REPORTS_PER_ADDRESS} per minute exceeded."
        )
        response["Retry-After"] = "60"
        return response
    if request.content_type not in _REPORT_TYPES:
        return render_problem(
            request,
            415,
            detail=f"Send the report with one of these content types: {', '.join(_REPORT_TYPES)}.",
        )
    if len(request.body) > CSP_REPORT_BYTES:
        return render_problem(request, 413, detail=f"A report must be at most {CSP_REPORT_BYTES}.")
    try:
        document = parse_json(request.body.decode("utf-8", "replace"))
    except InputRejected as error:
        return render_problem(request, 400, detail=error.problem.display_message)
    for report in _list_reports(document)[:_MOST_REPORTS]:
        log.warning("A page was not allowed something: %s", json.dumps(report))
    return HttpResponse(status=204)


def _list_reports(document: Any) -> list[dict[str, str]]:
    """Return the violations of a body: {"csp-report": {…}}, or a list of {"type": "csp-violation", "body":
    {…}}.
    """
    reports = document if isinstance(document, list) else [document]
    bodies = [report.get("body", report.get("csp-report")) for report in reports if isinstance(report, dict)]
    return [_format_report(body) for body in bodies if isinstance(body, dict)]


def _format_report(body: dict[str, Any]) -> dict[str, str]:
    fields = {names[0]: next((body[name] for name in names if name in body), "") for names in _REPORT_FIELDS}
    # Addresses may hold what a person typed: only what comes before the question mark is kept.
    return {
        name: sanitize_text(str(value)).split("?")[0][:_VALUE_CHARACTERS] for name, value in fields.items()
    }
