"""REST routes of services."""

from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog import operations
from catalog.manifests.stores import list_store_names
from catalog.models import Manifest, Service
from guards.limits import DESCRIPTION_CHARACTERS, PATH_CHARACTERS, SPEC_BYTES
from web.api.parameters import FORCE_DELETE_PARAMETER, IF_MATCH_PARAMETER, LIST_PARAMETERS, SHARED_PARAMETER
from web.api.proposed_changes import ProposedChangeDocument
from web.api.views import BaseApiView, check_version, respond_with_etag

VIEW = "core_service_view"


class ManifestFields(serializers.Serializer[Any]):
    """Manifest and its store; for the store TaskDefinitionArn `content` is the ARN.

    `place` locates the paths. In Git it is a connector, a branch, tag or commit, and a repository below an
    account's URL. In S3 it is a connector, region and bucket.
    """

    identifier = serializers.CharField(max_length=128)
    kind = serializers.ChoiceField(choices=Manifest.Kind.choices)
    store = serializers.ChoiceField(choices=list_store_names(), default="FileStore")
    paths = serializers.ListField(
        child=serializers.CharField(max_length=int(PATH_CHARACTERS)), max_length=50, default=list
    )
    content = serializers.CharField(
        allow_blank=True, trim_whitespace=False, max_length=int(SPEC_BYTES), default=""
    )
    place = serializers.DictField(
        child=serializers.CharField(max_length=int(PATH_CHARACTERS), allow_blank=True), default=dict
    )


class ArtifactFields(serializers.Serializer[Any]):
    """Image of a service, and the default tag.

    `source` is the registry for tags and digests: type (DockerRegistry or Ecr), connector and imagePath. ECR
    also needs a region. `tagPattern` selects the newest matching tag, such as 1.27.* or /1[.]27[.][0-9]+/.
    """

    image = serializers.RegexField(operations.IMAGE_PATTERN)
    tag = serializers.RegexField(operations.TAG_PATTERN, default="latest")
    source = serializers.DictField(  # type: ignore[assignment]
        child=serializers.CharField(max_length=int(PATH_CHARACTERS), allow_blank=True), default=dict
    )


class ServiceDocument(serializers.Serializer[Any]):
    """A service."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    scope = serializers.CharField(source="scope.path")
    org = serializers.CharField(source="scope.org")
    project = serializers.CharField(source="scope.project")
    variables = serializers.DictField()
    required_variables = serializers.ListField(child=serializers.CharField())
    artifact = ArtifactFields(allow_null=True, default=None)
    manifests = ManifestFields(many=True)
    version = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class ServiceChange(serializers.Serializer[Any]):
    """A service without its identifier; a change sends all fields."""

    name = serializers.CharField(max_length=128)
    description = serializers.CharField(allow_blank=True, max_length=int(DESCRIPTION_CHARACTERS), default="")
    variables = serializers.DictField(default=dict)
    required_variables = serializers.ListField(child=serializers.CharField(), max_length=200, default=list)
    artifact = ArtifactFields(allow_null=True, default=None)
    manifests = ManifestFields(many=True, default=list)


class ServiceInput(ServiceChange):
    """A new service."""

    identifier = serializers.CharField(max_length=128)
    org = serializers.CharField(required=False, write_only=True)
    project = serializers.CharField(required=False, write_only=True)


class Services(BaseApiView):
    """List of services."""

    @extend_schema(parameters=[*LIST_PARAMETERS, SHARED_PARAMETER], responses=ServiceDocument(many=True))
    def get(self, request: Request) -> Response:
        return self.list_visible(VIEW, _load_services(), ServiceDocument)

    @extend_schema(request=ServiceInput, responses={201: ServiceDocument})
    def post(self, request: Request) -> Response:
        data, scope = self.get_validated_body(ServiceInput), self.get_named_scope()
        service = operations.create_service(
            actor=self.principal, scope=scope, identifier=data["identifier"], spec=_build_spec(data)
        )
        return respond_with_etag(
            ServiceDocument(_load_services().get(pk=service.pk)).data, service.version, status=201
        )


class ServiceDetail(BaseApiView):
    """One service."""

    @extend_schema(responses=ServiceDocument)
    def get(self, request: Request, pk: int) -> Response:
        service = self.get_visible(VIEW, _load_services(), pk=pk)
        return respond_with_etag(ServiceDocument(service).data, service.version)

    @extend_schema(
        parameters=[IF_MATCH_PARAMETER],
        request=ServiceChange,
        responses={200: ServiceDocument, 202: ProposedChangeDocument},
    )
    def put(self, request: Request, pk: int) -> Response:
        spec = _build_spec(self.get_validated_body(ServiceChange))
        with transaction.atomic():
            service = self.get_visible(VIEW, Service.objects.select_related("scope"), lock=True, pk=pk)
            check_version(request, service.version)
            operations.update_service(actor=self.principal, service=service, spec=spec)
        changed = _load_services().get(pk=pk)
        return respond_with_etag(ServiceDocument(changed).data, changed.version)

    @extend_schema(parameters=[FORCE_DELETE_PARAMETER, IF_MATCH_PARAMETER], responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        with transaction.atomic():
            service = self.get_visible(VIEW, _load_services(), lock=True, pk=pk)
            check_version(request, service.version)
            operations.delete_service(
                actor=self.principal, service=service, although_used=self.is_flag_set("although_used")
            )
        return Response(status=204)


def _load_services() -> Any:
    return Service.objects.select_related("scope", "artifact").prefetch_related("manifests")


def _build_spec(data: dict[str, Any]) -> operations.ServiceSpec:
    artifact = data["artifact"] or {}
    return operations.ServiceSpec(
        name=data["name"],
        description=data["description"],
        variables=data["variables"],
        required_variables=data["required_variables"],
        image=artifact.get("image", ""),
        tag=artifact.get("tag", "latest"),
        source={name: value for name, value in artifact.get("source", {}).items() if value},
        manifests=[build_manifest_spec(manifest) for manifest in data["manifests"]],
    )


def build_manifest_spec(data: dict[str, Any]) -> operations.ManifestSpec:
    """Build a manifest spec from the request body."""
    return operations.ManifestSpec(**{**data, "paths": tuple(data["paths"])})
