"""Routes of drift."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from guards.limits import DRIFT_FIELDS, DRIFT_REASON_CHARACTERS
from inventory.drift import operations, queries
from inventory.models.drift import Comparison
from web.problems import BadInput
from web.rest import ORG, PAGED, PROJECT, Route, narrowed

STATE = OpenApiParameter("state", OpenApiTypes.STR, enum=Comparison.State.values)


class ComparisonSummary(serializers.Serializer[Any]):
    """One ECS service beside what was deployed to it last; `fields` is how many of them differ."""

    id = serializers.IntegerField()
    ecs_service = serializers.CharField()
    service = serializers.CharField(allow_null=True)
    environment = serializers.CharField(allow_null=True)
    infrastructure = serializers.CharField(allow_null=True)
    region = serializers.CharField()
    cluster = serializers.CharField()
    state = serializers.ChoiceField(choices=Comparison.State.choices)
    reason = serializers.CharField()
    execution = serializers.UUIDField(allow_null=True, help_text="What it is compared with.")
    task_definition = serializers.CharField()
    compared_at = serializers.DateTimeField(allow_null=True)
    fields = serializers.IntegerField()  # type: ignore[assignment]


class DriftedField(serializers.Serializer[Any]):
    """One field that is not as it was deployed; values of environments are never shown."""

    id = serializers.IntegerField()
    document = serializers.CharField()
    path = serializers.CharField()
    desired = serializers.JSONField(allow_null=True)
    found = serializers.JSONField(allow_null=True)
    told = serializers.CharField()
    found_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True, help_text="When it was no more, or became another.")
    accepted = serializers.BooleanField()
    accepted_at = serializers.DateTimeField(allow_null=True)
    accepted_by = serializers.CharField(allow_null=True)
    reason = serializers.CharField()


class TroubleOfLook(serializers.Serializer[Any]):
    """Why looks, or the syncs that they rest on, do not go on."""

    of = serializers.ChoiceField(choices=["LOOK", "SYNC"])
    failure = serializers.CharField()
    code = serializers.CharField()
    next_step = serializers.CharField(help_text="What somebody can do about it.")
    failed_at = serializers.DateTimeField(allow_null=True)
    again_at = serializers.DateTimeField(allow_null=True, help_text="When it is tried again.")


class LookDocument(serializers.Serializer[Any]):
    """How fresh this is: when its cluster was compared last, and what sync had seen of it."""

    compared_at = serializers.DateTimeField(allow_null=True)
    age_seconds = serializers.FloatField(allow_null=True)
    synced_at = serializers.DateTimeField(allow_null=True)
    due_at = serializers.DateTimeField(allow_null=True)
    under_way = serializers.BooleanField()
    calls = serializers.IntegerField(help_text="Calls of the last look, beside those of sync.")
    troubles = TroubleOfLook(many=True)


class ComparisonDocument(ComparisonSummary):
    """The same with every field that differs, and how fresh that is."""

    look = LookDocument()
    drifts = DriftedField(many=True)
    earlier = DriftedField(many=True, help_text="What differed before, the latest first; fifty at most.")


class WithdrawInput(serializers.Serializer[Any]):
    """Which fields are meant, by their ids."""

    drifts = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=2**63 - 1),
        min_length=1,
        max_length=int(DRIFT_FIELDS),
    )


class AcceptInput(WithdrawInput):
    """The same, and why."""

    reason = serializers.CharField(max_length=int(DRIFT_REASON_CHARACTERS))


class Drifts(Route):
    """ECS services beside what was deployed to them."""

    @extend_schema(parameters=[ORG, PROJECT, STATE, *PAGED], responses=ComparisonSummary(many=True))
    def get(self, request: Request) -> Response:
        state = request.GET.get("state", "")
        if state and state not in Comparison.State.values:
            message = f"must be one of {', '.join(Comparison.State.values)}"
            raise BadInput("The input is not valid.", errors=[{"path": "state", "message": message}])
        found = queries.comparisons(self.principal, state)
        return self.page(narrowed(request, found, by_identifier=False), queries.comparison_document)


class ComparisonRoute(Route):
    """The base of routes about one ECS service."""

    def comparison(self, pk: int) -> Comparison:
        """Return the comparison of the address."""
        return self.one(queries.VIEW, queries.with_places(Comparison.objects.all()), pk=pk)

    def shown(self, pk: int, status: int = 200) -> Response:
        """Answer with the comparison as it is now."""
        return Response(queries.whole_document(self.comparison(pk)), status=status)


class DriftOfService(ComparisonRoute):
    """One ECS service, field by field."""

    @extend_schema(responses=ComparisonDocument)
    def get(self, request: Request, pk: int) -> Response:
        return self.shown(pk)


class LookForDrift(ComparisonRoute):
    """Having drift looked for now."""

    @extend_schema(request=None, responses={202: ComparisonDocument})
    def post(self, request: Request, pk: int) -> Response:
        operations.look_now(actor=self.principal, comparison=self.comparison(pk))
        return self.shown(pk, 202)


class AcceptDrift(ComparisonRoute):
    """Accepting fields as they run."""

    @extend_schema(request=AcceptInput, responses=ComparisonDocument)
    def post(self, request: Request, pk: int) -> Response:
        given = self.given(AcceptInput)
        operations.accept(
            actor=self.principal, comparison=self.comparison(pk), keys=given["drifts"], reason=given["reason"]
        )
        return self.shown(pk)


class WithdrawDrift(ComparisonRoute):
    """Accepting fields no longer."""

    @extend_schema(request=WithdrawInput, responses=ComparisonDocument)
    def post(self, request: Request, pk: int) -> Response:
        given = self.given(WithdrawInput)
        operations.withdraw(actor=self.principal, comparison=self.comparison(pk), keys=given["drifts"])
        return self.shown(pk)
