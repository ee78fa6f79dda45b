"""Routes through a connector: test, clusters, load balancers, repositories, tags, regions."""

import uuid
from typing import Any, ClassVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from aws.regions import list_regions
from connectors.models import Connector
from connectors.required_access import get_connector_requirements, require_access
from connectors.specs.aws import parse_aws_spec
from delegates.access import aws_access
from delegates.access.connector_tests import run_connector_test
from delegates.access.images import paginate_tags
from delegates.access.lookup_requests import (
    create_lookup_request,
    list_clusters_by_delegate,
    list_image_tags,
    list_options,
    list_repositories,
)
from delegates.models import LookupRequest
from guards.limits import PAGE_ROWS
from rbac.policy import NotVisible
from web.api.parameters import parse_number
from web.api.views import BaseApiView
from web.http.problems import BadInput

VIEW = "core_connector_view"
REGION = OpenApiParameter(
    "region", OpenApiTypes.STR, required=True, description="AWS region, such as us-east-1."
)


class TestInput(serializers.Serializer[Any]):
    """Region for a connector test; by default the connector's test region."""

    __test__ = False
    region = serializers.CharField(required=False, default="")


class TestCheck(serializers.Serializer[Any]):
    """Check of a connector test."""

    __test__ = False
    name = serializers.CharField()
    ok = serializers.BooleanField()
    message = serializers.CharField()


class TestDocument(serializers.Serializer[Any]):
    """Result of a connector test; `policy` contains the missing permissions."""

    __test__ = False
    ok = serializers.BooleanField()
    message = serializers.CharField()
    region = serializers.CharField()
    account_id = serializers.CharField()
    arn = serializers.CharField()
    checks = TestCheck(many=True)
    next_step = serializers.CharField()
    policy = serializers.CharField()
    delegate = serializers.CharField(default="")


class LookupRequestDocument(serializers.Serializer[Any]):
    """Lookup that a delegate reads from AWS; a DONE lookup has `result`, a waiting one `reason`."""

    id = serializers.UUIDField()
    status = serializers.ChoiceField(choices=["RUNNING", "DONE"])
    region = serializers.CharField()
    task = serializers.UUIDField(allow_null=True)
    reason = serializers.CharField()
    delegate = serializers.CharField()
    result = TestDocument(allow_null=True)


class ClusterDocument(serializers.Serializer[Any]):
    """ECS cluster."""

    name = serializers.CharField()
    arn = serializers.CharField()


class RegionDocument(serializers.Serializer[Any]):
    """AWS region."""

    name = serializers.CharField()
    title = serializers.CharField()


class ClusterList(serializers.Serializer[Any]):
    """Clusters of a region."""

    results = ClusterDocument(many=True)
    next = serializers.CharField(allow_null=True)


class RegionList(serializers.Serializer[Any]):
    """AWS regions."""

    results = RegionDocument(many=True)
    next = serializers.CharField(allow_null=True)


class ConnectorAccessRoute(BaseApiView):
    """Base of the routes that use a connector's access."""

    def get_usable_connector(self, pk: int) -> Connector:
        connector = self.get_visible(VIEW, Connector.objects.select_related("scope", "secret"), pk=pk)
        require_access(self.principal, get_connector_requirements(connector))
        return connector


class ConnectorTestRoute(ConnectorAccessRoute):
    """Connector test, from Slipway at once or through delegate tasks."""

    @extend_schema(request=TestInput, responses={200: TestDocument, 202: LookupRequestDocument})
    def post(self, request: Request, pk: int) -> Response:
        connector = self.get_usable_connector(pk)
        region = validate_region(self.get_validated_body(TestInput)["region"])
        if parse_aws_spec(connector.spec).is_remote:
            begun = create_lookup_request(
                actor=self.principal, connector=connector, kind=LookupRequest.Kind.TEST, region=region
            )
            return Response(serialize_lookup_request(begun), status=202)
        tested = run_connector_test(actor=self.principal, connector=connector, region=region)
        return Response(TestDocument(tested).data)


class ConnectorTestByDelegate(ConnectorAccessRoute):
    """Progress of a connector test through a delegate."""

    @extend_schema(responses=LookupRequestDocument)
    def get(self, request: Request, pk: int, inquiry: uuid.UUID) -> Response:
        connector = self.get_usable_connector(pk)
        lookups = LookupRequest.objects.filter(
            connector=connector, kind=LookupRequest.Kind.TEST
        ).select_related("task")
        lookup = lookups.filter(pk=inquiry).first()
        if lookup is None:
            raise NotVisible("This test does not exist.")
        return Response(serialize_lookup_request(lookup))


