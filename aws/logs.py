"""The CloudWatch Logs verbs: the last lines that a container wrote."""

from dataclasses import dataclass
from datetime import UTC, datetime

from aws.caller import Caller
from aws.errors import NotFound


@dataclass(frozen=True)
class LogEvent:
    """One line of a log stream."""

    at: datetime
    message: str


@dataclass(frozen=True)
class Logs:
    """Speaks CloudWatch Logs through a caller."""

    caller: Caller

    def tail(self, group: str, stream: str, limit: int = 20) -> list[LogEvent]:
        """The stream's last lines, oldest first; none if the container never wrote one."""
        params = {"logGroupName": group, "logStreamName": stream, "limit": limit, "startFromHead": False}
        try:
            answer = self.caller.call("logs", "GetLogEvents", params)
        except NotFound:
            return []
        return [
            LogEvent(datetime.fromtimestamp(one.get("timestamp", 0) / 1000, UTC), one.get("message", ""))
            for one in answer.get("events", ())
        ]
