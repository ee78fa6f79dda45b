"""REST routes of environments and their infrastructures."""

from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog import operations
from catalog.models import Environment, Infrastructure
from connectors.models import Connector
from connectors.queries import find_connector, format_reference, list_connectors
from guards.limits import DESCRIPTION_CHARACTERS
from rbac.models import Scope
from rbac.policy import can
from web.api.parameters import (
    FORCE_DELETE_PARAMETER,
    IDENTIFIER_PARAMETER,
    IF_MATCH_PARAMETER,
    LIST_PARAMETERS,
    PAGE_PARAMETERS,
    SHARED_PARAMETER,
)
from web.api.proposed_changes import ProposedChangeDocument
from web.api.views import BaseApiView, check_version, respond_with_etag
from web.http.problems import BadInput

VIEW = "core_environment_view"


class EnvironmentDocument(serializers.Serializer[Any]):
    """Environment."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    kind = serializers.ChoiceField(choices=Environment.Kind.choices)
    variables = serializers.DictField()
    scope = serializers.CharField(source="scope.path")
    org = serializers.CharField(source="scope.org")
    project = serializers.CharField(source="scope.project")
    version = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class EnvironmentChange(serializers.Serializer[Any]):
    """Environment without its identifier; an update sends all fields."""

    name = serializers.CharField(max_length=128)
    description = serializers.CharField(allow_blank=True, max_length=int(DESCRIPTION_CHARACTERS), default="")
    kind = serializers.ChoiceField(choices=Environment.Kind.choices, default=Environment.Kind.PRE_PRODUCTION)
    variables = serializers.DictField(default=dict)


class EnvironmentInput(EnvironmentChange):
    """A new environment."""

    identifier = serializers.CharField(max_length=128)
    org = serializers.CharField(required=False, write_only=True)
    project = serializers.CharField(required=False, write_only=True)


class InfrastructureDocument(serializers.Serializer[Any]):
    """Infrastructure: one cluster in one region, reached through one connector."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()
    connector = serializers.SerializerMethodField(
        help_text="Its identifier; `account.name` or `org.name` if a nearer connector has the same one."
    )
    connector_scope = serializers.CharField(source="connector.scope.path")
    region = serializers.CharField()
    cluster = serializers.CharField()
    is_dynamic = serializers.BooleanField()
    version = serializers.IntegerField()

    def get_connector(self, place: Infrastructure) -> str:
        """Return the reference by which the connector is found again."""
        connector = place.connector
        return format_reference(connector) if place.has_shadowed_connector else connector.identifier  # type: ignore[attr-defined]


class InfrastructureChange(serializers.Serializer[Any]):
    """Infrastructure without its identifier.

    `connector` is an identifier, `account.name` or `org.name`. The identifier of the present connector keeps
    it, also where a nearer connector has the same one.

    A dynamic infrastructure has expressions such as `<+provisioner.cluster_name>` as region and cluster.
    """

    name = serializers.CharField(max_length=128)
    connector = serializers.CharField(max_length=136)
    region = serializers.CharField(max_length=255)
    cluster = serializers.CharField(max_length=255)
    is_dynamic = serializers.BooleanField(default=False)


class InfrastructureInput(InfrastructureChange):
    """A new infrastructure."""

    identifier = serializers.CharField(max_length=128)


class Environments(BaseApiView):
    """List of environments."""

    @extend_schema(parameters=[*LIST_PARAMETERS, SHARED_PARAMETER], responses=EnvironmentDocument(many=True))
    def get(self, request: Request) -> Response:
        return self.list_visible(VIEW, Environment.objects.select_related("scope"), EnvironmentDocument)

    @extend_schema(request=EnvironmentInput, responses={201: EnvironmentDocument})
    def post(self, request: Request) -> Response:
        data, scope = self.get_validated_body(EnvironmentInput), self.get_named_scope()
        environment = operations.create_environment(
            actor=self.principal,
            scope=scope,
            identifier=data["identifier"],
            spec=_build_spec(data),
        )
        return respond_with_etag(EnvironmentDocument(environment).data, environment.version, status=201)


class EnvironmentRoute(BaseApiView):
    """Base of the routes of one environment and its infrastructures."""

    def get_environment(self, pk: int, *, lock: bool = False) -> Environment:
        """Return the environment in the URL."""
        return self.get_visible(VIEW, Environment.objects.select_related("scope"), lock=lock, pk=pk)

    def list_infrastructures(self, environment: Environment) -> QuerySet[Infrastructure]:
        """Return the infrastructures of an environment with what their documents need."""
        rows = Infrastructure.objects.filter(environment=environment)
        nearer = list_connectors(environment.scope).filter(
            identifier=OuterRef("connector__identifier"), scope__path__gt=OuterRef("connector__scope__path")
        )
        return rows.select_related("connector__scope", "environment__scope").annotate(
            has_shadowed_connector=Exists(nearer)
        )

    def build_document(self, infrastructure: Infrastructure) -> dict[str, Any]:
        """Return the document of an infrastructure that was just saved."""
        rows = self.list_infrastructures(infrastructure.environment)
        return InfrastructureDocument(rows.get(pk=infrastructure.pk)).data

    def build_infrastructure_spec(
        self, environment: Environment, data: dict[str, Any], current: Connector | None = None
    ) -> operations.InfrastructureSpec:
        """Build an infrastructure spec from the request body, with its connector resolved."""
        # A connector created nearer meanwhile must not move what the document leaves as it is.
        connector = current if current is not None and current.identifier == data["connector"] else None
        return operations.InfrastructureSpec(
            name=data["name"],
            connector=connector or self._find_connector(environment.scope, data["connector"]),
            region=data["region"],
            cluster=data["cluster"],
            is_dynamic=data["is_dynamic"],
        )

    def _find_connector(self, scope: Scope, reference: str) -> Connector:
        connector = find_connector(scope, reference)
        if connector is None or not can(self.principal, "core_connector_view", connector):
            raise _build_error("connector", f"No connector {reference} in this scope or above.")
        return connector