class ConnectorClusters(ConnectorAccessRoute):
    """ECS clusters visible to a connector; poll again while a delegate reads them."""

    @extend_schema(parameters=[REGION], responses={200: ClusterList, 202: LookupRequestDocument})
    def get(self, request: Request, pk: int) -> Response:
        connector = self.get_usable_connector(pk)
        region = validate_region(request.GET.get("region", ""), required=True)
        if parse_aws_spec(connector.spec).is_remote:
            return self._build_delegate_response(connector, region)
        clusters = aws_access.list_clusters(actor=self.principal, connector=connector, region=region)
        return Response({"results": ClusterDocument(clusters, many=True).data, "next": None})

    def _build_delegate_response(self, connector: Connector, region: str) -> Response:
        result = list_clusters_by_delegate(actor=self.principal, connector=connector, region=region)
        if isinstance(result, LookupRequest):
            return Response(serialize_lookup_request(result), status=202)
        return Response({"results": ClusterDocument(result, many=True).data, "next": None})


def serialize_lookup_request(lookup: LookupRequest) -> dict[str, Any]:
    is_test = lookup.kind == LookupRequest.Kind.TEST
    document = {
        "id": lookup.pk,
        "status": "RUNNING" if lookup.finished_at is None else "DONE",
        "region": lookup.region,
        "task": lookup.task_id,
        "reason": lookup.reason,
        "delegate": lookup.answered_by,
        "result": lookup.report if is_test else None,
    }
    return dict(LookupRequestDocument(document).data)


class AwsRegions(BaseApiView):
    """Regions in which AWS offers ECS."""

    @extend_schema(responses=RegionList)
    def get(self, request: Request) -> Response:
        return Response({"results": RegionDocument(list_regions(), many=True).data, "next": None})


def validate_region(region: str, *, required: bool = False) -> str:
    """Return a valid region. Raises `BadInput`: the region becomes part of a host name."""
    if (not region and not required) or any(region == region_info.name for region_info in list_regions()):
        return region
    message = "is not a region of AWS" if region else "is missing"
    raise BadInput("Name a region, such as us-east-1.", errors=[{"path": "region", "message": message}])


LOAD_BALANCER = OpenApiParameter(
    "load_balancer", OpenApiTypes.STR, required=True, description="ARN of a load balancer."
)
LISTENER = OpenApiParameter("listener", OpenApiTypes.STR, required=True, description="ARN of a listener.")


class TargetDocument(serializers.Serializer[Any]):
    """Target group that receives traffic, with its weight."""

    arn = serializers.CharField()
    name = serializers.CharField()
    weight = serializers.IntegerField()


class LoadBalancerDocument(serializers.Serializer[Any]):
    """Load balancer."""

    name = serializers.CharField()
    arn = serializers.CharField()
    type = serializers.CharField()
    dns_name = serializers.CharField()


class ListenerDocument(serializers.Serializer[Any]):
    """Listener with the target groups of its default rule."""

    arn = serializers.CharField()
    port = serializers.IntegerField()
    protocol = serializers.CharField()
    targets = TargetDocument(many=True)


class ListenerRuleDocument(serializers.Serializer[Any]):
    """Listener rule with its conditions in words and its current target groups.

    `arn` is empty for a network load balancer, whose listeners have only a default rule.
    """

    arn = serializers.CharField(allow_blank=True)
    priority = serializers.CharField()
    is_default = serializers.BooleanField()
    conditions = serializers.ListField(child=serializers.CharField())
    targets = TargetDocument(many=True)


class LoadBalancerList(serializers.Serializer[Any]):
    """Load balancers of a region."""

    results = LoadBalancerDocument(many=True)
    next = serializers.CharField(allow_null=True)


class ListenerList(serializers.Serializer[Any]):
    """Listeners of a load balancer."""

    results = ListenerDocument(many=True)
    next = serializers.CharField(allow_null=True)


class ListenerRuleList(serializers.Serializer[Any]):
    """Rules of a listener."""

    results = ListenerRuleDocument(many=True)
    next = serializers.CharField(allow_null=True)


class LookupRoute(ConnectorAccessRoute):
    """Base of lists read from AWS at request time; 202 while a delegate reads, poll again."""

    kind: ClassVar[str]
    subject: ClassVar[str] = ""

    def build_response(self, request: Request, pk: int) -> Response:
        connector = self.get_usable_connector(pk)
        result = list_options(
            actor=self.principal,
            connector=connector,
            kind=self.kind,
            region=validate_region(request.GET.get("region", ""), required=True),
            subject=request.GET.get(self.subject, "") if self.subject else "",
        )
        if isinstance(result, LookupRequest):
            return Response(serialize_lookup_request(result), status=202)
        return Response({"results": result, "next": None})


