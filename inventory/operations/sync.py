"""Operation that requests a sync of an infrastructure's cluster."""

from django.db import transaction

from catalog.models import Infrastructure
from inventory.models.instances import SyncedCluster
from inventory.queries.instances import get_cluster
from inventory.sync.clusters import advance_due_date, create_clusters
from inventory.sync.live import publish_clusters_changed
from inventory.sync.pauses import allow_trial
from inventory.tasks import queue_sync
from rbac.audit import record_audit_entry
from rbac.models import User
from rbac.policy import require
from web.clock import get_database_time
from web.http.problems import Conflict

ACCESS_ENVIRONMENT = "core_environment_access"


def sync_infrastructure(*, actor: User, infrastructure: Infrastructure) -> SyncedCluster:
    """Request a sync of the infrastructure's cluster; a running sync continues.

    Repeated requests within seconds share one sync. Raises `Conflict` where the cluster is not known yet,
    and `Forbidden`.
    """
    require(actor, ACCESS_ENVIRONMENT, infrastructure)
    now = get_database_time()
    with transaction.atomic():
        create_clusters(now)
        cluster = get_cluster(infrastructure)
        if cluster is None:
            raise Conflict(
                "The cluster of this infrastructure is an expression. Run a deployment to resolve it, "
                "then sync."
            )
        advance_due_date(cluster, now)
        allow_trial(cluster, now)
        location = {"region": cluster.region, "cluster": cluster.cluster}
        record_audit_entry(actor=actor, action="infrastructure.sync", thing=infrastructure, after=location)
        transaction.on_commit(lambda: queue_sync(cluster.pk))
        publish_clusters_changed(cluster.pk)
    return cluster
