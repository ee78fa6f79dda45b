"""Routes that list load balancers, listeners and rules as a connector sees them, to choose from (R232)."""

from typing import Any, ClassVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from delegates.api.doors import REGION, DoorRoute, InquiryDocument, known_region, shown
from delegates.inquiries import seen_by_connector
from delegates.models import Inquiry

LOAD_BALANCER = OpenApiParameter(
    "load_balancer", OpenApiTypes.STR, required=True, description="The ARN of a load balancer."
)
LISTENER = OpenApiParameter("listener", OpenApiTypes.STR, required=True, description="The ARN of a listener.")


class TargetDocument(serializers.Serializer[Any]):
    """A target group that gets traffic, with its weight."""

    arn = serializers.CharField()
    name = serializers.CharField()
    weight = serializers.IntegerField()


class LoadBalancerDocument(serializers.Serializer[Any]):
    """A load balancer."""

    name = serializers.CharField()
    arn = serializers.CharField()
    type = serializers.CharField()
    dns_name = serializers.CharField()


class ListenerDocument(serializers.Serializer[Any]):
    """A listener, with where its default rule sends traffic."""

    arn = serializers.CharField()
    port = serializers.IntegerField()
    protocol = serializers.CharField()
    targets = TargetDocument(many=True)


class ListenerRuleDocument(serializers.Serializer[Any]):
    """A rule of a listener: conditions in words, and where it sends traffic now.

    `arn` is empty for a network load balancer, whose listeners have a default only.
    """

    arn = serializers.CharField(allow_blank=True)
    priority = serializers.CharField()
    is_default = serializers.BooleanField()
    conditions = serializers.ListField(child=serializers.CharField())
    targets = TargetDocument(many=True)


class LoadBalancerList(serializers.Serializer[Any]):
    """The load balancers of a region."""

    results = LoadBalancerDocument(many=True)
    next = serializers.CharField(allow_null=True)


class ListenerList(serializers.Serializer[Any]):
    """The listeners of a load balancer."""

    results = ListenerDocument(many=True)
    next = serializers.CharField(allow_null=True)


class ListenerRuleList(serializers.Serializer[Any]):
    """The rules of a listener."""

    results = ListenerRuleDocument(many=True)
    next = serializers.CharField(allow_null=True)


class SeenRoute(DoorRoute):
    """The base of lists that AWS is asked for now; 202 while a delegate looks, to be asked again."""

    kind: ClassVar[str]
    subject: ClassVar[str] = ""

    def seen(self, request: Request, pk: int) -> Response:
        connector = self.usable(pk)
        found = seen_by_connector(
            actor=self.principal,
            connector=connector,
            kind=self.kind,
            region=known_region(request.GET.get("region", ""), required=True),
            subject=request.GET.get(self.subject, "") if self.subject else "",
        )
        if isinstance(found, Inquiry):
            return Response(shown(found), status=202)
        return Response({"results": found, "next": None})


class ConnectorLoadBalancers(SeenRoute):
    """The load balancers that a connector can see in a region."""

    kind = Inquiry.Kind.BALANCERS

    @extend_schema(parameters=[REGION], responses={200: LoadBalancerList, 202: InquiryDocument})
    def get(self, request: Request, pk: int) -> Response:
        return self.seen(request, pk)


class ConnectorListeners(SeenRoute):
    """The listeners of a load balancer."""

    kind = Inquiry.Kind.LISTENERS
    subject = "load_balancer"

    @extend_schema(parameters=[REGION, LOAD_BALANCER], responses={200: ListenerList, 202: InquiryDocument})
    def get(self, request: Request, pk: int) -> Response:
        return self.seen(request, pk)


class ConnectorRules(SeenRoute):
    """The rules of a listener, with conditions in words and current targets."""

    kind = Inquiry.Kind.RULES
    subject = "listener"

    @extend_schema(parameters=[REGION, LISTENER], responses={200: ListenerRuleList, 202: InquiryDocument})
    def get(self, request: Request, pk: int) -> Response:
        return self.seen(request, pk)
