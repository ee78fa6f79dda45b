"""Live updates of adoption pages while an ECS service is being read."""

from collections.abc import Collection
from typing import Final

from inventory.models.adoption import Adoption
from inventory.queries.drift import VIEW_ENVIRONMENT
from rbac.policy import ResourceLocation
from web.live import Audience, TopicSnapshot, TopicSource, audience_of_rows, publish_change_on_commit
from web.live.sources import parse_primary_keys

ADOPTION_SOURCE_NAME: Final = "adoptions"


def publish_adoption_changed(adoption: int) -> None:
    """Publish a change of this adoption after the current transaction; by its key."""
    publish_change_on_commit(ADOPTION_SOURCE_NAME, adoption)


def publish_pending_adoptions_changed(cluster: int) -> None:
    """Publish a change of all pending adoptions in a cluster whose scan has failed."""
    waiting = Adoption.objects.filter(ecs_service__cluster=cluster, state=Adoption.State.READING)
    for key in waiting.values_list("pk", flat=True):
        publish_adoption_changed(key)


def read_adoption_snapshots(keys: Collection[str] | None) -> dict[str, tuple[TopicSnapshot, ...]]:
    """Return the snapshots of these adoptions, or of all pending ones; one query."""
    rows = Adoption.objects.filter(state=Adoption.State.READING)
    if keys is not None:
        rows = Adoption.objects.filter(pk__in=list(parse_primary_keys(Adoption, keys)))
    environment = "infrastructure__environment"
    # The page shows the failure of a scan.
    failed = "ecs_service__cluster__drift_scan__failed_at"
    columns = (
        "pk",
        f"{environment}__scope_id",
        f"{environment}__identifier",
        "state",
        "requested_at",
        "read_at",
        failed,
    )
    snapshots: dict[str, tuple[TopicSnapshot, ...]] = {}
    for pk, scope, identifier, *state in rows.values_list(*columns):
        audience = Audience(ResourceLocation(scope, {"environment": identifier}), VIEW_ENVIRONMENT)
        snapshots[str(pk)] = (TopicSnapshot(audience, tuple(state), frozenset({f"adoption:{pk}"})),)
    return snapshots


ADOPTION_SOURCE: Final = TopicSource(
    ADOPTION_SOURCE_NAME,
    topics={"adoption": audience_of_rows(Adoption, VIEW_ENVIRONMENT)},
    read_snapshots=read_adoption_snapshots,
)
