"""Routes of what a service has in one environment or one infrastructure of it, and of what counts there."""

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
from catalog.api.services import ManifestFields, manifest_spec
from catalog.effective.resolution import Overridden, overridden
from catalog.effective.variables import Variable, resolved
from catalog.manifests.layers import MERGE, MODES
from catalog.models import Infrastructure, Service
from rbac.policy import visible_to
from web.rest import IF_MATCH, PAGED, check_version, versioned


class CountingVariable(serializers.Serializer[Any]):
    """One variable: what each level says (null where silent), the value that counts, and whose it is."""

    name = serializers.CharField()
    value = serializers.JSONField(allow_null=True)
    winner = serializers.CharField(allow_null=True)
    values = serializers.DictField()
    is_required = serializers.BooleanField()
    is_missing = serializers.BooleanField()


class OverridingManifest(ManifestFields):
    """A manifest that is laid over the service's of its kind (`merge`), or takes its place (`replace`)."""

    mode = serializers.ChoiceField(choices=MODES, default=MERGE)


class OverrideDocument(serializers.Serializer[Any]):
    """What a service has in an environment or in one infrastructure of it, and all variables that count."""

    service = serializers.IntegerField()
    environment = serializers.IntegerField()
    infrastructure = serializers.IntegerField(
        allow_null=True, help_text="null where it is the whole environment's."
    )
    variables = serializers.DictField()
    manifests = OverridingManifest(many=True)
    version = serializers.IntegerField(help_text="0 where nothing is overridden.")
    effective = CountingVariable(many=True)


class OverrideSummary(serializers.Serializer[Any]):
    """What a service has in an environment or an infrastructure."""

    service = serializers.IntegerField(source="service_id")
    identifier = serializers.CharField(source="service.identifier")
    infrastructure = serializers.IntegerField(source="infrastructure_id", allow_null=True)
    variables = serializers.DictField()
    manifests = OverridingManifest(many=True)
    version = serializers.IntegerField()


class OverrideChange(serializers.Serializer[Any]):
    """What a service shall have there, and nothing else; nothing at all removes the override."""

    variables = serializers.DictField()
    manifests = OverridingManifest(many=True, default=list)


class OverrideRoute(EnvironmentRoute):
    """The base of routes about overrides: an address may name an infrastructure of the environment."""

    def place(self, pk: int, infrastructure: int | None) -> Infrastructure | None:
        """Return the infrastructure of the address, if it names one."""
        if infrastructure is None:
            return None
        rows = Infrastructure.objects.select_related("environment__scope")
        return self.one(VIEW_ENVIRONMENT, rows, pk=infrastructure, environment_id=pk)

    def there(self, pk: int, service: int, infrastructure: int | None, *, lock: bool = False) -> Overridden:
        """Return the overrides that the address means."""
        environment = self.environment(pk, lock=lock)
        found = self.one(VIEW_SERVICE, Service.objects.select_related("scope"), pk=service)
        return overridden(found, environment, self.place(pk, infrastructure))


class Overrides(OverrideRoute):
    """The services with something of their own in an environment, or in one infrastructure."""

    @extend_schema(parameters=PAGED, responses=OverrideSummary(many=True))
    def get(self, request: Request, pk: int, infrastructure: int | None = None) -> Response:
        environment, place = self.environment(pk), self.place(pk, infrastructure)
        seen = visible_to(self.principal, VIEW_SERVICE, Service.objects.all())
        rows = environment.overrides.filter(infrastructure=place, service__in=seen).select_related("service")
        return self.page(rows, OverrideSummary)


class OneOverride(OverrideRoute):
    """What one service has in one environment, or in one infrastructure of it."""

    @extend_schema(responses=OverrideDocument)
    def get(self, request: Request, pk: int, service: int, infrastructure: int | None = None) -> Response:
        return _answer(self.there(pk, service, infrastructure))

    @extend_schema(parameters=[IF_MATCH], request=OverrideChange, responses=OverrideDocument)
    def put(self, request: Request, pk: int, service: int, infrastructure: int | None = None) -> Response:
        given = self.given(OverrideChange)
        spec = operations.OverrideSpec(given["variables"], [manifest_spec(one) for one in given["manifests"]])
        return self._save(request, pk, service, infrastructure, spec)

    @extend_schema(parameters=[IF_MATCH], responses=OverrideDocument)
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
            there = self.there(pk, service, infrastructure, lock=True)
            check_version(request, there.strongest.version if there.strongest else 0)
            operations.override_service(
                actor=self.principal,
                environment=there.environment,
                service=there.service,
                infrastructure=there.infrastructure,
                spec=spec,
            )
        return _answer(overridden(there.service, there.environment, there.infrastructure))


def _answer(there: Overridden) -> Response:
    stored, levels = there.strongest, there.levels
    version = stored.version if stored else 0
    document = {
        "service": there.service.pk,
        "environment": there.environment.pk,
        "infrastructure": there.infrastructure.pk if there.infrastructure else None,
        "variables": stored.variables if stored else {},
        "manifests": stored.manifests if stored else [],
        "version": version,
        "effective": [
            _plain(one, [level.kind for level in levels])
            for one in resolved(levels, there.service.required_variables)
        ],
    }
    return versioned(document, version)


def _plain(variable: Variable, kinds: list[str]) -> dict[str, Any]:
    return {
        "name": variable.name,
        "value": variable.value,
        "winner": variable.winner.kind if variable.winner else None,
        "values": dict(zip(kinds, variable.values, strict=True)),
        "is_required": variable.is_required,
        "is_missing": variable.is_missing,
    }
