"""Schedule: at times of a cron expression, in a time zone."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from pipelines.triggers.base import Setting, TriggerEvent, TriggerKind
from pipelines.triggers.registry import register_kind

CRON, TIME_ZONE = "cron", "time_zone"
SHOWN_TIMES: Final = 5
_FIELDS: Final = 5


@register_kind
class Schedule(TriggerKind):
    """Times as Debian's cron knows them.

    When clocks go forward, a time that is skipped runs right after the gap; when they go back, a time at a
    certain hour runs once.
    """

    identifier = "schedule"
    title = "Schedule"
    description = "at times of a cron expression, such as each night"
    settings = (
        Setting(
            CRON,
            "Cron expression",
            "Minute, hour, day of the month, month, day of the week. 30 2 * * 1-5 is 02:30 from Monday to "
            "Friday.",
            is_required=True,
        ),
        Setting(
            TIME_ZONE,
            "Time zone",
            "IANA name, such as Europe/Berlin. Times follow its daylight saving.",
            is_required=True,
            default="UTC",
        ),
    )
    values = {"scheduled_at": "Time of the schedule, which a late run keeps"}
    has_payload = False
    has_times = True

    def list_problems(self, spec: Mapping[str, Any]) -> list[dict[str, str]]:
        """Return the problems of the expression and of the time zone."""
        if problems := super().list_problems(spec):
            return problems
        if not _find_zone(spec):
            message = "Enter an IANA time zone, such as Europe/Berlin."
            return [{"path": f"spec.{TIME_ZONE}", "message": message}]
        if problem := _find_cron_problem(spec):
            return [{"path": f"spec.{CRON}", "message": problem}]
        return []

    def get_next_due(self, spec: Mapping[str, Any], after: datetime) -> datetime | None:
        """Return the first time of the schedule after a moment."""
        return next(_iterate_times(spec, after), None)

    def build_due_event(self, spec: Mapping[str, Any], due_at: datetime) -> TriggerEvent:
        """Return the event of a time. It is one event, whatever the clocks of workers do."""
        scheduled_at = due_at.astimezone(UTC).isoformat()
        local = due_at.astimezone(_find_zone(spec) or UTC)
        key = f"schedule:{scheduled_at}"
        summary = f"schedule {local:%Y-%m-%d %H:%M} {spec.get(TIME_ZONE, 'UTC')}"
        return TriggerEvent(key, key, summary, {"scheduled_at": scheduled_at})

    def read_events(
        self, spec: Mapping[str, Any], payload: Any, headers: Mapping[str, str]
    ) -> list[TriggerEvent]:
        """Return the event of now, for a trial."""
        return [self.build_due_event(spec, datetime.now(UTC))]

    def list_next_times(self, spec: Mapping[str, Any], now: datetime) -> list[datetime]:
        """Return the next times."""
        return list(islice(_iterate_times(spec, now), SHOWN_TIMES))


def _iterate_times(spec: Mapping[str, Any], after: datetime) -> Iterator[datetime]:
    zone = _find_zone(spec) or ZoneInfo("UTC")
    times = (time.astimezone(UTC) for time in CronSim(spec[CRON], after.astimezone(zone)))
    # In the hour that comes twice, the first of two equal local times may be over.
    return (time for time in times if time > after)


def _find_zone(spec: Mapping[str, Any]) -> ZoneInfo | None:
    try:
        return ZoneInfo(spec.get(TIME_ZONE, "UTC"))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _find_cron_problem(spec: Mapping[str, Any]) -> str:
    text = spec[CRON]
    if len(text.split()) != _FIELDS:
        return f"Enter {_FIELDS} fields: minute, hour, day of the month, month, day of the week."
    try:
        times = _iterate_times(spec, datetime.now(UTC))
        return "" if next(times, None) else "This time never comes: no month has such a day."
    except CronSimError as error:
        return f"This is not a cron expression: {_describe_error(error)}."


def _describe_error(error: CronSimError) -> str:
    """Return which field is wrong, with the names of the form."""
    field = str(error).removeprefix("Bad ").replace("-", " ").replace("of ", "of the ")
    return f"the {field} is wrong"
