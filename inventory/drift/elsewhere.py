"""Who deploys an ECS service already: another service of Slipway, maybe by another connector."""

from typing import Final

from django.db.models import Exists, OuterRef, Q, QuerySet

from catalog.models import Service
from deployments.models import StageExecution
from inventory.drift.documents.readback import base_name
from inventory.drift.pairs import held_by
from inventory.models.instances import SeenService
from rbac.policy import Principal, visible_to

VIEW: Final = "core_service_view"


def with_others(rows: QuerySet[SeenService]) -> QuerySet[SeenService]:
    """The same rows, each with `is_elsewhere`: whether another connector's picture says who deploys it."""
    same = SeenService.objects.filter(arn=OuterRef("arn"), service__isnull=False, gone_at=None)
    return rows.annotate(is_elsewhere=Exists(same))


def owner_elsewhere(seen: SeenService) -> Service | None:
    """The service that deploys this very ECS service, or the pair that it is of."""
    held = held_by(seen)
    arns = [held] if held == seen.arn else [f"{held}__1", f"{held}__2"]
    same = SeenService.objects.filter(arn__in=arns, service__isnull=False, gone_at=None)
    row = same.select_related("service__scope").order_by("pk").first()
    if row is not None:
        return row.service
    cluster = seen.cluster
    names = {seen.name} if held == seen.arn else {base_name(seen.name)}
    stages = StageExecution.objects.filter(
        Q(account=cluster.account) & ~Q(account=""),
        region=cluster.region,
        cluster=cluster.cluster,
        ecs_service__in=names,
        service__isnull=False,
    )
    latest = stages.select_related("service__scope").order_by("-pk").first()
    return latest.service if latest else None


def told_of(owner: Service, reader: Principal) -> str:
    """Who deploys it, for somebody who may not see everything."""
    if visible_to(reader, VIEW, Service.objects.filter(pk=owner.pk)).exists():
        return f"Service {owner.identifier} of {owner.scope.path} deploys it already. Use its pipelines."
    return (
        "A service of another project, which you may not see, deploys it already. Ask an administrator for "
        "access to it, or to give it up."
    )
