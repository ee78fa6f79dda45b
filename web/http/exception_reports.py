"""Reports of unexpected errors, without any values."""

from collections.abc import ItemsView
from types import FrameType
from typing import Any, Final

from django.http import HttpRequest
from django.views.debug import ExceptionReporter, SafeExceptionReporterFilter

# Fields that identify a request; all others could contain a key, a cookie or a secret.
_META_KEYS: Final = ("REQUEST_METHOD", "PATH_INFO", "CONTENT_TYPE", "CONTENT_LENGTH", "REMOTE_ADDR")


class ValueRedactionFilter(SafeExceptionReporterFilter):
    """Leaves out variables, settings, cookies and headers, in every mode; of a form its names stay."""

    def is_active(self, request: HttpRequest | None) -> bool:
        """Return whether the filter is active, which is always the case."""
        return True

    def get_safe_settings(self) -> dict[str, Any]:
        """Return no settings: they contain keys."""
        return {}

    def get_safe_request_meta(self, request: HttpRequest) -> dict[str, Any]:
        """Return the parts of the request that identify it."""
        meta = getattr(request, "META", {})
        return {key: meta[key] for key in _META_KEYS if key in meta}

    def get_safe_cookies(self, request: HttpRequest) -> dict[str, Any]:
        """Return no cookies: they are as powerful as a password."""
        return {}

    def get_post_parameters(self, request: HttpRequest | None) -> dict[str, Any]:
        """Return the names of the fields that were sent."""
        return dict.fromkeys(request.POST, self.cleansed_substitute) if request is not None else {}

    def get_traceback_frame_variables(
        self, request: HttpRequest | None, tb_frame: FrameType
    ) -> ItemsView[str, Any]:
        """Return no variables: any argument may be a secret."""
        nothing: dict[str, Any] = {}
        return nothing.items()


class RedactedExceptionReporter(ExceptionReporter):
    """A report of where an error happened."""

    def get_traceback_data(self) -> dict[str, Any]:
        """Return the frames without the request and its data."""
        data: dict[str, Any] = super().get_traceback_data()
        return data | {"request_GET_items": [], "request_FILES_items": [], "user_str": "[hidden]"}
