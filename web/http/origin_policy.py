"""Middleware that refuses cross-site requests and sets security headers on responses."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

from web.http.error_pages import render_problem

GetResponse = Callable[[HttpRequest], HttpResponseBase]
_CROSS_SITE_VALUES = ("cross-site", "same-site")
_CROSS_SITE_REFUSAL = "This request came from another site. Open the page here, and do it again."
# Nothing here needs any of these; what is not named, a page of ours could be made to ask for.
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
    "publickey-credentials-get",
    "usb",
    "xr-spatial-tracking",
)
_SECURITY_HEADERS = {
    "Permissions-Policy": ", ".join(f"{name}=()" for name in _DISABLED_FEATURES),
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
        is_api = request.path.startswith("/api/")
        response.setdefault("Cache-Control", "no-store" if is_api else "private, no-cache")
        return response
