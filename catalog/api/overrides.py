"""REST routes of service overrides, with the effective variables."""

from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog import operations
from catalog.api.environments import VIEW as VIEW_ENVIRONMENT
from catalog.api.environments import EnvironmentRoute
from catalog.api.services import VIEW as VIEW_SERVICE
from catalog.api.services import ManifestFields, build_manifest_spec
from catalog.manifests.layers import MERGE, MERGE_MODES
from catalog.models import Infrastructure, Service
from catalog.overrides.override_sets import ServiceOverrideSet, load_override_set
from catalog.overrides.variables import EffectiveVariable, resolve_variables
from rbac.policy import filter_visible
from web.api.parameters import IF_MATCH_PARAMETER, PAGE_PARAMETERS
from web.api.views import check_version, respond_with_etag


class EffectiveVariableDocument(serializers.Serializer[Any]):
    """Variable with its value at each level (null if not set there), its effective value and level."""

    name = serializers.CharField()
    value = serializers.JSONField(allow_null=True)
    winner = serializers.CharField(allow_null=True)
    values = serializers.DictField()
    is_required = serializers.BooleanField()
    is_missing = serializers.BooleanField()


class OverrideManifestFields(ManifestFields):
    """Manifest that is merged over the service's manifest of its kind (`merge`) or replaces it."""

    mode = serializers.ChoiceField(choices=MERGE_MODES, default=MERGE)


class OverrideDocument(serializers.Serializer[Any]):
    """The overrides of a service in an environment or infrastructure, and all effective variables."""

    service = serializers.IntegerField()
    environment = serializers.IntegerField()
    infrastructure = serializers.IntegerField(
        allow_null=True, help_text="Null if it applies to the whole environment."
    )
    variables = serializers.DictField()
    manifests = OverrideManifestFields(many=True)
    version = serializers.IntegerField(help_text="0 if there is no override.")
    effective = EffectiveVariableDocument(many=True)


class OverrideSummary(serializers.Serializer[Any]):
    """Summary of a service's overrides in an environment or infrastructure."""

    service = serializers.IntegerField(source="service_id")
    identifier = serializers.CharField(source="service.identifier")
    infrastructure = serializers.IntegerField(source="infrastructure_id", allow_null=True)
    variables = serializers.DictField()
    manifests = OverrideManifestFields(many=True)
    version = serializers.IntegerField()


class OverrideChange(serializers.Serializer[Any]):
    """The complete overrides of a service in an environment or infrastructure; an empty body removes them."""

    variables = serializers.DictField()
    manifests = OverrideManifestFields(many=True, default=list)


class OverrideRoute(EnvironmentRoute):
    """Base of the override routes; a URL may name an infrastructure of the environment."""

    def get_infrastructure(self, pk: int, infrastructure: int | None) -> Infrastructure | None:
        """Return the infrastructure in the URL, or None."""
        if infrastructure is None:
            return None
        rows = Infrastructure.objects.select_related("environment__scope")
        return self.get_visible(VIEW_ENVIRONMENT, rows, pk=infrastructure, environment_id=pk)

    def get_override_set(
        self, pk: int, service: int, infrastructure: int | None, *, lock: bool = False
    ) -> ServiceOverrideSet:
        """Return the override set in the URL."""
        environment = self.get_environment(pk, lock=lock)
        visible_service = self.get_visible(VIEW_SERVICE, Service.objects.select_related("scope"), pk=service)
        return load_override_set(visible_service, environment, self.get_infrastructure(pk, infrastructure))


class Overrides(OverrideRoute):
    """The services with overrides in an environment or infrastructure."""

    @extend_schema(parameters=PAGE_PARAMETERS, responses=OverrideSummary(many=True))
    def get(self, request: Request, pk: int, infrastructure: int | None = None) -> Response:
        environment, place = self.get_environment(pk), self.get_infrastructure(pk, infrastructure)
        visible = filter_visible(self.principal, VIEW_SERVICE, Service.objects.all())
        rows = environment.overrides.filter(infrastructure=place, service__in=visible).select_related(
            "service"
        )
        return self.paginate(rows, OverrideSummary)


class OverrideDetail(OverrideRoute):
    """The overrides of one service in an environment or infrastructure."""

    @extend_schema(responses=OverrideDocument)
    def get(self, request: Request, pk: int, service: int, infrastructure: int | None = None) -> Response:
        return _build_response(self.get_override_set(pk, service, infrastructure))

    @extend_schema(parameters=[IF_MATCH_PARAMETER], request=OverrideChange, responses=OverrideDocument)
    def put(self, request: Request, pk: int, service: int, infrastructure: int | None = None) -> Response:
        data = self.get_validated_body(OverrideChange)
        spec = operations.OverrideSpec(
            data["variables"], [build_manifest_spec(manifest) for manifest in data["manifests"]]
        )
        return self._save(request, pk, service, infrastructure, spec)

    @extend_schema(parameters=[IF_MATCH_PARAMETER], responses={200: OverrideDocument})
    def delete(self, request: Request, pk: int, service: int, infrastructure: int | None = None) -> Response:
        return self._save(request, pk, service, infrastructure, operations.OverrideSpec())

    def _save(
        self,
        request: Request,
        pk: int,
        service: int,
        infrastructure: int | None,
        spec: operations.OverrideSpec,
    ) -> Response:
        with transaction.atomic():
            override_set = self.get_override_set(pk, service, infrastructure, lock=True)
            check_version(
                request, override_set.current_override.version if override_set.current_override else 0
            )
            operations.override_service(
                actor=self.principal,
                environment=override_set.environment,
                service=override_set.service,
                infrastructure=override_set.infrastructure,
                spec=spec,
            )
        return _build_response(
            load_override_set(override_set.service, override_set.environment, override_set.infrastructure)
        )


def _build_response(override_set: ServiceOverrideSet) -> Response:
    stored, levels = override_set.current_override, override_set.levels
    version = stored.version if stored else 0
    document = {
        "service": override_set.service.pk,
        "environment": override_set.environment.pk,
        "infrastructure": override_set.infrastructure.pk if override_set.infrastructure else None,
        "variables": stored.variables if stored else {},
        "manifests": stored.manifests if stored else [],
        "version": version,
        "effective": [
            _serialize_variable(variable, [level.kind for level in levels])
            for variable in resolve_variables(levels, override_set.service.required_variables)
        ],
    }
    return respond_with_etag(document, version)


def _serialize_variable(variable: EffectiveVariable, kinds: list[str]) -> dict[str, Any]:
    return {
        "name": variable.name,
        "value": variable.value,
        "winner": variable.winner.kind if variable.winner else None,
        "values": dict(zip(kinds, variable.values, strict=True)),
        "is_required": variable.is_required,
        "is_missing": variable.is_missing,
    }
