"""What a person can do about the picture of what runs where: have it taken again."""

from django.db import transaction

from catalog.models import Infrastructure
from inventory.models.instances import SyncedCluster
from inventory.sync.clusters import ask_for, enter_new
from inventory.sync.news import cluster_changed
from inventory.sync.pausing import try_now
from inventory.sync.queries import cluster_of
from inventory.sync.tasks import sync_soon
from rbac.audit import record
from rbac.models import User
from rbac.policy import require
from web.clock import database_now
from web.problems import Conflict

SYNC = "core_environment_access"


def sync_infrastructure(*, actor: User, infrastructure: Infrastructure) -> SyncedCluster:
    """Look at the cluster of an infrastructure now; a sync that is under way is not begun anew.

    Who asks again within seconds has the look that was asked for, or one when they are over.

    Raises `Conflict` where the infrastructure names no cluster yet, `Forbidden` without access to it.
    """
    require(actor, SYNC, infrastructure)
    now = database_now()
    with transaction.atomic():
        enter_new(now)
        cluster = cluster_of(infrastructure)
        if cluster is None:
            raise Conflict(
                "The cluster of this infrastructure is an expression: it is known once something is deployed."
            )
        ask_for(cluster, now)
        try_now(cluster, now)
        asked = {"region": cluster.region, "cluster": cluster.cluster}
        record(actor=actor, action="infrastructure.sync", thing=infrastructure, after=asked)
        transaction.on_commit(lambda: sync_soon(cluster.pk))
        cluster_changed(cluster.pk)
    return cluster
