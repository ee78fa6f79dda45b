"""REST routes of input sets."""

from typing import Any

from django.db import transaction
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from guards.limits import DESCRIPTION_CHARACTERS, NAME_CHARACTERS
from pipelines.inputs import input_sets
from pipelines.models import InputSet, Pipeline
from web.api.parameters import IF_MATCH_PARAMETER, LIST_PARAMETERS, parse_number
from web.api.views import BaseApiView, check_version, respond_with_etag

PIPELINE_PARAMETER = OpenApiParameter(
    "pipeline", OpenApiTypes.INT, description="Only input sets of this pipeline."
)


class InputSetDocument(serializers.Serializer[Any]):
    """Input set."""

    id = serializers.IntegerField()
    pipeline = serializers.IntegerField(source="pipeline_id")
    identifier = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    inputs = serializers.DictField()
    version = serializers.IntegerField()
    runs = serializers.IntegerField(help_text="Number of executions that used it.")
    last_run_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class InputSetUpdateInput(serializers.Serializer[Any]):
    """Fields of an input set; each run asks for secrets instead."""

    name = serializers.CharField(max_length=int(NAME_CHARACTERS))
    description = serializers.CharField(
        required=False, allow_blank=True, default="", max_length=int(DESCRIPTION_CHARACTERS)
    )
    inputs = serializers.DictField(required=False, default=dict)


class InputSetInput(InputSetUpdateInput):
    """Fields of a new input set of a pipeline."""

    pipeline = serializers.IntegerField(min_value=1)
    identifier = serializers.CharField(max_length=128)


class InputSetList(BaseApiView):
    """List of input sets."""

    @extend_schema(parameters=[PIPELINE_PARAMETER, *LIST_PARAMETERS], responses=InputSetDocument(many=True))
    def get(self, request: Request) -> Response:
        rows = input_sets.list_input_sets()
        if (pipeline_id := parse_number(request, "pipeline")) is not None:
            rows = rows.filter(pipeline_id=pipeline_id)
        return self.list_visible(input_sets.VIEW, rows, InputSetDocument)

    @extend_schema(request=InputSetInput, responses={201: InputSetDocument})
    def post(self, request: Request) -> Response:
        data = self.get_validated_body(InputSetInput)
        pipelines = Pipeline.objects.select_related("scope")
        made = input_sets.create_input_set(
            actor=self.principal,
            pipeline=self.get_visible("core_pipeline_view", pipelines, pk=data["pipeline"]),
            identifier=data["identifier"],
            spec=_build_spec(data),
        )
        return respond_with_etag(InputSetDocument(made).data, made.version, status=201)


class InputSetDetail(BaseApiView):
    """Input set."""

    @extend_schema(responses=InputSetDocument)
    def get(self, request: Request, pk: int) -> Response:
        input_set = self._get_input_set(pk)
        return respond_with_etag(InputSetDocument(input_set).data, input_set.version)

    @extend_schema(parameters=[IF_MATCH_PARAMETER], request=InputSetUpdateInput, responses=InputSetDocument)
    def put(self, request: Request, pk: int) -> Response:
        data = self.get_validated_body(InputSetUpdateInput)
        with transaction.atomic():
            input_set = self._get_input_set(pk)
            check_version(request, input_set.version)
            changed = input_sets.update_input_set(
                actor=self.principal, input_set=input_set, spec=_build_spec(data), version=input_set.version
            )
        return respond_with_etag(InputSetDocument(changed).data, changed.version)

    @extend_schema(parameters=[IF_MATCH_PARAMETER], responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        with transaction.atomic():
            input_set = self._get_input_set(pk, lock=True)
            check_version(request, input_set.version)
            input_sets.delete_input_set(actor=self.principal, input_set=input_set)
        return Response(status=204)

    def _get_input_set(self, pk: int, *, lock: bool = False) -> InputSet:
        return self.get_visible(input_sets.VIEW, input_sets.list_input_sets(), lock=lock, pk=pk)


def _build_spec(data: dict[str, Any]) -> input_sets.InputSetSpec:
    return input_sets.InputSetSpec(data["name"], data["description"], data["inputs"])
