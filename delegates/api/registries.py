"""The routes that list the repositories of a registry and the tags of an image, live."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from connectors.models import Connector
from delegates.api.doors import DoorRoute, InquiryDocument, known_region, shown
from delegates.images import page_of
from delegates.models import Inquiry
from delegates.registries import repositories_by_connector, tags_by_connector
from guards.limits import PAGE_ROWS
from web.asked import number_in

SHOWN, PAGES = 100, 100_000
_PAGED = [
    OpenApiParameter("search", OpenApiTypes.STR, description="What a name contains."),
    OpenApiParameter("page", {"type": "integer", "minimum": 1, "maximum": PAGES}, description="From 1."),
    OpenApiParameter("limit", {"type": "integer", "minimum": 1, "maximum": int(PAGE_ROWS)}),
]
_OF_ECR = OpenApiParameter("region", OpenApiTypes.STR, description="Of ECR: the region of the repository.")
_PARAMETERS = [
    OpenApiParameter("image", OpenApiTypes.STR, required=True, description="Such as library/nginx."),
    _OF_ECR,
    *_PAGED,
]


class TagList(serializers.Serializer[Any]):
    """Tags, of ECR the newest first, else the highest; `next` is the number of the next page.

    `is_cut` says that the repository has more tags than Slipway reads.
    """

    results = serializers.ListField(child=serializers.CharField())
    is_cut = serializers.BooleanField()
    next = serializers.IntegerField(allow_null=True)


class RepositoryList(serializers.Serializer[Any]):
    """Repositories by name; `next` and `is_cut` as of tags."""

    results = serializers.ListField(child=serializers.CharField())
    is_cut = serializers.BooleanField()
    next = serializers.IntegerField(allow_null=True)


class ConnectorRepositories(DoorRoute):
    """The repositories of a registry, or of ECR in a region; 202 while a delegate looks: ask again."""

    @extend_schema(parameters=[_OF_ECR, *_PAGED], responses={200: RepositoryList, 202: InquiryDocument})
    def get(self, request: Request, pk: int) -> Response:
        connector = self.usable(pk)
        page = number_in(request, "page", least=1, most=PAGES) or 1
        limit = number_in(request, "limit", least=1, most=int(PAGE_ROWS)) or SHOWN
        is_aws = connector.kind == Connector.Kind.AWS
        region = known_region(request.GET.get("region", ""), required=True) if is_aws else ""
        found = repositories_by_connector(actor=self.principal, connector=connector, region=region)
        if isinstance(found, Inquiry):
            return Response(shown(found), status=202)
        paged = page_of(found.as_tags, search=request.GET.get("search", ""), page=page, limit=limit)
        names = [one.name for one in paged.tags]
        return Response({"results": names, "is_cut": found.is_cut, "next": paged.following})


class ConnectorTags(DoorRoute):
    """The tags of an image in a registry or in ECR; 202 while a delegate looks, to be asked again."""

    @extend_schema(parameters=_PARAMETERS, responses={200: TagList, 202: InquiryDocument})
    def get(self, request: Request, pk: int) -> Response:
        connector = self.usable(pk)
        page = number_in(request, "page", least=1, most=PAGES) or 1
        limit = number_in(request, "limit", least=1, most=int(PAGE_ROWS)) or SHOWN
        is_aws = connector.kind == Connector.Kind.AWS
        region = known_region(request.GET.get("region", ""), required=True) if is_aws else ""
        image = request.GET.get("image", "").strip()
        found = tags_by_connector(actor=self.principal, connector=connector, image=image, region=region)
        if isinstance(found, Inquiry):
            return Response(shown(found), status=202)
        shown_now = page_of(found.tags, search=request.GET.get("search", ""), page=page, limit=limit)
        names = [one.name for one in shown_now.tags]
        return Response({"results": names, "is_cut": found.is_cut, "next": shown_now.following})
