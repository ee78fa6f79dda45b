"""How far the look for drift in one cluster is: a chain of calls for what sync has not read."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Self

from django.db import transaction
from django.db.models import QuerySet

from aws.errors import AwsError
from aws.scaling import resource_id
from inventory.drift.adopting import read_what_is_asked
from inventory.drift.clusters import DRIFT, let_all_go_on
from inventory.drift.keeping import keep_comparisons
from inventory.drift.news import waiting_changed
from inventory.drift.reading import REVISIONS, TARGETS, Reading
from inventory.drift.wanted import wanted_reading
from inventory.models.drift import ComparedCluster, KnownRevision
from inventory.models.instances import SyncedCluster
from inventory.sync.chains.chain import Chain
from inventory.sync.follow_ups import recent_targets
from inventory.sync.pausing import Failure
from inventory.sync.reading import Question
from inventory.sync.told import Told
from web.clock import database_now

INTERVAL: Final = timedelta(minutes=2)
# Sync has seen something new while a look was under way.
SOON: Final = timedelta(seconds=5)


@dataclass
class Look(Chain):
    """The look for drift in one cluster."""

    OWNER: ClassVar[str] = DRIFT

    row: ComparedCluster
    reading: Reading

    @classmethod
    def rows(cls) -> "QuerySet[ComparedCluster]":
        return ComparedCluster.objects.select_related(
            "cluster__connector__scope", "cluster__connector__secret"
        )

    @classmethod
    def of_row(cls, row: ComparedCluster) -> Self:
        kept = row.reading
        return cls(row, Reading.from_row(kept) if kept else wanted_reading(row.cluster, database_now()))

    @property
    def cluster(self) -> SyncedCluster:
        return self.row.cluster

    def use_recent_reads(self) -> None:
        """Take over what was read of scaling since its last change. Raises `TakenOver`."""
        # Who asked for a look at once wants it from AWS.
        if self.reading.phase != TARGETS or self.reading.token or self.row.compared_at is None:
            return
        cluster = self.cluster
        ids = {resource_id(cluster.cluster, name): name for name in self.reading.services}
        targets = recent_targets(cluster, ids, database_now())
        if targets:
            self.reading = self.reading.with_targets({ids[key]: one for key, one in targets.items()})
            self.go_on(database_now())

    def take(self, question: Question, answer: Mapping[str, Any]) -> None:
        """Keep an answer and say where it goes on, in one commit. Raises `TakenOver`, `NoSense`."""
        now = database_now()
        with transaction.atomic():
            if self.reading.phase == REVISIONS:
                _keep_revision(question.params["taskDefinition"], answer, now)
            self.reading = self.reading.answered(self.cluster.cluster, answer)
            self.go_on(now)

    def close(self) -> None:
        """Compare, now that all is read, and say when it is done again. Raises `TakenOver`."""
        now, row = database_now(), self.row
        with transaction.atomic():
            self.end(now, INTERVAL, compared_at=now, scaling_unread=self.reading.scaling_unread)
            left = keep_comparisons(row.cluster, self.reading, now)
            is_read = read_what_is_asked(row.cluster, self.reading, now)
            if left.is_news or not is_read:
                self.update(due_at=now + SOON, compared_at=None)
            elif left.is_settling:
                # It is looked at once sync has seen something newer, and no sooner.
                self.update(due_at=now + SOON)
            if self.reading.calls:
                let_all_go_on(row, now)

    def fail(self, failure: Failure, *, shared: str = "") -> None:
        """As every chain does; pages that wait for what it would have read are told. Raises `TakenOver`."""
        with transaction.atomic():
            super().fail(failure, shared=shared)
            waiting_changed(self.cluster.pk)

    def skips(self, error: AwsError) -> bool:
        """Whether all else is compared without what this call would have told."""
        return self.reading.without(error) is not None

    def skip(self, error: AwsError) -> None:
        """Go on without what AWS keeps back. Raises `TakenOver`."""
        self.reading = self.reading.without(error) or self.reading
        self.go_on(database_now())


def _keep_revision(arn: str, answer: Mapping[str, Any], now: datetime) -> None:
    """Keep a revision under the ARN that it was asked for by."""
    found = answer.get("taskDefinition")
    if not isinstance(found, Mapping) or not found:
        return
    told = Told(found)
    # Its contents never change; whether it may still be used does.
    KnownRevision.objects.update_or_create(
        arn=arn[:512],
        defaults={
            "content": json.dumps(dict(found), default=str),
            "registered_at": told.moment("registeredAt"),
            "registered_by": told.text("registeredBy"),
            "used_at": now,
        },
    )
