"""Routes of the variables that a service has in one environment, and of which value counts there."""

from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from deployments import catalog
from deployments.api.environments import EnvironmentRoute
from deployments.api.services import VIEW as VIEW_SERVICE
from deployments.models import Environment, Service, ServiceOverride
from deployments.variables import Variable, levels_of, resolved
from web.rest import IF_MATCH, PAGED, check_version, versioned


class CountingVariable(serializers.Serializer[Any]):
    """One variable: what each level says (null where silent), the value that counts, and whose it is."""

    name = serializers.CharField()
    value = serializers.JSONField(allow_null=True)
    winner = serializers.CharField(allow_null=True)
    values = serializers.DictField()
    is_required = serializers.BooleanField()
    is_missing = serializers.BooleanField()


class OverrideDocument(serializers.Serializer[Any]):
    """The variables that a service has in an environment, and all that count for it there."""

    service = serializers.IntegerField()
    environment = serializers.IntegerField()
    variables = serializers.DictField()
    version = serializers.IntegerField(help_text="0 where nothing is overridden.")
    effective = CountingVariable(many=True)


class OverrideSummary(serializers.Serializer[Any]):
    """The variables that a service has in an environment."""

    service = serializers.IntegerField(source="service_id")
    identifier = serializers.CharField(source="service.identifier")
    variables = serializers.DictField()
    version = serializers.IntegerField()


class OverrideChange(serializers.Serializer[Any]):
    """What a service shall have in an environment, and nothing else; none at all removes the override."""

    variables = serializers.DictField()


class Overrides(EnvironmentRoute):
    """The services with variables of their own in an environment."""

    @extend_schema(parameters=PAGED, responses=OverrideSummary(many=True))
    def get(self, request: Request, pk: int) -> Response:
        rows = self.environment(pk).overrides.filter(infrastructure=None).select_related("service")
        return self.page(rows, OverrideSummary)


class OneOverride(EnvironmentRoute):
    """What one service has in one environment."""

    @extend_schema(responses=OverrideDocument)
    def get(self, request: Request, pk: int, service: int) -> Response:
        return self._answer(self.environment(pk), self._service(service))

    @extend_schema(parameters=[IF_MATCH], request=OverrideChange, responses=OverrideDocument)
    def put(self, request: Request, pk: int, service: int) -> Response:
        return self._save(request, pk, service, self.given(OverrideChange, strict=True)["variables"])

    @extend_schema(parameters=[IF_MATCH], responses=OverrideDocument)
    def delete(self, request: Request, pk: int, service: int) -> Response:
        return self._save(request, pk, service, {})

    def _save(self, request: Request, pk: int, service: int, variables: dict[str, Any]) -> Response:
        with transaction.atomic():
            environment, found = self.environment(pk, lock=True), self._service(service)
            stored = _stored(environment, found)
            check_version(request, stored.version if stored else 0)
            catalog.override_service(
                actor=self.principal, environment=environment, service=found, variables=variables
            )
        return self._answer(environment, found)

    def _service(self, pk: int) -> Service:
        return self.one(VIEW_SERVICE, Service.objects.select_related("scope"), pk=pk)

    def _answer(self, environment: Environment, service: Service) -> Response:
        stored = _stored(environment, service)
        override = stored.variables if stored else {}
        levels = levels_of(service, environment, override)
        version = stored.version if stored else 0
        document = {
            "service": service.pk,
            "environment": environment.pk,
            "variables": override,
            "version": version,
            "effective": [
                _plain(one, [level.kind for level in levels])
                for one in resolved(levels, service.required_variables)
            ],
        }
        return versioned(document, version)


def _stored(environment: Environment, service: Service) -> ServiceOverride | None:
    return ServiceOverride.objects.filter(
        environment=environment, service=service, infrastructure=None
    ).first()


def _plain(variable: Variable, kinds: list[str]) -> dict[str, Any]:
    return {
        "name": variable.name,
        "value": variable.value,
        "winner": variable.winner.kind if variable.winner else None,
        "values": dict(zip(kinds, variable.values, strict=True)),
        "is_required": variable.is_required,
        "is_missing": variable.is_missing,
    }
