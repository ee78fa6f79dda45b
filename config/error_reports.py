"""Reports of unexpected errors to Sentry, where `SENTRY_DSN` is set: without requests, people and secrets."""

import copy
import logging
from collections.abc import Mapping
from typing import Any, Final, cast

from django.conf import settings

from guards.log_lines import LOG_FIELDS, get_log_fields
from guards.masks import SecretMask
from web.http.outages import OutageLogFilter

# What an event may have; others describe requests, people, arguments or the machine.
_EVENT_PARTS: Final = (
    "event_id",
    "timestamp",
    "level",
    "logger",
    "logentry",
    "message",
    "exception",
    "threads",
    "breadcrumbs",
    "transaction",
    "transaction_info",
    "tags",
    "release",
    "environment",
    "platform",
    "sdk",
    "server_name",
    "modules",
    "type",
)
NOT_INSTALLED: Final = "SENTRY_DSN is set, and sentry-sdk is not installed: install slipway[sentry] (%s)"
logger = logging.getLogger(__name__)
Event = dict[str, Any]


def start_error_reporting() -> None:
    """Report unexpected errors of this process from now on; without a DSN, import nothing.

    The variables SENTRY_ENVIRONMENT and SENTRY_RELEASE apply.
    """
    if not settings.ENV.sentry_dsn:
        return
    try:
        import sentry_sdk
        from sentry_sdk.integrations.celery import CeleryIntegration
        from sentry_sdk.integrations.logging import ignore_logger
    except ImportError as missing:
        logger.error(NOT_INSTALLED, missing)
        return
    # Anybody can send requests with another host name.
    ignore_logger("django.security.DisallowedHost")
    scrubber = EventScrubber(settings.ENV.secrets)
    sentry_sdk.init(
        dsn=settings.ENV.sentry_dsn,
        release=f"slipway@{settings.SLIPWAY_VERSION}",
        send_default_pii=False,
        include_local_variables=False,
        max_request_body_size="never",
        # Messages stay as they are; the traces of OpenTelemetry are separate.
        integrations=[CeleryIntegration(propagate_traces=False)],
        before_send=cast("Any", scrubber.scrub),
        before_breadcrumb=filter_breadcrumb,
    )


def filter_breadcrumb(crumb: Event, _hint: Mapping[str, Any]) -> Event | None:
    """Return a breadcrumb if it is a line of the log: others have URLs, commands and queries."""
    if crumb.get("type") != "log":
        return None
    return {name: value for name, value in crumb.items() if name != "data"}


class EventScrubber:
    """Scrubber of events: only some parts, with known secrets redacted and the fields of the log as tags."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._mask = SecretMask(secrets)
        self._outages = OutageLogFilter()

    def scrub(self, event: Event, hint: Mapping[str, Any]) -> Event | None:
        """Return an event as it may be sent; None for a repeated line about an outage."""
        record = hint.get("log_record")
        if record is not None and not self._outages.filter(copy.copy(record)):
            return None
        parts = {name: event[name] for name in _EVENT_PARTS if name in event}
        # A URL without a route has no other name than its path.
        if event.get("transaction_info", {}).get("source") == "url":
            parts.pop("transaction", None)
        parts["tags"] = {**event.get("tags", {}), **_get_fields(record)}
        scrubbed: Event = self._mask.mask_json(parts)
        return scrubbed


def _get_fields(record: logging.LogRecord | None) -> dict[str, str]:
    own = vars(record) if record is not None else {}
    return get_log_fields() | {name: str(own[name]) for name in LOG_FIELDS if own.get(name) is not None}
