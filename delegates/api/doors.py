"""Routes that need a connector's door: trying it, and what can be seen through it."""

import uuid
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from aws.regions import regions
from connectors.aws_accounts import read_spec
from connectors.downstream import needs_of_connector, refuse_lacking
from connectors.models import Connector
from delegates import doors
from delegates.connector_tests import try_connector
from delegates.inquiries import ask, clusters_by_delegate
from delegates.models import Inquiry
from rbac.policy import NotVisible
from web.problems import BadInput
from web.rest import Route

VIEW = "core_connector_view"
REGION = OpenApiParameter(
    "region", OpenApiTypes.STR, required=True, description="A region, such as us-east-1."
)


class TestInput(serializers.Serializer[Any]):
    """Where to try a connector; its own test region where nothing is said."""

    __test__ = False
    region = serializers.CharField(required=False, default="")


class TestCheck(serializers.Serializer[Any]):
    """One thing that was tried."""

    __test__ = False
    name = serializers.CharField()
    ok = serializers.BooleanField()
    message = serializers.CharField()


class TestDocument(serializers.Serializer[Any]):
    """What came of trying a connector; `policy` would help where a permission is missing."""

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


class InquiryDocument(serializers.Serializer[Any]):
    """A question that a delegate asks AWS; `result` is there once it is DONE, `reason` while it waits."""

    id = serializers.UUIDField()
    status = serializers.ChoiceField(choices=["RUNNING", "DONE"])
    region = serializers.CharField()
    task = serializers.UUIDField(allow_null=True)
    reason = serializers.CharField()
    delegate = serializers.CharField()
    result = TestDocument(allow_null=True)


class ClusterDocument(serializers.Serializer[Any]):
    """An ECS cluster."""

    name = serializers.CharField()
    arn = serializers.CharField()


class RegionDocument(serializers.Serializer[Any]):
    """A region of AWS."""

    name = serializers.CharField()
    title = serializers.CharField()


class ClusterList(serializers.Serializer[Any]):
    """The clusters of a region."""

    results = ClusterDocument(many=True)
    next = serializers.CharField(allow_null=True)


class RegionList(serializers.Serializer[Any]):
    """Regions."""

    results = RegionDocument(many=True)
    next = serializers.CharField(allow_null=True)


class DoorRoute(Route):
    """The base of routes that go through a connector's door."""

    def usable(self, pk: int) -> Connector:
        connector = self.one(VIEW, Connector.objects.select_related("scope", "secret"), pk=pk)
        refuse_lacking(self.principal, needs_of_connector(connector))
        return connector


class ConnectorTest(DoorRoute):
    """Trying a connector: at once from this Slipway, or as tasks of a delegate."""

    @extend_schema(request=TestInput, responses={200: TestDocument, 202: InquiryDocument})
    def post(self, request: Request, pk: int) -> Response:
        connector = self.usable(pk)
        region = known_region(self.given(TestInput)["region"])
        if read_spec(connector.spec).is_remote:
            begun = ask(actor=self.principal, connector=connector, kind=Inquiry.Kind.TEST, region=region)
            return Response(shown(begun), status=202)
        tested = try_connector(actor=self.principal, connector=connector, region=region)
        return Response(TestDocument(tested).data)


class ConnectorTestByDelegate(DoorRoute):
    """How far the test of a connector through a delegate has come."""

    @extend_schema(responses=InquiryDocument)
    def get(self, request: Request, pk: int, inquiry: uuid.UUID) -> Response:
        connector = self.usable(pk)
        asked = Inquiry.objects.filter(connector=connector, kind=Inquiry.Kind.TEST).select_related("task")
        found = asked.filter(pk=inquiry).first()
        if found is None:
            raise NotVisible("There is no such test.")
        return Response(shown(found))


class ConnectorClusters(DoorRoute):
    """The ECS clusters that a connector can see; asked again while a delegate still looks for them."""

    @extend_schema(parameters=[REGION], responses={200: ClusterList, 202: InquiryDocument})
    def get(self, request: Request, pk: int) -> Response:
        connector = self.usable(pk)
        region = known_region(request.GET.get("region", ""), required=True)
        if read_spec(connector.spec).is_remote:
            return self._by_delegate(connector, region)
        found = doors.list_clusters(actor=self.principal, connector=connector, region=region)
        return Response({"results": ClusterDocument(found, many=True).data, "next": None})

    def _by_delegate(self, connector: Connector, region: str) -> Response:
        found = clusters_by_delegate(actor=self.principal, connector=connector, region=region)
        if isinstance(found, Inquiry):
            return Response(shown(found), status=202)
        return Response({"results": ClusterDocument(found, many=True).data, "next": None})


def shown(inquiry: Inquiry) -> dict[str, Any]:
    is_test = inquiry.kind == Inquiry.Kind.TEST
    document = {
        "id": inquiry.pk,
        "status": "RUNNING" if inquiry.finished_at is None else "DONE",
        "region": inquiry.region,
        "task": inquiry.task_id,
        "reason": inquiry.reason,
        "delegate": inquiry.answered_by,
        "result": inquiry.report if is_test else None,
    }
    return dict(InquiryDocument(document).data)


class AwsRegions(Route):
    """The regions that AWS offers ECS in."""

    @extend_schema(responses=RegionList)
    def get(self, request: Request) -> Response:
        return Response({"results": RegionDocument(regions(), many=True).data, "next": None})


def known_region(region: str, *, required: bool = False) -> str:
    """Give back a region. Raises `BadInput` for none: its name becomes part of the address that is called."""
    if (not region and not required) or any(region == one.name for one in regions()):
        return region
    message = "is not a region of AWS" if region else "is missing"
    raise BadInput("Name a region, such as us-east-1.", errors=[{"path": "region", "message": message}])
