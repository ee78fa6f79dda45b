"""Middleware that refuses NUL characters and too many fields in URLs and forms."""

from collections.abc import Callable, Iterable
from typing import Any

from django.http import HttpRequest, HttpResponseBase, QueryDict

from guards.input_problems import InputProblem
from guards.limits import QUERY_FIELDS
from guards.text import find_text_problem
from web.http.error_pages import is_api_path, render_problem
from web.http.problems import build_problem

GetResponse = Callable[[HttpRequest], HttpResponseBase]
# A few bytes may expand to gigabytes; only agents compress requests, which are measured decompressed.
_COMPRESSED_BODY = "Compressed request bodies are not supported. Send the body without Content-Encoding."
_FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data")


class TextMiddleware:
    """Middleware that rejects NUL, which PostgreSQL cannot store, and URLs with many fields."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if fault := find_text_problem(request.path):
            return _render_refusal(request, [fault.to_json() | {"path": "path"}])
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            return render_problem(
                request, 415, content=build_problem(415, code="packed", detail=_COMPRESSED_BODY)
            )
        if request.META.get("QUERY_STRING", "").count("&") >= QUERY_FIELDS:
            problem = InputProblem(f"a URL must have at most {QUERY_FIELDS}", "leave out empty parameters")
            return _render_refusal(request, [problem.to_json() | {"path": "query"}])
        if errors := _find_faults(request.GET):
            return _render_refusal(request, errors)
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *_view: Any) -> HttpResponseBase | None:
        # Addresses for programs read bodies by themselves, and no forms.
        if request.method != "POST" or request.content_type not in _FORM_TYPES or is_api_path(request.path):
            return None
        errors = _find_faults(request.POST)
        return _render_refusal(request, errors) if errors else None


def _find_faults(fields: QueryDict) -> list[dict[str, Any]]:
    faults: Iterable[tuple[str, InputProblem | None]] = (
        (name, find_text_problem(name) or find_text_problem(value))
        for name, values in fields.lists()
        for value in values
    )
    return [
        fault.to_json() | {"path": name.replace("\0", "")[:100]}
        for name, fault in faults
        if fault is not None
    ]


def _render_refusal(request: HttpRequest, errors: list[dict[str, Any]]) -> HttpResponseBase:
    detail = "; ".join(f"{error['path']}: {error['message']}" for error in errors[:3])
    return render_problem(
        request, 400, content=build_problem(400, code="bad_input", detail=f"{detail}.", errors=errors)
    )
