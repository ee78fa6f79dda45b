"""How fresh what is known of drift is, why it is no fresher, and what somebody can do about that."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from inventory.drift.clusters import DRIFT
from inventory.models.drift import ComparedCluster, Comparison
from inventory.models.instances import SyncedCluster, SyncPause
from inventory.sync.pausing import SYNC, rests


@dataclass(frozen=True)
class Trouble:
    """Why the looks, or the syncs that they rest on, do not go on; `until` where they rest with others."""

    of_sync: bool
    failure: str
    code: str
    next_step: str
    failed_at: datetime | None
    again_at: datetime | None
    is_shared: bool


@dataclass(frozen=True)
class Freshness:
    """When a cluster was compared last, what sync had seen of it by then, and what is in the way."""

    cluster: SyncedCluster
    compared: ComparedCluster | None
    troubles: tuple[Trouble, ...]

    @classmethod
    def of(cls, comparison: Comparison) -> "Freshness":
        """That of the cluster of an ECS service; four queries."""
        rows = SyncedCluster.objects.select_related("connector__scope")
        cluster = rows.get(pk=comparison.seen.cluster_id)
        compared = ComparedCluster.objects.filter(cluster=cluster).first()
        syncs, looks = rests([cluster], SYNC).get(cluster.pk), rests([cluster], DRIFT).get(cluster.pk)
        troubles = [_trouble(cluster, syncs, of_sync=True)]
        if compared is not None:
            troubles.append(_trouble(compared, looks, of_sync=False))
        return cls(cluster, compared, tuple(one for one in troubles if one is not None))

    def document(self, now: datetime) -> dict[str, Any]:
        """The same as the API tells it."""
        compared = self.compared
        return {
            "compared_at": compared.compared_at if compared else None,
            "age_seconds": _age(compared.compared_at if compared else None, now),
            "synced_at": self.cluster.synced_at,
            "due_at": compared.due_at if compared else None,
            "under_way": compared is not None and compared.reading is not None,
            "calls": compared.calls if compared else 0,
            "troubles": [
                {
                    "of": "SYNC" if one.of_sync else "LOOK",
                    "failure": one.failure,
                    "code": one.code,
                    "next_step": one.next_step,
                    "failed_at": one.failed_at,
                    "again_at": one.again_at,
                }
                for one in self.troubles
            ],
        }


def _age(moment: datetime | None, now: datetime) -> float | None:
    return (now - moment).total_seconds() if moment else None


def _trouble(
    row: SyncedCluster | ComparedCluster, rest: SyncPause | None, *, of_sync: bool
) -> Trouble | None:
    # Who rests with others may not have failed itself yet.
    told = rest if rest is not None and not row.failure else row
    if not told.failure:
        return None
    return Trouble(
        of_sync,
        told.failure,
        told.failure_code,
        told.failure_step,
        told.failed_at,
        row.due_at,
        rest is not None,
    )
