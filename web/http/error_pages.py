"""Errors as a page for people and as a problem document for programs."""

import sys
from typing import Any

from django.core.exceptions import (
    DisallowedHost,
    RequestDataTooBig,
    TooManyFieldsSent,
    TooManyFilesSent,
)
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.multipartparser import MultiPartParserError
from django.template.loader import render_to_string

from guards.limits import BODY_BYTES, FORM_FIELDS, FORM_FILES
from web.http.outages import RETRY_AFTER_SECONDS, describe_outage, is_outage, log_outage
from web.http.problems import NOT_FOUND_DETAIL, PROBLEM_MEDIA_TYPE, build_problem

SERVER_ERROR_STATUS = 500
PROBLEM_CODES = {400: "bad_input", 403: "forbidden", 404: "not_found", 413: "too_large", 500: "server_error"}
# Errors that Django raises before a view, with a remedy.
_DJANGO_REFUSALS: tuple[tuple[type[Exception], int, str], ...] = (
    (DisallowedHost, 400, "This host name is not allowed. Add it to ALLOWED_HOSTS."),
    (RequestDataTooBig, 413, f"The form data must be at most {BODY_BYTES}."),
    (TooManyFieldsSent, 400, f"A form must have at most {FORM_FIELDS}."),
    (TooManyFilesSent, 400, f"Upload at most {FORM_FILES} at once."),
    (MultiPartParserError, 400, "The form data is not valid multipart/form-data (RFC 7578)."),
)


def is_api_path(path: str) -> bool:
    """Return whether programs are answered at a path; the pages that describe the API are for people."""
    return path.startswith(("/api/", "/hooks/")) and not path.startswith("/api/docs/")


def render_problem(
    request: HttpRequest,
    status: int,
    *,
    detail: str = "",
    content: dict[str, Any] | None = None,
    template: str = "",
) -> HttpResponse:
    """Return an error page or problem document with `status`; `template` replaces the page of the status."""
    content = content or build_problem(status, code=PROBLEM_CODES.get(status, "problem"), detail=detail)
    if is_api_path(request.path) or "application/json" in request.headers.get("Accept", ""):
        return JsonResponse(content, status=status, content_type=PROBLEM_MEDIA_TYPE)
    # Server errors, and errors before authentication, are rendered without the request: the page must not
    # need a session or a database.
    page_request = request if status < SERVER_ERROR_STATUS and hasattr(request, "user") else None
    page = render_to_string([template or f"{status}.html", "400.html"], {"problem": content}, page_request)
    return HttpResponse(page, status=status)


def render_outage(request: HttpRequest, error: BaseException) -> HttpResponse:
    """Return the response for an unavailable or full database or broker, with a retry time."""
    log_outage(error, request)
    content = build_problem(503, code="not_available", detail=describe_outage(error))
    response = render_problem(request, 503, content=content)
    response["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return response


def handler400(request: HttpRequest, exception: Exception) -> HttpResponse:
    status, detail = 400, "The request is malformed."
    for kind, its_status, its_detail in _DJANGO_REFUSALS:
        if isinstance(exception, kind):
            status, detail = its_status, its_detail
    return render_problem(request, status, detail=detail)


def handler403(request: HttpRequest, exception: Exception) -> HttpResponse:
    return render_problem(request, 403, detail=str(exception))


def handler404(request: HttpRequest, exception: Exception) -> HttpResponse:
    return render_problem(request, 404, detail=NOT_FOUND_DETAIL)


def handler500(request: HttpRequest) -> HttpResponse:
    # A session that could not be kept comes this way, past everything that could have caught it.
    if (error := sys.exc_info()[1]) is not None and is_outage(error):
        return render_outage(request, error)
    return render_problem(
        request, 500, detail="Something went wrong on our side. Look for the request ID in the server logs."
    )


def handle_csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Return the response for a form without a valid CSRF token."""
    return render_problem(
        request,
        403,
        detail="The form has expired or was sent from another site. Reload the form and submit it again.",
        template="403_csrf.html",
    )
