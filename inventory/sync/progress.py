"""How far the sync of one cluster is: a chain of calls about all that runs there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Self

from django.db import transaction
from django.db.models import QuerySet

from aws.errors import AwsError, NotFound, Throttled, Unanswered, Unauthenticated, Undelivered
from inventory.models.instances import ServiceInstance, SyncedCluster
from inventory.sync import lacking, pausing
from inventory.sync.chains.chain import Chain
from inventory.sync.follow_ups import new_reading, recent_services
from inventory.sync.keeping.closing import close
from inventory.sync.keeping.growth import tell_who_scaled
from inventory.sync.keeping.health import groups_to_ask, keep_health
from inventory.sync.keeping.machines import keep_machines, machines_in_use
from inventory.sync.keeping.scaling import activities_to_ask, keep_activities, keep_targets, services_to_ask
from inventory.sync.keeping.services import keep_services
from inventory.sync.keeping.tasks import keep_tasks, known_stopped
from inventory.sync.keeping.usage import keep_usage, usages_to_ask
from inventory.sync.news import cluster_changed
from inventory.sync.reading import (
    ACTIVITIES,
    BESIDE,
    HEALTH,
    MACHINES,
    RUNNING,
    SCALING,
    SERVICES,
    STOPPED,
    USAGE,
    Question,
    Reading,
)
from inventory.sync.told import account_of, arns_of
from web.clock import database_now

INTERVAL: Final = timedelta(seconds=60)
NO_CLUSTER: Final = (
    "Create the cluster, or name the right one in the infrastructure: region and account count too."
)


# What each phase asks for that no list tells.
_WANTED: Final[Mapping[str, Callable[[SyncedCluster, datetime], list[str]]]] = {
    SCALING: services_to_ask,
    MACHINES: machines_in_use,
    ACTIVITIES: activities_to_ask,
    HEALTH: groups_to_ask,
    USAGE: usages_to_ask,
}


@dataclass
class Sync(Chain):
    """The sync of one cluster; its row is that of the cluster."""

    OWNER: ClassVar[str] = "sync"

    row: SyncedCluster
    reading: Reading

    @classmethod
    def rows(cls) -> "QuerySet[SyncedCluster]":
        return SyncedCluster.objects.select_related("connector__scope", "connector__secret")

    @classmethod
    def of_row(cls, row: SyncedCluster) -> Self:
        kept = row.reading
        return cls(row, Reading.from_row(kept) if kept else new_reading(row, database_now()))

    @property
    def cluster(self) -> SyncedCluster:
        return self.row

    @property
    def began(self) -> datetime:
        return datetime.fromisoformat(self.reading.began)

    def use_recent_reads(self) -> None:
        """Take over services that the engine described since their last change. Raises `TakenOver`."""
        now, pending = database_now(), self.reading.pending
        if not pending or self.reading.phase != SERVICES:
            return
        answers = recent_services(self.cluster, pending, now)
        if not answers:
            return
        with transaction.atomic():
            keep_services(self.cluster, {"services": list(answers.values())}, now)
            self.reading = self.reading.without(answers.keys())
            self._fill(now)

    def take(self, question: Question, answer: Mapping[str, Any]) -> None:
        """Keep an answer and say where it goes on, in one commit. Raises `TakenOver`, `NoSense`."""
        now = database_now()
        is_first = not self.reading.calls
        with transaction.atomic():
            self.reading = self._listed(answer) if question.lists else self._described(question, answer, now)
            self._fill(now)
            if is_first:
                pausing.lift(self.cluster, now)

    def update(self, **fields: Any) -> None:
        """Write columns of the cluster, and let pages hear of it. Raises `TakenOver`."""
        super().update(**fields)
        cluster_changed(self.cluster.pk)

    def skips(self, error: AwsError) -> bool:
        """Whether the picture is one without what this call would have told."""
        is_general = isinstance(error, Unauthenticated | Undelivered | Unanswered)
        return self.reading.phase in BESIDE and not is_general

    def skip(self, error: AwsError) -> None:
        """Go on without what AWS keeps back, noting which part that is. Raises `TakenOver`."""
        now, question = database_now(), self.question()
        if self.reading.phase == HEALTH and isinstance(error, NotFound):
            # Only this target group is gone.
            self._leave_group(question, now)
            return
        if not isinstance(error, Throttled):
            self.cluster.lacking = lacking.with_one(self.cluster.lacking, question, error, now)
        with transaction.atomic():
            self.reading = self.reading.skipped()
            self._fill(now)

    def note_refusal(self, error: AwsError) -> str:
        """Where there is no cluster, nothing runs."""
        if not isinstance(error, NotFound):
            return super().note_refusal(error)
        now = database_now()
        close(self.cluster, now, now)
        return NO_CLUSTER

    def close(self) -> None:
        """Close what is gone, and say when the next sync is due. Raises `TakenOver`."""
        now = database_now()
        with transaction.atomic():
            close(self.cluster, self.began, now)
            tell_who_scaled(self.cluster, now)
            seconds = (now - self.began).total_seconds()
            listed = {} if self.reading.is_follow_up else {"listed_at": self.began}
            self.end(now, INTERVAL, synced_at=now, seconds=seconds, follows_at=None, **listed)
            pausing.lift(self.cluster, now)

    def _leave_group(self, question: Question, now: datetime) -> None:
        with transaction.atomic():
            keep_health(self.cluster, question.params["TargetGroupArn"], None, now)
            self.reading = self.reading.described()
            self._fill(now)

    def _listed(self, answer: Mapping[str, Any]) -> Reading:
        known: set[str] = set()
        if self.reading.phase == STOPPED:
            known = known_stopped(self.cluster, arns_of(answer, "taskArns"))
        if self.reading.phase == SERVICES and not self.cluster.account:
            self.cluster.account = account_of(next(iter(arns_of(answer, "serviceArns")), ""))
        return self.reading.listed(answer, known=known, ended=self._ended(answer))

    def _ended(self, answer: Mapping[str, Any]) -> list[str]:
        """The tasks of a follow-up that were known, and that no page of what runs has named."""
        is_last = not answer.get("nextToken")
        if not (is_last and self.reading.is_follow_up and self.reading.phase == RUNNING):
            return []
        named = {*self.reading.pending, *arns_of(answer, "taskArns")}
        rows = ServiceInstance.objects.filter(
            cluster=self.cluster, stopped_at=None, seen_at__lt=self.began
        ).order_by("pk")
        return [arn for arn in rows.values_list("arn", flat=True) if arn not in named]

    def _described(self, question: Question, answer: Mapping[str, Any], now: datetime) -> Reading:
        phase, cluster = self.reading.phase, self.cluster
        cluster.lacking = lacking.without(cluster.lacking, question)
        if phase == SERVICES:
            keep_services(cluster, answer, now)
        elif phase == SCALING:
            keep_targets(cluster, question.params["ResourceIds"], answer, now)
            cluster.scaling_read_at = now
        elif phase == MACHINES:
            keep_machines(cluster, answer, now)
        elif phase == HEALTH:
            keep_health(cluster, question.params["TargetGroupArn"], answer, now)
        elif phase == USAGE:
            keep_usage(cluster, question.params, answer, now)
            return self.reading.turned(answer)
        elif phase == ACTIVITIES:
            wants_older = keep_activities(cluster, answer, now)
            return self.reading.turned(answer) if wants_older else self.reading.described()
        else:
            keep_tasks(cluster, answer, now)
        return self.reading.described()

    def _fill(self, now: datetime) -> None:
        """Fill in what the next phase asks for, and write how far it is."""
        while self.reading.wants_filling:
            is_kept_back = lacking.holds(self.cluster.lacking, self.reading.phase, now)
            wanted = [] if is_kept_back else _WANTED[self.reading.phase](self.cluster, now)
            if not (wanted or is_kept_back):
                self.cluster.lacking = lacking.forgotten(self.cluster.lacking, self.reading.phase)
            self.reading = self.reading.filled(wanted)
        known = {
            "account": self.cluster.account,
            "lacking": self.cluster.lacking,
            "scaling_read_at": self.cluster.scaling_read_at,
        }
        self.go_on(now, **known)
