"""What a browser says of where a request comes from, and what every answer tells it to keep to."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

from web.views import refusal

Answer = Callable[[HttpRequest], HttpResponseBase]
_OTHERS = ("cross-site", "same-site")
_OTHER_SITE = "This request came from another site. Open the page here, and do it again."
# Nothing here needs any of these; what is not named, a page of ours could be made to ask for.
_UNUSED = (
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
_HEADERS = {
    "Permissions-Policy": ", ".join(f"{name}=()" for name in _UNUSED),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Reporting-Endpoints": 'csp="/csp-reports"',
}


class OwnSite:
    """Refuses what other sites make a browser ask with our cookies: all but following a link to here."""

    def __init__(self, get_response: Answer) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if is_from_elsewhere(request):
            return refusal(request, 403, detail=_OTHER_SITE)
        return self.get_response(request)


def is_from_elsewhere(request: HttpRequest) -> bool:
    """Whether another site made this request, and it is no link that somebody followed.

    Programs say nothing of it, and a key is nothing that a browser adds by itself.
    """
    headers = request.headers
    if headers.get("Sec-Fetch-Site") not in _OTHERS or "x-api-key" in headers or "Authorization" in headers:
        return False
    is_link = headers.get("Sec-Fetch-Mode") == "navigate" and request.method in ("GET", "HEAD")
    return not (is_link and headers.get("Sec-Fetch-Dest", "document") == "document")


class AnswerHeaders:
    """Adds what every answer says to browsers; what a view has said itself stays."""

    def __init__(self, get_response: Answer) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        for name, value in _HEADERS.items():
            response.setdefault(name, value)
        is_api = request.path.startswith("/api/")
        response.setdefault("Cache-Control", "no-store" if is_api else "private, no-cache")
        return response
