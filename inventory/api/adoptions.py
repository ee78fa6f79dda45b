"""Routes of adoptions."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Infrastructure
from inventory.adoption.proposals import AdoptionProposal
from inventory.adoption.traffic.options import RuleCandidate, TrafficOptions
from inventory.models.adoption import Adoption
from inventory.models.instances import EcsServiceRecord
from inventory.operations import adoption_undo, adoptions
from inventory.operations.adoptions import AdoptionSpec
from inventory.queries import drift
from rbac.policy import Principal, can
from web.api.parameters import PAGE_PARAMETERS
from web.api.views import BaseApiView


class UnmanagedServiceDocument(serializers.Serializer[Any]):
    """An ECS service that Slipway does not deploy."""

    name = serializers.CharField()
    arn = serializers.CharField()
    status = serializers.CharField()
    desired = serializers.IntegerField()
    running = serializers.IntegerField()
    task_definition = serializers.CharField()
    first_seen_at = serializers.DateTimeField()
    is_elsewhere = serializers.BooleanField()
    is_express = serializers.BooleanField(help_text="ECS itself manages it: it cannot be adopted.")


class ReadForAdoptionInput(serializers.Serializer[Any]):
    """ECS service to read."""

    ecs_service = serializers.CharField(max_length=255)


class ProposedManifestDocument(serializers.Serializer[Any]):
    """Proposed manifest."""

    identifier = serializers.CharField()
    kind = serializers.CharField()
    content = serializers.CharField()


class AdoptionRuleDocument(serializers.Serializer[Any]):
    """Listener rule; `rule` is empty if the listener has none (network load balancer)."""

    load_balancer = serializers.CharField()
    listener = serializers.CharField()
    rule = serializers.CharField()
    words = serializers.CharField()
    forwards_to = serializers.CharField()


class TrafficOptionDocument(serializers.Serializer[Any]):
    """Production and stage rules of a blue/green pair; without `stage` each run asks for it."""

    key = serializers.CharField()
    is_sure = serializers.BooleanField()
    production = AdoptionRuleDocument()
    stage = AdoptionRuleDocument(allow_null=True)


class AdoptionDocument(serializers.Serializer[Any]):
    """Adoption of an ECS service; a ready one shows `manifests` to users who may adopt it."""

    id = serializers.IntegerField()
    ecs_service = serializers.CharField()
    infrastructure = serializers.CharField()
    environment = serializers.CharField()
    state = serializers.ChoiceField(choices=Adoption.State.choices)
    reason = serializers.CharField()
    trouble = serializers.CharField()
    warnings = serializers.ListField(child=serializers.CharField())
    task_definition = serializers.CharField()
    image = serializers.CharField()
    tag = serializers.CharField()
    strategies = serializers.ListField(child=serializers.CharField())
    traffic = TrafficOptionDocument(many=True)
    manifests = ProposedManifestDocument(many=True)
    read_at = serializers.DateTimeField(allow_null=True)
    adopted_at = serializers.DateTimeField(allow_null=True)
    adopted_by = serializers.CharField(allow_null=True)
    service = serializers.CharField(allow_null=True)
    pipeline = serializers.CharField(allow_null=True)


class AdoptInput(serializers.Serializer[Any]):
    """Options of an adoption; without a strategy the first of `strategies` applies.

    `traffic` is the key of one of `traffic`, or `<+input>` to ask at each run. Omit it if one option is
    certain or if there is none.
    """

    identifier = serializers.CharField(max_length=128)
    name = serializers.CharField(max_length=128)
    strategy = serializers.CharField(max_length=32, required=False, default="")
    traffic = serializers.CharField(max_length=1024, required=False, default="")


class UnmanagedServicesRoute(BaseApiView):
    """ECS services of a cluster that Slipway does not deploy."""

    @extend_schema(parameters=[*PAGE_PARAMETERS], responses=UnmanagedServiceDocument(many=True))
    def get(self, request: Request, pk: int) -> Response:
        rows = Infrastructure.objects.select_related("environment__scope", "connector")
        infrastructure = self.get_visible(drift.VIEW_ENVIRONMENT, rows, pk=pk)
        return self.paginate(adoptions.list_unmanaged_services(infrastructure), serialize_unmanaged_service)


class AdoptionsRoute(BaseApiView):
    """Adoptions of an infrastructure."""

    @extend_schema(request=ReadForAdoptionInput, responses={202: AdoptionDocument})
    def post(self, request: Request, pk: int) -> Response:
        rows = Infrastructure.objects.select_related("environment__scope", "connector__scope")
        infrastructure = self.get_visible(drift.VIEW_ENVIRONMENT, rows, pk=pk)
        adoption = adoptions.read_for_adoption(
            actor=self.principal,
            infrastructure=infrastructure,
            **self.get_validated_body(ReadForAdoptionInput),
        )
        return Response(serialize_adoption(adoption, self.principal), status=202)


class AdoptionRoute(BaseApiView):
    """Base of the routes of one adoption."""

    def adoption(self, pk: int) -> Adoption:
        """Return the adoption in the URL."""
        rows = Adoption.objects.select_related(
            "infrastructure__environment__scope", "ecs_service__cluster", "service", "pipeline", "adopted_by"
        )
        return self.get_visible(drift.VIEW_ENVIRONMENT, rows, pk=pk)


class AdoptionDetailRoute(AdoptionRoute):
    """One adoption."""

    @extend_schema(responses=AdoptionDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(serialize_adoption(self.adoption(pk), self.principal))


class AdoptServiceRoute(AdoptionRoute):
    """Adoption of an ECS service."""

    @extend_schema(request=AdoptInput, responses=AdoptionDocument)
    def post(self, request: Request, pk: int) -> Response:
        spec = AdoptionSpec(**self.get_validated_body(AdoptInput))
        adopted = adoptions.adopt_service(actor=self.principal, adoption=self.adoption(pk), spec=spec)
        return Response(serialize_adoption(adopted, self.principal))


class UndoAdoptionRoute(AdoptionRoute):
    """Undo of an adoption that has not deployed anything."""

    @extend_schema(request=None, responses=AdoptionDocument)
    def post(self, request: Request, pk: int) -> Response:
        undone = adoption_undo.undo_adoption(actor=self.principal, adoption=self.adoption(pk))
        return Response(serialize_adoption(undone, self.principal))


def serialize_unmanaged_service(row: EcsServiceRecord) -> dict[str, Any]:
    """Serialize an ECS service that Slipway does not deploy."""
    names = (
        "name",
        "arn",
        "status",
        "desired",
        "running",
        "task_definition",
        "first_seen_at",
        "is_elsewhere",
        "is_express",
    )
    return {name: getattr(row, name) for name in names}


def serialize_adoption(row: Adoption, reader: Principal) -> dict[str, Any]:
    """Serialize an adoption; its manifests contain values and need permission to adopt it."""
    is_shown = row.state == Adoption.State.READY and can(reader, drift.EDIT_ENVIRONMENT, row)
    proposal = AdoptionProposal.of(row) if is_shown else None
    return {
        "id": row.pk,
        "ecs_service": row.ecs_service.name,
        "infrastructure": row.infrastructure.identifier,
        "environment": row.infrastructure.environment.identifier,
        "state": row.state,
        "reason": row.reason,
        "trouble": drift.get_adoption_failure(row),
        "warnings": row.warnings,
        "task_definition": row.task_definition,
        "image": proposal.image.image if proposal else "",
        "tag": proposal.image.tag if proposal else "",
        "strategies": list(proposal.strategies) if proposal else [],
        "traffic": serialize_traffic_options(proposal.traffic_options) if proposal else [],
        "manifests": [
            {"identifier": manifest.identifier, "kind": manifest.kind, "content": manifest.content}
            for manifest in (proposal.manifests if proposal else ())
        ],
        "read_at": row.read_at,
        "adopted_at": row.adopted_at,
        "adopted_by": row.adopted_by.get_username() if row.adopted_by else None,
        "service": row.service.identifier if row.service else None,
        "pipeline": row.pipeline.identifier if row.pipeline else None,
    }


def serialize_traffic_options(options: TrafficOptions) -> list[dict[str, Any]]:
    """Serialize the matching listener rules."""
    return [
        {
            "key": option.key,
            "is_sure": option == options.certain_option,
            "production": _serialize_rule(option.production),
            "stage": _serialize_rule(option.stage) if option.stage else None,
        }
        for option in options.options
    ]


def _serialize_rule(rule: RuleCandidate) -> dict[str, str]:
    return {
        "load_balancer": rule.balancer,
        "listener": rule.listener,
        "rule": rule.rule,
        "words": rule.description,
        "forwards_to": rule.weights,
    }
