"""Problem documents (RFC 9457) and the exceptions that become one."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from django.core.exceptions import PermissionDenied
from django.core.exceptions import ValidationError as ModelValidationError
from django.db import DataError
from django.http import Http404
from psycopg.errors import NumericValueOutOfRange
from rest_framework import exceptions
from rest_framework.response import Response

from rbac.archive_guards import ScopeBusy
from rbac.audit import NO_REQUEST, current_request
from rbac.policy import Forbidden
from web.http.outages import RETRY_AFTER_SECONDS, describe_outage, is_outage, log_outage

PROBLEM_MEDIA_TYPE = "application/problem+json"
NUMBER_TOO_LARGE = "A number in the URL or the request body is too large. Use a smaller number."
# Ten thousand wrong values need no response of ten times the size.
MOST_ERRORS = 100
# The code of a `ValidationError` about the current state and not about the input.
STATE_ERROR_CODE = "state"
NOT_FOUND_DETAIL = "Not found, or you cannot view it."

STATUS_TITLES = {
    400: "Bad request",
    401: "Not signed in",
    403: "Access denied",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    408: "Request timeout",
    409: "Conflict",
    412: "Version conflict",
    413: "Request too large",
    414: "URL too long",
    415: "Unsupported media type",
    422: "Unprocessable content",
    429: "Too many requests",
    500: "Server error",
    503: "Temporarily unavailable",
}


class Problem(Exception):
    """Error for the caller; operations raise its subclasses."""

    status: ClassVar[int] = 400
    code: ClassVar[str] = "problem"

    def __init__(self, detail: str = "", *, errors: Iterable[Mapping[str, Any]] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = [dict(error) for error in errors]


class BadInput(Problem):
    """Error raised for invalid input; its errors have the format {"path", "message"}."""

    status = 400
    code = "bad_input"


class ScopeNotFound(BadInput):
    """Error raised for a scope that is missing or not visible."""

    status = 404
    code = "no_such_scope"


class PageNotFound(BadInput):
    """A list has no page that begins there."""

    status = 404
    code = "no_such_page"


class Conflict(Problem):
    """The thing is not in a state that allows this."""

    status = 409
    code = "conflict"


class ResourceInUse(Conflict):
    """The thing cannot go away: something still uses it."""

    code = "still_used"


class VersionConflict(Problem):
    """If-Match names a version that is no longer the current one."""

    status = 412
    code = "changed_meanwhile"


class TooManyRequests(Problem):
    """Error raised above a rate limit."""

    status = 429
    code = "too_many"


class TooLarge(Problem):
    """The body is larger than anything that Slipway stores."""

    status = 413
    code = "too_large"


class ServiceUnavailable(Problem):
    """Something that Slipway needs does not answer."""

    status = 503
    code = "not_available"


def is_number_too_large(exc: BaseException) -> bool:
    """Return whether the database refused a number that fits no column; frameworks pass such on from
    addresses.
    """
    is_refused = isinstance(exc, DataError) and isinstance(exc.__cause__, NumericValueOutOfRange)
    return is_refused or isinstance(exc, OverflowError)


def build_problem(
    status: int, *, code: str, detail: str = "", errors: Iterable[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Return a problem document as plain values."""
    title = STATUS_TITLES.get(status, "Problem")
    content: dict[str, Any] = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "code": code,
        "detail": detail or title,
    }
    if listed := [dict(error) for error in errors]:
        content["errors"] = listed[:MOST_ERRORS]
    if len(listed) > MOST_ERRORS:
        content["errors"].append({"path": "", "message": f"and {len(listed) - MOST_ERRORS} more"})
    content["request_id"] = current_request.get(NO_REQUEST).request_id
    return content


def handle_api_exception(exc: Exception, context: Mapping[str, Any]) -> Response | None:
    """Return the problem document for `exc`, or None for a bug."""
    content = convert_exception(exc)
    if content is None:
        return None
    response = Response(content, status=content["status"], content_type=PROBLEM_MEDIA_TYPE)
    if challenge := getattr(exc, "auth_header", None):
        response["WWW-Authenticate"] = challenge
    if wait := getattr(exc, "wait", None):
        response["Retry-After"] = str(max(1, math.ceil(wait)))
    elif is_outage(exc):
        # The framework's own request is the one it logs.
        log_outage(exc, context["request"]._request)
        response["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return response


def convert_exception(exc: Exception) -> dict[str, Any] | None:
    """Return the problem document of an expected exception, or None."""
    if isinstance(exc, Problem):
        return build_problem(exc.status, code=exc.code, detail=exc.detail, errors=exc.errors)
    if isinstance(exc, Http404):
        # The message is not shown: foreign and missing resources must look the same.
        return build_problem(404, code="not_found", detail=NOT_FOUND_DETAIL)
    if isinstance(exc, PermissionDenied | ScopeBusy):
        return _convert_access_error(exc)
    if is_number_too_large(exc):
        return build_problem(400, code="bad_input", detail=NUMBER_TOO_LARGE)
    if isinstance(exc, ModelValidationError):
        return _convert_validation_error(exc)
    if isinstance(exc, exceptions.APIException):
        return _convert_api_exception(exc)
    if is_outage(exc):
        return build_problem(503, code="not_available", detail=describe_outage(exc))
    return None


def _convert_validation_error(exc: ModelValidationError) -> dict[str, Any]:
    status, code = (409, "conflict") if getattr(exc, "code", None) == STATE_ERROR_CODE else (400, "bad_input")
    return build_problem(status, code=code, detail=_summarize(exc), errors=_list_model_errors(exc))


def _convert_access_error(exc: PermissionDenied | ScopeBusy) -> dict[str, Any]:
    if isinstance(exc, ScopeBusy):
        return build_problem(409, code="conflict", detail=exc.detail)
    errors = [{"path": "", "message": exc.permission}] if isinstance(exc, Forbidden) else []
    return build_problem(403, code="forbidden", detail=str(exc), errors=errors)


def _convert_api_exception(exc: exceptions.APIException) -> dict[str, Any]:
    if isinstance(exc, exceptions.ValidationError):
        errors = list(_flatten_errors(exc.detail))
        return build_problem(400, code="bad_input", detail="The input is not valid.", errors=errors)
    if isinstance(exc, exceptions.NotFound):
        return build_problem(404, code="not_found", detail=NOT_FOUND_DETAIL)
    code = exc.get_codes()
    return build_problem(
        exc.status_code, code=code if isinstance(code, str) else "problem", detail=str(exc.detail)
    )


def _flatten_errors(detail: Any, path: str = "") -> Iterable[dict[str, str]]:
    """Yield one {"path", "message"} per message of a nested DRF error."""
    if isinstance(detail, Mapping):
        for key, value in detail.items():
            name = "" if key == "non_field_errors" else str(key)
            yield from _flatten_errors(value, f"{path}.{name}".strip(".") if name else path)
    elif isinstance(detail, list):
        for index, value in enumerate(detail):
            nested = isinstance(value, Mapping | list)
            yield from _flatten_errors(value, f"{path}.{index}".strip(".") if nested else path)
    else:
        yield {"path": path, "message": str(detail)}


def _list_model_errors(exc: ModelValidationError) -> list[dict[str, str]]:
    if not hasattr(exc, "error_dict"):
        return [{"path": "", "message": message} for message in exc.messages]
    return [
        {"path": "" if field == "__all__" else field, "message": message}
        for field, messages in exc.message_dict.items()
        for message in messages
    ]


def _summarize(exc: ModelValidationError) -> str:
    return exc.messages[0] if len(exc.messages) == 1 else "The input is not valid."
