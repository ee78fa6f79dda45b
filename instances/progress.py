"""How far the sync of one cluster is: each answer is in the rows before the next is asked for.

Who is killed loses one answer: the next worker goes on where the rows say. Time is the database's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import F, Q

from aws.errors import AwsError, NotFound, Throttled, Unanswered, Unauthenticated, Undelivered
from connectors.aws_accounts import read_spec
from delegates.clock import database_now
from delegates.doors import DoorClosed
from delegates.models import DelegateTask
from delegates.next_steps import next_step
from deployments.engine import quota
from deployments.engine.parking import quota_of
from instances import columns, lacking, pausing
from instances.keeping.closing import close
from instances.keeping.growth import tell_who_scaled
from instances.keeping.health import groups_to_ask, keep_health
from instances.keeping.machines import keep_machines, machines_in_use
from instances.keeping.scaling import (
    activities_to_ask,
    keep_activities,
    keep_targets,
    services_to_ask,
)
from instances.keeping.services import keep_services
from instances.keeping.tasks import keep_tasks, known_stopped
from instances.keeping.usage import keep_usage, usages_to_ask
from instances.models import SyncedCluster
from instances.news import cluster_changed
from instances.pausing import Failure
from instances.reading import (
    ACTIVITIES,
    BESIDE,
    HEALTH,
    MACHINES,
    SCALING,
    SERVICES,
    STOPPED,
    USAGE,
    Question,
    Reading,
)
from instances.told import account_of, arns_of

INTERVAL: Final = timedelta(seconds=60)
LEASE: Final = timedelta(seconds=60)
NO_CLUSTER: Final = (
    "Create the cluster, or name the right one in the infrastructure: region and account count too."
)
MEND_CONNECTOR: Final = "Mend the connector and test it; the next look follows by itself."


# What each phase asks for that no list tells.
_WANTED: Final[Mapping[str, Callable[[SyncedCluster, datetime], list[str]]]] = {
    SCALING: services_to_ask,
    MACHINES: machines_in_use,
    ACTIVITIES: activities_to_ask,
    HEALTH: groups_to_ask,
    USAGE: usages_to_ask,
}


class TakenOver(Exception):
    """Another worker has this cluster now."""


@dataclass
class Sync:
    """One cluster in the hands of one worker; `fence` tells it from who had it before."""

    cluster: SyncedCluster
    reading: Reading

    @property
    def quota(self) -> str:
        return quota_of(self.cluster)

    @property
    def began(self) -> datetime:
        return datetime.fromisoformat(self.reading.began)

    def question(self) -> Question:
        return self.reading.question(self.cluster.cluster)

    def take(self, question: Question, answer: Mapping[str, Any]) -> None:
        """Keep an answer and say where it goes on, in one commit. Raises `TakenOver`, `NoSense`."""
        now = database_now()
        is_first = not self.reading.calls
        with transaction.atomic():
            self.reading = self._listed(answer) if question.lists else self._described(question, answer, now)
            self._go_on(now)
            if is_first or self.reading.is_over:
                pausing.lift(self.cluster, now)

    def fail(self, failure: Failure, *, shared: str = "") -> None:
        """Note why it does not go on, and when it is tried again: later each time. Raises `TakenOver`.

        `shared` is the key of those that fail with it (`instances.pausing`); they rest together.
        """
        now = database_now()
        alone = now + pausing.pause_for(self.cluster.failures)
        until = pausing.pause(shared, failure, now) if shared else alone
        self._update(
            failures=F("failures") + 1,
            failure=columns.text(failure.text),
            failure_code=columns.text(failure.code, 128),
            failure_step=columns.text(failure.step),
            failed_at=now,
            reading=None,
            due_at=until,
            claimed_until=None,
            task=None,
        )

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
        if isinstance(error, Throttled):
            quota.rest(self.quota, error, now)
        else:
            self.cluster.lacking = lacking.with_one(self.cluster.lacking, question, error, now)
        with transaction.atomic():
            self.reading = self.reading.skipped()
            self._go_on(now)

    def _leave_group(self, question: Question, now: datetime) -> None:
        with transaction.atomic():
            keep_health(self.cluster, question.params["TargetGroupArn"], None, now)
            self.reading = self.reading.described()
            self._go_on(now)

    def pause(self, until: datetime) -> None:
        """Go on later from here. Raises `TakenOver`."""
        self._update(due_at=until, claimed_until=None, task=None)

    def wait_for(self, task: DelegateTask, until: datetime) -> None:
        """Let a delegate make the next call. Raises `TakenOver`."""
        self._update(task=task, claimed_until=until + LEASE, reading=self.reading.to_row())

    def _listed(self, answer: Mapping[str, Any]) -> Reading:
        known: set[str] = set()
        if self.reading.phase == STOPPED:
            known = known_stopped(self.cluster, arns_of(answer, "taskArns"))
        if self.reading.phase == SERVICES and not self.cluster.account:
            self.cluster.account = account_of(next(iter(arns_of(answer, "serviceArns")), ""))
        return self.reading.listed(answer, known=known)

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

    def _go_on(self, now: datetime) -> None:
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
        if self.reading.is_over:
            self._end(now, known)
        else:
            self._update(reading=self.reading.to_row(), claimed_until=now + LEASE, **known)

    def _end(self, now: datetime, known: Mapping[str, Any]) -> None:
        close(self.cluster, self.began, now)
        tell_who_scaled(self.cluster, now)
        self._update(
            reading=None,
            synced_at=now,
            seconds=(now - self.began).total_seconds(),
            calls=self.reading.calls,
            failures=0,
            failure="",
            failure_code="",
            failure_step="",
            failed_at=None,
            claimed_until=None,
            task=None,
            due_at=now + INTERVAL,
            **known,
        )

    def _update(self, **fields: Any) -> None:
        mine = SyncedCluster.objects.filter(pk=self.cluster.pk, fence=self.cluster.fence)
        if not mine.update(**fields):
            raise TakenOver
        cluster_changed(self.cluster.pk)


def claim(pk: int) -> Sync | None:
    """Take a cluster that is due and in nobody's hands."""
    now = database_now()
    free = Q(claimed_until__isnull=True) | Q(claimed_until__lte=now)
    due = SyncedCluster.objects.filter(free, pk=pk, due_at__lte=now)
    if not due.update(fence=F("fence") + 1, claimed_until=now + LEASE, task=None):
        return None
    cluster = SyncedCluster.objects.select_related("connector__scope", "connector__secret").get(pk=pk)
    sync = held(cluster)
    if (until := pausing.held_back(cluster, now)) is not None:
        sync.pause(until)
        return None
    return sync