class ConnectorLoadBalancers(LookupRoute):
    """Load balancers of a region visible to a connector."""

    kind = LookupRequest.Kind.BALANCERS

    @extend_schema(parameters=[REGION], responses={200: LoadBalancerList, 202: LookupRequestDocument})
    def get(self, request: Request, pk: int) -> Response:
        return self.build_response(request, pk)


class ConnectorListeners(LookupRoute):
    """Listeners of a load balancer."""

    kind = LookupRequest.Kind.LISTENERS
    subject = "load_balancer"

    @extend_schema(
        parameters=[REGION, LOAD_BALANCER], responses={200: ListenerList, 202: LookupRequestDocument}
    )
    def get(self, request: Request, pk: int) -> Response:
        return self.build_response(request, pk)


class ConnectorRules(LookupRoute):
    """Rules of a listener, with conditions in words and current target groups."""

    kind = LookupRequest.Kind.RULES
    subject = "listener"

    @extend_schema(
        parameters=[REGION, LISTENER], responses={200: ListenerRuleList, 202: LookupRequestDocument}
    )
    def get(self, request: Request, pk: int) -> Response:
        return self.build_response(request, pk)


SHOWN, PAGES = 100, 100_000
_PAGED = [
    OpenApiParameter("search", OpenApiTypes.STR, description="Filter by a part of the name."),
    OpenApiParameter(
        "page", {"type": "integer", "minimum": 1, "maximum": PAGES}, description="Page number, starting at 1."
    ),
    OpenApiParameter("limit", {"type": "integer", "minimum": 1, "maximum": int(PAGE_ROWS)}),
]
_ECR_REGION = OpenApiParameter("region", OpenApiTypes.STR, description="Region of an ECR repository.")
_PARAMETERS = [
    OpenApiParameter(
        "image", OpenApiTypes.STR, required=True, description="Repository such as library/nginx."
    ),
    _ECR_REGION,
    *_PAGED,
]


class TagList(serializers.Serializer[Any]):
    """Tags, newest first for ECR, else highest version first; `next` is the number of the next page.

    `is_cut` means that the repository has more tags than Slipway reads.
    """

    results = serializers.ListField(child=serializers.CharField())
    is_cut = serializers.BooleanField()
    next = serializers.IntegerField(allow_null=True)


class RepositoryList(serializers.Serializer[Any]):
    """Repositories by name; `next` and `is_cut` are as in a list of tags."""

    results = serializers.ListField(child=serializers.CharField())
    is_cut = serializers.BooleanField()
    next = serializers.IntegerField(allow_null=True)


class ConnectorRepositories(ConnectorAccessRoute):
    """Repositories of a registry, or of ECR in a region; 202 while a delegate reads them, poll again."""

    @extend_schema(
        parameters=[_ECR_REGION, *_PAGED], responses={200: RepositoryList, 202: LookupRequestDocument}
    )
    def get(self, request: Request, pk: int) -> Response:
        connector = self.get_usable_connector(pk)
        page = parse_number(request, "page", least=1, most=PAGES) or 1
        limit = parse_number(request, "limit", least=1, most=int(PAGE_ROWS)) or SHOWN
        is_aws = connector.kind == Connector.Kind.AWS
        region = validate_region(request.GET.get("region", ""), required=True) if is_aws else ""
        result = list_repositories(actor=self.principal, connector=connector, region=region)
        if isinstance(result, LookupRequest):
            return Response(serialize_lookup_request(result), status=202)
        paged = paginate_tags(result.as_tags, search=request.GET.get("search", ""), page=page, limit=limit)
        names = [tag.name for tag in paged.tags]
        return Response({"results": names, "is_cut": result.is_cut, "next": paged.following})


class ConnectorTags(ConnectorAccessRoute):
    """Tags of an image in a registry or in ECR; 202 while a delegate reads them, poll again."""

    @extend_schema(parameters=_PARAMETERS, responses={200: TagList, 202: LookupRequestDocument})
    def get(self, request: Request, pk: int) -> Response:
        connector = self.get_usable_connector(pk)
        page = parse_number(request, "page", least=1, most=PAGES) or 1
        limit = parse_number(request, "limit", least=1, most=int(PAGE_ROWS)) or SHOWN
        is_aws = connector.kind == Connector.Kind.AWS
        region = validate_region(request.GET.get("region", ""), required=True) if is_aws else ""
        image = request.GET.get("image", "").strip()
        result = list_image_tags(actor=self.principal, connector=connector, image=image, region=region)
        if isinstance(result, LookupRequest):
            return Response(serialize_lookup_request(result), status=202)
        shown_now = paginate_tags(result.tags, search=request.GET.get("search", ""), page=page, limit=limit)
        names = [tag.name for tag in shown_now.tags]
        return Response({"results": names, "is_cut": result.is_cut, "next": shown_now.following})
