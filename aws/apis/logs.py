"""Client for CloudWatch Logs: lines of a log stream."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from aws.caller import Caller
from aws.errors import NotFound

# In the year 5138, which every part of Slipway can show.
_MAX_MILLISECONDS = 10**14


@dataclass(frozen=True)
class LogEvent:
    """One line of a log stream."""

    at: datetime
    message: str


@dataclass(frozen=True)
class LogPage:
    """Lines of a stream, oldest first, with the token of the next page."""

    events: tuple[LogEvent, ...]
    token: str


@dataclass(frozen=True)
class LogsClient:
    """Speaks CloudWatch Logs through a caller."""

    caller: Caller

    def read(self, group: str, stream: str, token: str = "", limit: int = 100) -> LogPage:
        """Return the stream's lines after `token`, or from its start.

        Empty before the first output, or without the stream.
        """
        params = {"logGroupName": group, "logStreamName": stream, "limit": limit, "startFromHead": True}
        try:
            response = self.caller.call(
                "logs", "GetLogEvents", params | ({"nextToken": token} if token else {})
            )
        except NotFound:
            return LogPage((), token)
        return LogPage(_parse_log_events(response), response.get("nextForwardToken") or token)

    def tail(self, group: str, stream: str, limit: int = 20) -> list[LogEvent]:
        """Return the stream's last lines, oldest first; none without output."""
        params = {"logGroupName": group, "logStreamName": stream, "limit": limit, "startFromHead": False}
        try:
            response = self.caller.call("logs", "GetLogEvents", params)
        except NotFound:
            return []
        return list(_parse_log_events(response))


def _parse_log_events(response: Mapping[str, Any]) -> tuple[LogEvent, ...]:
    return tuple(
        LogEvent(_parse_time(event.get("timestamp", 0)), event.get("message", ""))
        for event in response.get("events") or ()
    )


def _parse_time(milliseconds: int) -> datetime:
    # A delegate may return any number.
    return datetime.fromtimestamp(min(max(milliseconds, 0), _MAX_MILLISECONDS) / 1000, UTC)
