"""API of resource groups."""

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from guards.limits import RESOURCE_GROUP_ENTRIES
from rbac import operations
from rbac.models import ResourceGroup
from rbac.permissions import RESOURCE_TYPES
from web.api.parameters import FORCE_DELETE_PARAMETER, IF_MATCH_PARAMETER, LIST_PARAMETERS
from web.api.views import BaseApiView, check_version, respond_with_etag

VIEW = "core_resourcegroup_view"


class EntryDocument(serializers.Serializer[Any]):
    """Resource by kind and identifier; without an identifier, all resources of the kind."""

    resource = serializers.ChoiceField(choices=[resource.identifier for resource in RESOURCE_TYPES])
    identifier = serializers.CharField(required=False, default="", allow_blank=True, max_length=128)


class ResourceGroupDocument(serializers.Serializer[Any]):
    """Named set of resources."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    scope = serializers.CharField(source="scope.path")
    entries = EntryDocument(source="entries.all", many=True)
    version = serializers.IntegerField()


class ResourceGroupChange(serializers.Serializer[Any]):
    """Writable fields of a resource group."""

    name = serializers.CharField(required=False, max_length=128)
    description = serializers.CharField(required=False, allow_blank=True, max_length=400)
    entries = serializers.ListField(
        child=EntryDocument(), required=False, max_length=int(RESOURCE_GROUP_ENTRIES)
    )


class ResourceGroupInput(serializers.Serializer[Any]):
    """Fields of a new resource group; by default the identifier is derived from the name."""

    name = serializers.CharField(max_length=128)
    scope = serializers.CharField(max_length=400)
    identifier = serializers.CharField(required=False, default="", max_length=128)
    description = serializers.CharField(required=False, default="", allow_blank=True, max_length=400)
    entries = serializers.ListField(
        child=EntryDocument(), required=False, default=list, max_length=int(RESOURCE_GROUP_ENTRIES)
    )


class ResourceGroupListView(BaseApiView):
    """Resource groups, which limit role assignments to some resources."""

    @extend_schema(parameters=LIST_PARAMETERS, responses=ResourceGroupDocument(many=True))
    def get(self, request: Request) -> Response:
        return self.list_visible(VIEW, _list_resource_groups(), ResourceGroupDocument)

    @extend_schema(request=ResourceGroupInput, responses={201: ResourceGroupDocument})
    def post(self, request: Request) -> Response:
        data = self.get_validated_body(ResourceGroupInput)
        scope, entries = self.get_scope(data.pop("scope")), _build_entries(data.pop("entries"))
        group = operations.create_resource_group(actor=self.principal, scope=scope, entries=entries, **data)
        return _respond(group.pk, status=201)


class ResourceGroupDetailView(BaseApiView):
    """Resource group."""

    @extend_schema(responses=ResourceGroupDocument)
    def get(self, request: Request, pk: int) -> Response:
        group = self._get_group(pk)
        return respond_with_etag(ResourceGroupDocument(group).data, group.version)

    @extend_schema(
        parameters=[IF_MATCH_PARAMETER], request=ResourceGroupChange, responses=ResourceGroupDocument
    )
    def patch(self, request: Request, pk: int) -> Response:
        """Update a resource group; `entries` replace the current ones."""
        data = self.get_validated_body(ResourceGroupChange)
        with transaction.atomic():
            group = self._lock_group(pk)
            check_version(request, group.version)
            entries = data.get("entries", list(group.entries.values("resource", "identifier")))
            operations.update_resource_group(
                actor=self.principal,
                group=group,
                name=data.get("name", group.name),
                description=data.get("description", group.description),
                entries=_build_entries(entries),
            )
        return _respond(pk)

    @extend_schema(parameters=[FORCE_DELETE_PARAMETER, IF_MATCH_PARAMETER], responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Delete a resource group; with `although_used`, remove the assignments limited to it too."""
        although_used = self.is_flag_set("although_used")
        with transaction.atomic():
            group = self._lock_group(pk)
            check_version(request, group.version)
            operations.delete_resource_group(actor=self.principal, group=group, although_used=although_used)
        return Response(status=204)

    def _get_group(self, pk: int) -> ResourceGroup:
        return self.get_visible(VIEW, _list_resource_groups(), pk=pk)

    def _lock_group(self, pk: int) -> ResourceGroup:
        return self.get_visible(VIEW, _list_resource_groups(), lock=True, pk=pk)


def _list_resource_groups() -> QuerySet[ResourceGroup]:
    return ResourceGroup.objects.select_related("scope").prefetch_related("entries")


def _respond(pk: int, status: int = 200) -> Response:
    group = _list_resource_groups().get(pk=pk)
    return respond_with_etag(ResourceGroupDocument(group).data, group.version, status)


def _build_entries(entries: list[dict[str, str]]) -> list[tuple[str, str]]:
    return [(entry["resource"], entry["identifier"]) for entry in entries]