class EnvironmentDetail(EnvironmentRoute):
    """One environment."""

    @extend_schema(responses=EnvironmentDocument)
    def get(self, request: Request, pk: int) -> Response:
        environment = self.get_environment(pk)
        return respond_with_etag(EnvironmentDocument(environment).data, environment.version)

    @extend_schema(
        parameters=[IF_MATCH_PARAMETER],
        request=EnvironmentChange,
        responses={200: EnvironmentDocument, 202: ProposedChangeDocument},
    )
    def put(self, request: Request, pk: int) -> Response:
        data = self.get_validated_body(EnvironmentChange)
        with transaction.atomic():
            environment = self.get_environment(pk, lock=True)
            check_version(request, environment.version)
            changed = operations.update_environment(
                actor=self.principal, environment=environment, spec=_build_spec(data)
            )
        return respond_with_etag(EnvironmentDocument(changed).data, changed.version)

    @extend_schema(parameters=[FORCE_DELETE_PARAMETER, IF_MATCH_PARAMETER], responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        with transaction.atomic():
            environment = self.get_environment(pk, lock=True)
            check_version(request, environment.version)
            operations.delete_environment(
                actor=self.principal,
                environment=environment,
                although_used=self.is_flag_set("although_used"),
            )
        return Response(status=204)


class Infrastructures(EnvironmentRoute):
    """The infrastructures of an environment."""

    @extend_schema(
        parameters=[IDENTIFIER_PARAMETER, *PAGE_PARAMETERS], responses=InfrastructureDocument(many=True)
    )
    def get(self, request: Request, pk: int) -> Response:
        rows = self.list_infrastructures(self.get_environment(pk))
        if identifier := request.GET.get("identifier"):
            rows = rows.filter(identifier=identifier)
        return self.paginate(rows, InfrastructureDocument)

    @extend_schema(request=InfrastructureInput, responses={201: InfrastructureDocument})
    def post(self, request: Request, pk: int) -> Response:
        environment, data = self.get_environment(pk), self.get_validated_body(InfrastructureInput)
        infrastructure = operations.create_infrastructure(
            actor=self.principal,
            environment=environment,
            identifier=data["identifier"],
            spec=self.build_infrastructure_spec(environment, data),
        )
        return respond_with_etag(self.build_document(infrastructure), infrastructure.version, status=201)


class InfrastructureDetail(EnvironmentRoute):
    """One infrastructure of an environment."""

    @extend_schema(responses=InfrastructureDocument)
    def get(self, request: Request, pk: int, infrastructure: int) -> Response:
        target = self._get_infrastructure(pk, infrastructure)
        return respond_with_etag(InfrastructureDocument(target).data, target.version)

    @extend_schema(
        parameters=[IF_MATCH_PARAMETER],
        request=InfrastructureChange,
        responses={200: InfrastructureDocument, 202: ProposedChangeDocument},
    )
    def put(self, request: Request, pk: int, infrastructure: int) -> Response:
        data = self.get_validated_body(InfrastructureChange)
        with transaction.atomic():
            target = self._get_infrastructure(pk, infrastructure)
            check_version(request, target.version)
            spec = self.build_infrastructure_spec(target.environment, data, target.connector)
            changed = operations.update_infrastructure(
                actor=self.principal, infrastructure=target, spec=spec, version=target.version
            )
        return respond_with_etag(self.build_document(changed), changed.version)

    @extend_schema(parameters=[FORCE_DELETE_PARAMETER, IF_MATCH_PARAMETER], responses={204: None})
    def delete(self, request: Request, pk: int, infrastructure: int) -> Response:
        with transaction.atomic():
            target = self._get_infrastructure(pk, infrastructure, lock=True)
            check_version(request, target.version)
            operations.delete_infrastructure(
                actor=self.principal,
                infrastructure=target,
                although_used=self.is_flag_set("although_used"),
            )
        return Response(status=204)

    def _get_infrastructure(self, pk: int, infrastructure: int, *, lock: bool = False) -> Infrastructure:
        rows = self.list_infrastructures(self.get_environment(pk))
        return self.get_visible(VIEW, rows, lock=lock, pk=infrastructure)


def _build_spec(data: dict[str, Any]) -> operations.EnvironmentSpec:
    return operations.EnvironmentSpec(
        name=data["name"],
        description=data["description"],
        kind=data["kind"],
        variables=data["variables"],
    )


def _build_error(path: str, message: str) -> BadInput:
    return BadInput(message, errors=[{"path": path, "message": message}])
