"""Routes of drift."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from guards.limits import DRIFT_FIELDS, DRIFT_REASON_CHARACTERS
from inventory.models.drift import DriftComparison
from inventory.operations import drift
from inventory.queries import drift as queries_drift
from web.api.parameters import ORG_PARAMETER, PAGE_PARAMETERS, PROJECT_PARAMETER
from web.api.views import BaseApiView, filter_by_scope
from web.http.problems import BadInput

STATE_PARAMETER = OpenApiParameter("state", OpenApiTypes.STR, enum=DriftComparison.State.values)


class ComparisonSummary(serializers.Serializer[Any]):
    """Comparison of an ECS service with its last deployment; `fields` is the number of differing fields."""

    id = serializers.IntegerField()
    ecs_service = serializers.CharField()
    service = serializers.CharField(allow_null=True)
    environment = serializers.CharField(allow_null=True)
    infrastructure = serializers.CharField(allow_null=True)
    region = serializers.CharField()
    cluster = serializers.CharField()
    state = serializers.ChoiceField(choices=DriftComparison.State.choices)
    reason = serializers.CharField()
    execution = serializers.UUIDField(allow_null=True, help_text="Deployment used as the baseline.")
    task_definition = serializers.CharField()
    compared_at = serializers.DateTimeField(allow_null=True)
    fields = serializers.IntegerField()  # type: ignore[assignment]


class DriftedField(serializers.Serializer[Any]):
    """Field that differs from the deployment; environment values are never shown."""

    id = serializers.IntegerField()
    document = serializers.CharField()
    path = serializers.CharField()
    desired = serializers.JSONField(allow_null=True)
    found = serializers.JSONField(allow_null=True)
    told = serializers.CharField()
    found_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(
        allow_null=True, help_text="Time when the difference ended or changed."
    )
    accepted = serializers.BooleanField()
    accepted_at = serializers.DateTimeField(allow_null=True)
    accepted_by = serializers.CharField(allow_null=True)
    reason = serializers.CharField()


class DriftProblemDocument(serializers.Serializer[Any]):
    """Reason why comparisons or their syncs are paused."""

    of = serializers.ChoiceField(choices=["LOOK", "SYNC"])
    failure = serializers.CharField()
    code = serializers.CharField()
    next_step = serializers.CharField(help_text="Recommended action.")
    failed_at = serializers.DateTimeField(allow_null=True)
    again_at = serializers.DateTimeField(allow_null=True, help_text="Time of the next attempt.")


class DriftScanDocument(serializers.Serializer[Any]):
    """Freshness of a comparison: the last scan of its cluster, and the last sync before it."""

    compared_at = serializers.DateTimeField(allow_null=True)
    age_seconds = serializers.FloatField(allow_null=True)
    synced_at = serializers.DateTimeField(allow_null=True)
    due_at = serializers.DateTimeField(allow_null=True)
    under_way = serializers.BooleanField()
    calls = serializers.IntegerField(
        help_text="Number of AWS calls of the last scan, in addition to those of sync."
    )
    troubles = DriftProblemDocument(many=True)


class ComparisonDocument(ComparisonSummary):
    """Comparison with all differing fields and its freshness."""

    look = DriftScanDocument()
    drifts = DriftedField(many=True)
    earlier = DriftedField(many=True, help_text="Earlier differences, newest first, fifty at most.")


class RevokeAcceptanceInput(serializers.Serializer[Any]):
    """Ids of the fields to revoke."""

    drifts = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=2**63 - 1),
        min_length=1,
        max_length=int(DRIFT_FIELDS),
    )


class AcceptInput(RevokeAcceptanceInput):
    """Ids of the fields to accept, and the reason."""

    reason = serializers.CharField(max_length=int(DRIFT_REASON_CHARACTERS))


class DriftListRoute(BaseApiView):
    """Comparisons of ECS services with their last deployment."""

    @extend_schema(
        parameters=[ORG_PARAMETER, PROJECT_PARAMETER, STATE_PARAMETER, *PAGE_PARAMETERS],
        responses=ComparisonSummary(many=True),
    )
    def get(self, request: Request) -> Response:
        state = request.GET.get("state", "")
        if state and state not in DriftComparison.State.values:
            message = f"must be one of {', '.join(DriftComparison.State.values)}"
            raise BadInput("The input is not valid.", errors=[{"path": "state", "message": message}])
        rows = queries_drift.list_comparisons(self.principal, state)
        return self.paginate(
            filter_by_scope(request, rows, by_identifier=False), queries_drift.serialize_comparison
        )


class ComparisonRoute(BaseApiView):
    """Base of the routes of one comparison."""

    def get_comparison(self, pk: int) -> DriftComparison:
        """Return the comparison in the URL."""
        return self.get_visible(
            queries_drift.VIEW_ENVIRONMENT,
            queries_drift.select_comparison_relations(DriftComparison.objects.all()),
            pk=pk,
        )

    def build_response(self, pk: int, status: int = 200) -> Response:
        """Return a response with the current comparison."""
        return Response(queries_drift.serialize_comparison_with_drift(self.get_comparison(pk)), status=status)


class ServiceDriftRoute(ComparisonRoute):
    """Drift of one ECS service."""

    @extend_schema(responses=ComparisonDocument)
    def get(self, request: Request, pk: int) -> Response:
        return self.build_response(pk)


class RequestDriftScanRoute(ComparisonRoute):
    """Drift scan on request."""

    @extend_schema(request=None, responses={202: ComparisonDocument})
    def post(self, request: Request, pk: int) -> Response:
        drift.request_drift_scan(actor=self.principal, comparison=self.get_comparison(pk))
        return self.build_response(pk, 202)


class AcceptDriftRoute(ComparisonRoute):
    """Acceptance of differing fields."""

    @extend_schema(request=AcceptInput, responses=ComparisonDocument)
    def post(self, request: Request, pk: int) -> Response:
        body = self.get_validated_body(AcceptInput)
        drift.accept_drift(
            actor=self.principal,
            comparison=self.get_comparison(pk),
            keys=body["drifts"],
            reason=body["reason"],
        )
        return self.build_response(pk)


class RevokeDriftAcceptanceRoute(ComparisonRoute):
    """Revocation of an acceptance."""

    @extend_schema(request=RevokeAcceptanceInput, responses=ComparisonDocument)
    def post(self, request: Request, pk: int) -> Response:
        body = self.get_validated_body(RevokeAcceptanceInput)
        drift.revoke_acceptance(actor=self.principal, comparison=self.get_comparison(pk), keys=body["drifts"])
        return self.build_response(pk)
