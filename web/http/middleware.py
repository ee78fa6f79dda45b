"""Middleware for request ids, cached permissions and the current scope."""

import re
import time
import uuid
from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

from guards.log_lines import bind_log_fields
from rbac.archive_guards import ScopeBusy
from rbac.audit import RequestInfo, current_request
from rbac.models import Scope
from rbac.policy import cache_permissions, list_member_scopes
from web.database_guards import require_writable_database
from web.http.error_pages import is_api_path, render_outage, render_problem
from web.http.outages import OUTAGE_ERRORS, is_outage
from web.http.problems import Problem, convert_exception, is_number_too_large
from web.http.request_log import log_request
from web.http.sessions import SCOPE_KEY

GetResponse = Callable[[HttpRequest], HttpResponseBase]
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
# As the columns of addresses take it.
ADDRESS_CHARACTERS = 64
REQUEST_ID_PATTERN = re.compile(r"[A-Za-z0-9._-]{8,64}")
# Which door a request came by, as the audit trail calls it.
_SOURCES_BY_PREFIX = {"/api/": "api", "/admin/": "admin"}


class RequestIdMiddleware:
    """Middleware that gives each request an id, and renders expected errors of pages."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        sent = request.headers.get("X-Request-Id", "")
        request_id = sent if REQUEST_ID_PATTERN.fullmatch(sent) else uuid.uuid4().hex
        # A proxy may forward a text of any length in place of an address.
        address = request.META["REMOTE_ADDR"] = str(request.META.get("REMOTE_ADDR", ""))[:ADDRESS_CHARACTERS]
        source = next(
            (name for start, name in _SOURCES_BY_PREFIX.items() if request.path.startswith(start)), "page"
        )
        reset = current_request.set(RequestInfo(request_id=request_id, address=address, source=source))
        started = time.monotonic()
        try:
            with bind_log_fields(request_id=request_id):
                response = self.get_response(request)
                log_request(request, response, started=started)
        finally:
            current_request.reset(reset)
        response["X-Request-Id"] = request_id
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponseBase | None:
        if is_outage(exception):
            return render_outage(request, exception)
        is_told = isinstance(exception, Problem | ScopeBusy) or is_number_too_large(exception)
        content = convert_exception(exception) if is_told else None
        return render_problem(request, content["status"], content=content) if content else None


class DatabaseMiddleware:
    """Base of middleware with database queries; an outage there has the same response as in a view."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def prepare(self, request: HttpRequest) -> None:
        """Run the queries before the view."""
        raise NotImplementedError

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        try:
            self.prepare(request)
        except OUTAGE_ERRORS as error:
            if is_outage(error):
                return render_outage(request, error)
            raise
        return self.get_response(request)


class WriteGuardMiddleware(DatabaseMiddleware):
    """Middleware that answers 503 to requests that write while the database must not be changed."""

    def prepare(self, request: HttpRequest) -> None:
        if request.method not in SAFE_METHODS:
            require_writable_database()


class PermissionCacheMiddleware:
    """Middleware that reads the caller's permissions once for read-only requests.

    Other requests check each permission again, because they may change permissions.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.method not in ("GET", "HEAD"):
            return self.get_response(request)
        with cache_permissions():
            return self.get_response(request)


class CurrentScopeMiddleware(DatabaseMiddleware):
    """Middleware that sets `request.current_scope`: requested, last used, or first project."""

    def prepare(self, request: HttpRequest) -> None:
        request.current_scope = None  # type: ignore[attr-defined]
        if not is_api_path(request.path) and request.user.is_authenticated:
            request.current_scope = _get_current_scope(request)  # type: ignore[attr-defined]


def _get_current_scope(request: HttpRequest) -> Scope | None:
    requested, stored = request.GET.get("scope", ""), request.session.get(SCOPE_KEY, "")
    # Permissions may have changed: the path is always looked up among visible scopes.
    visible = list_member_scopes(request.user).select_related("parent")
    scopes = {scope.path: scope for scope in visible.filter(path__in=[requested, stored])}
    scope = scopes.get(requested) or scopes.get(stored)
    scope = scope or visible.filter(kind=Scope.Kind.PROJECT).order_by("pk").first()
    if scope is not None and scope.path != stored:
        request.session[SCOPE_KEY] = scope.path
    return scope