def held(cluster: SyncedCluster) -> Sync:
    """A cluster whose sync is under way, in the hands of whoever has it."""
    row = cluster.reading
    return Sync(cluster, Reading.from_row(row) if row else Reading(began=database_now().isoformat()))


def refuse(sync: Sync, error: AwsError) -> None:
    """What becomes of a sync whose call AWS refused. Raises `TakenOver`."""
    now, cluster = database_now(), sync.cluster
    if isinstance(error, Throttled):
        quota.rest(sync.quota, error, now)
    step = next_step(error, read_spec(cluster.connector.spec), cluster.region).text
    failure = Failure(error.sentence, error.code, step)
    with transaction.atomic():
        if isinstance(error, NotFound):
            # No cluster, so nothing runs there.
            close(cluster, now, now)
            failure = Failure(error.sentence, error.code, NO_CLUSTER)
        sync.fail(failure, shared=pausing.key_for(cluster, error))


def shut(sync: Sync, closed: DoorClosed) -> None:
    """What becomes of a sync whose connector cannot be used. Raises `TakenOver`."""
    _, way = pausing.keys_of(sync.cluster)
    with transaction.atomic():
        sync.fail(Failure(str(closed), "CONNECTOR_NOT_USABLE", MEND_CONNECTOR), shared=way)
