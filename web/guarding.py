"""What no page needs to look for by itself: texts in addresses and forms that nothing could store."""

from collections.abc import Callable, Iterable
from typing import Any

from django.http import HttpRequest, HttpResponseBase, QueryDict

from guards.fault import Fault
from guards.limits import QUERY_FIELDS
from guards.text import text_fault
from web.problems import document
from web.views import refusal

Answer = Callable[[HttpRequest], HttpResponseBase]
# A few bytes may stand for gigabytes; only agents pack what they send, and are measured unpacked.
_PACKED = "The body is packed. Send it as it is, without Content-Encoding."
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


class Guard:
    """Refuses NUL, which PostgreSQL cannot hold, in every address and form; and addresses of many fields."""

    def __init__(self, get_response: Answer) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if fault := text_fault(request.path):
            return _refused(request, [fault.as_error() | {"path": "path"}])
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            return refusal(request, 415, content=document(415, code="packed", detail=_PACKED))
        if request.META.get("QUERY_STRING", "").count("&") >= QUERY_FIELDS:
            what = Fault(f"an address may have {QUERY_FIELDS}", "leave out what is empty")
            return _refused(request, [what.as_error() | {"path": "query"}])
        if errors := _faults(request.GET):
            return _refused(request, errors)
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *_view: Any) -> HttpResponseBase | None:
        # The API reads bodies by itself, and no forms.
        if request.method != "POST" or request.content_type not in _FORMS or request.path.startswith("/api/"):
            return None
        errors = _faults(request.POST)
        return _refused(request, errors) if errors else None


def _faults(fields: QueryDict) -> list[dict[str, Any]]:
    found: Iterable[tuple[str, Fault | None]] = (
        (name, text_fault(name) or text_fault(value)) for name, values in fields.lists() for value in values
    )
    return [
        fault.as_error() | {"path": name.replace("\0", "")[:100]}
        for name, fault in found
        if fault is not None
    ]


def _refused(request: HttpRequest, errors: list[dict[str, Any]]) -> HttpResponseBase:
    detail = "; ".join(f"{error['path']}: {error['message']}" for error in errors[:3])
    return refusal(request, 400, content=document(400, code="bad_input", detail=f"{detail}.", errors=errors))
