"""Report on retention: what is stored of each kind, how long, and what the next prune deletes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.contrib.contenttypes.models import ContentType
from django.db.models import Subquery

from deployments.models import AwsCall, AwsEvent, LogChunk, Pulse
from ops.table_sizes import TableSize, measure_tables
from web.retention import RetentionRule, list_retention_groups

PULSE_PREFIX: Final = "prune "
# More expired rows than this are not counted.
COUNTED_EXPIRED: Final = 10_000
# A prune that is later than this did not run.
OVERDUE_AFTER: Final = timedelta(minutes=5)
# Large tables without a rule of their own: rows go with their execution.
EXECUTION_TABLES: Final = {
    LogChunk: "Logs of executions",
    AwsCall: "AWS calls of executions",
    AwsEvent: "AWS events of executions",
}
DETAIL_SETTING: Final = "SLIPWAY_KEEP_EXECUTION_DETAILS_DAYS"


@dataclass(frozen=True)
class KindReport:
    """Stored rows of one kind. `size` is that of the table; `oldest` is the age that counts.

    `expired` is the number of rows that the next prune takes; None where no rule of its own deletes them.
    """

    title: str
    table: str
    size: TableSize
    period: timedelta | None
    setting: str
    oldest: datetime | None = None
    expired: int | None = None
    next_at: datetime | None = None
    is_first_of_table: bool = True
    is_overdue: bool = False

    @property
    def row_count(self) -> str:
        """Return the rows of the table in words."""
        return f"{'about ' if self.size.is_estimate else ''}{self.size.rows:,}"

    @property
    def expired_count(self) -> str:
        """Return the rows that the next prune deletes in words."""
        expired = self.expired or 0
        if expired > COUNTED_EXPIRED:
            return f"More than {COUNTED_EXPIRED:,} rows"
        return f"{expired:,} row{'' if expired == 1 else 's'}"

    @property
    def kept_for(self) -> str:
        """Return the period in words."""
        if self.period is not None:
            return format_period(self.period)
        return "As long as the execution" if self.setting == DETAIL_SETTING else "Forever"


def record_prune(group: str, now: datetime) -> None:
    """Record that a group was pruned."""
    Pulse.objects.update_or_create(name=f"{PULSE_PREFIX}{group}", defaults={"at": now})


def build_retention_report(now: datetime) -> list[KindReport]:
    """Return the kinds of rows by group; a query for each rule with expired rows, and five for all."""
    groups = list_retention_groups()
    models = {rule.rows.model for rules in groups.values() for rule in rules} | EXECUTION_TABLES.keys()
    sizes = measure_tables({model._meta.db_table for model in models})
    last = dict(Pulse.objects.filter(name__startswith=PULSE_PREFIX).values_list("name", "at"))
    oldest = iter(_find_oldest([rule for rules in groups.values() for rule in rules]))
    reports: list[KindReport] = []
    for group, rules in groups.items():
        interval = _get_interval(group)
        previous = last.get(f"{PULSE_PREFIX}{group}")
        next_at = None if interval is None else max(now, (previous or now) + interval)
        overdue = bool(interval and previous and now > previous + interval + OVERDUE_AFTER)
        for rule in rules:
            report = _report_rule(rule, sizes, next(oldest), next_at or now)
            next_prune = next_at if rule.period is not None else None
            reports.append(replace(report, next_at=next_prune, is_overdue=overdue))
    reports += _report_execution_tables(sizes)
    return list(_mark_first_of_table(reports))


def format_period(period: timedelta) -> str:
    """Return a length of time in the largest unit that fits: 30 days, 25 hours, 10 minutes."""
    seconds = int(period.total_seconds())
    if not seconds:
        return "Until it expires"
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds % length == 0:
            count = seconds // length
            return f"{count:,} {unit}{'' if count == 1 else 's'}"
    return f"{seconds:,} seconds"


def _get_interval(group: str) -> timedelta | None:
    entry = settings.CELERY_BEAT_SCHEDULE.get(f"prune-{group}")
    return timedelta(seconds=float(str(entry["schedule"]))) if entry else None


def _report_rule(
    rule: RetentionRule, sizes: dict[str, TableSize], oldest: datetime | None, at: datetime
) -> KindReport:
    table = rule.rows.model._meta.db_table
    expires = rule.period is not None and (
        not rule.column or (oldest is not None and oldest < at - rule.period)
    )
    return KindReport(
        title=rule.title,
        table=table,
        size=sizes[table],
        period=rule.period,
        setting=rule.setting,
        oldest=oldest,
        expired=_count_expired(rule, at) if expires else 0,
    )


def _find_oldest(rules: Sequence[RetentionRule]) -> list[datetime | None]:
    """Return the oldest time of each rule's rows, in one query."""
    times = [
        Subquery(
            rule.rows.filter(**{f"{rule.column}__isnull": False})
            .order_by(rule.column)
            .values(rule.column)[:1]
        )
        for rule in rules
        if rule.column
    ]
    # Any table with a row: each column is a query of its own.
    found = iter(ContentType.objects.values_list(*times)[:1].get())
    return [next(found) if rule.column else None for rule in rules]


def _count_expired(rule: RetentionRule, at: datetime) -> int:
    return rule.filter_expired(at).order_by()[: COUNTED_EXPIRED + 1].count()


def _report_execution_tables(sizes: dict[str, TableSize]) -> Iterable[KindReport]:
    days = settings.RETENTION_DAYS[DETAIL_SETTING]
    for model, title in EXECUTION_TABLES.items():
        table = model._meta.db_table
        yield KindReport(title, table, sizes[table], timedelta(days=days) if days else None, DETAIL_SETTING)


def _mark_first_of_table(reports: Iterable[KindReport]) -> Iterable[KindReport]:
    """Yield the reports; a table of several kinds shows its size once."""
    seen: set[str] = set()
    for report in reports:
        yield replace(report, is_first_of_table=report.table not in seen)
        seen.add(report.table)
