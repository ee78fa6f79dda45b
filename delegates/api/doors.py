"""Routes that need a connector's door: trying it, and what can be seen through it."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from aws.regions import regions
from connectors.models import Connector
from delegates import doors
from delegates.connector_tests import try_connector
from rbac.policy import require
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

    def _usable(self, pk: int) -> Connector:
        connector = self.one(VIEW, Connector.objects.select_related("scope", "secret"), pk=pk)
        require(self.principal, "core_connector_access", connector)
        return connector


class ConnectorTest(DoorRoute):
    """Trying a connector."""

    @extend_schema(request=TestInput, responses=TestDocument)
    def post(self, request: Request, pk: int) -> Response:
        connector = self._usable(pk)
        region = known_region(self.given(TestInput)["region"])
        tested = try_connector(actor=self.principal, connector=connector, region=region)
        return Response(TestDocument(tested).data)


class ConnectorClusters(DoorRoute):
    """The ECS clusters that a connector can see."""

    @extend_schema(parameters=[REGION], responses=ClusterList)
    def get(self, request: Request, pk: int) -> Response:
        connector = self._usable(pk)
        region = known_region(request.GET.get("region", ""), required=True)
        found = doors.list_clusters(actor=self.principal, connector=connector, region=region)
        return Response({"results": ClusterDocument(found, many=True).data, "next": None})


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
