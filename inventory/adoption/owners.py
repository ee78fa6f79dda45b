"""Owners of ECS services: by adoption, by blue/green pair, through another connector, or by a stack."""

from collections.abc import Mapping, Sequence
from typing import Final

from django.db.models import Exists, Max, OuterRef, Q, QuerySet

from catalog.models import Service
from deployments.models import StageExecution
from inventory.adoption.manifests import get_base_name, get_partner_name
from inventory.adoption.pairs import get_reserved_arn, is_pair_half
from inventory.drift.desired_state import strip_name_suffix
from inventory.models.adoption import Adoption
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from rbac.policy import Principal, filter_visible

OwnerPair = tuple[int | None, int | None]


def get_adoption_owners(cluster: SyncedCluster, names: Sequence[str]) -> Mapping[str, OwnerPair]:
    """Return the keys of service and infrastructure by ECS service name; three queries."""
    base_names = {name: strip_name_suffix(name) for name in names if strip_name_suffix(name) != name}
    return {**_get_adopted_owners(cluster, names), **_get_base_owners(cluster, base_names)}


def _get_base_owners(cluster: SyncedCluster, base_names: Mapping[str, str]) -> dict[str, OwnerPair]:
    """Return the owners of blue, green and canary services: those of the manifest's service."""
    if not base_names:
        return {}
    stages = StageExecution.objects.filter(
        connector=cluster.connector_id,
        region=cluster.region,
        cluster=cluster.cluster,
        ecs_service__in=set(base_names.values()),
    )
    latest = stages.values("ecs_service").annotate(latest=Max("pk")).values_list("latest", flat=True)
    rows = StageExecution.objects.filter(pk__in=list(latest))
    owners = {
        name: (service, infrastructure)
        for name, service, infrastructure in rows.values_list("ecs_service", "service", "infrastructure")
    }
    return {name: owners[base] for name, base in base_names.items() if base in owners}


def _get_adopted_owners(cluster: SyncedCluster, names: Sequence[str]) -> dict[str, OwnerPair]:
    # Both halves of a pair are adopted together.
    partners = {get_partner_name(name): name for name in names if strip_name_suffix(name) != name}
    rows = Adoption.objects.filter(
        ecs_service__cluster=cluster,
        ecs_service__name__in={*names, *partners},
        state=Adoption.State.ADOPTED,
        service__isnull=False,
    ).select_related("ecs_service")
    owners: dict[str, OwnerPair] = {}
    for row in rows:
        adopted_names = [
            row.ecs_service.name,
            *([partners.get(row.ecs_service.name, "")] if is_pair_half(row.ecs_service) else []),
        ]
        owners |= {name: (row.service_id, row.infrastructure_id) for name in adopted_names if name in names}
    return owners


VIEW_SERVICE: Final = "core_service_view"


def annotate_other_owners(rows: QuerySet[EcsServiceRecord]) -> QuerySet[EcsServiceRecord]:
    """Annotate rows with `is_elsewhere`: whether the ECS service is managed through another connector."""
    managed_copies = EcsServiceRecord.objects.filter(arn=OuterRef("arn"), service__isnull=False, gone_at=None)
    return rows.annotate(is_elsewhere=Exists(managed_copies))


def get_other_owner(ecs_service: EcsServiceRecord) -> Service | None:
    """Return the service that already deploys this ECS service or its pair."""
    reserved_arn = get_reserved_arn(ecs_service)
    arns = [reserved_arn] if reserved_arn == ecs_service.arn else [f"{reserved_arn}__1", f"{reserved_arn}__2"]
    managed = EcsServiceRecord.objects.filter(arn__in=arns, service__isnull=False, gone_at=None)
    row = managed.select_related("service__scope").order_by("pk").first()
    if row is not None:
        return row.service
    cluster = ecs_service.cluster
    names = {ecs_service.name} if reserved_arn == ecs_service.arn else {get_base_name(ecs_service.name)}
    stages = StageExecution.objects.filter(
        Q(account=cluster.account) & ~Q(account=""),
        region=cluster.region,
        cluster=cluster.cluster,
        ecs_service__in=names,
        service__isnull=False,
    )
    latest = stages.select_related("service__scope").order_by("-pk").first()
    return latest.service if latest else None


def describe_other_owner(owner: Service, reader: Principal) -> str:
    """Describe the owner for a reader with limited permissions."""
    if filter_visible(reader, VIEW_SERVICE, Service.objects.filter(pk=owner.pk)).exists():
        return (
            f"Service {owner.identifier} in {owner.scope.path} already deploys this ECS service. Use its "
            "pipelines."
        )
    return (
        "A service in a project that you cannot view already deploys this ECS service. Ask an administrator "
        "for access, or to delete that service."
    )


STACK_TAG: Final = "aws:cloudformation:stack-name"
_COPILOT_TAGS: Final = ("copilot-application", "copilot-environment", "copilot-service")


def describe_stack_owner(tags: Mapping[str, str]) -> str:
    """Describe the CloudFormation stack that made an ECS service, from its tags; "" without one.

    AWS CDK, AWS Copilot and AWS SAM make stacks too; only Copilot leaves tags of its own.
    """
    stack = tags.get(STACK_TAG, "")
    copilot = "/".join(tags[key] for key in _COPILOT_TAGS if tags.get(key))
    if not stack and not copilot:
        return ""
    owner = f"CloudFormation stack {stack}" if stack else "a CloudFormation stack"
    maker = f", which AWS Copilot made for {copilot}," if copilot else ""
    return (
        f"The ECS service belongs to {owner}{maker} and stays in it. A stack operation that changes the "
        "service resets its task definition to that of the template. Before you go on, set DeletionPolicy: "
        "Retain for the service in the template and remove it there, or let nobody change the stack."
    )
