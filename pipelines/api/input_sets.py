"""Routes of input sets: values for the inputs of a pipeline, kept under a name."""

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
from web.asked import number_in
from web.rest import IF_MATCH, LISTED, Route, check_version, versioned

OF_PIPELINE = OpenApiParameter("pipeline", OpenApiTypes.INT, description="Only those of this pipeline.")


class InputSetDocument(serializers.Serializer[Any]):
    """An input set."""

    id = serializers.IntegerField()
    pipeline = serializers.IntegerField(source="pipeline_id")
    identifier = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    inputs = serializers.DictField()
    version = serializers.IntegerField()
    runs = serializers.IntegerField(help_text="How many runs it has filled in.")
    last_run_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class InputSetChange(serializers.Serializer[Any]):
    """Everything that can be said of an input set; secrets are given at each run instead."""

    name = serializers.CharField(max_length=int(NAME_CHARACTERS))
    description = serializers.CharField(
        required=False, allow_blank=True, default="", max_length=int(DESCRIPTION_CHARACTERS)
    )
    inputs = serializers.DictField(required=False, default=dict)


class InputSetInput(InputSetChange):
    """A new input set of a pipeline."""

    pipeline = serializers.IntegerField(min_value=1)
    identifier = serializers.CharField(max_length=128)


class InputSets(Route):
    """Input sets."""

    @extend_schema(parameters=[OF_PIPELINE, *LISTED], responses=InputSetDocument(many=True))
    def get(self, request: Request) -> Response:
        rows = input_sets.kept_input_sets()
        if (asked := number_in(request, "pipeline")) is not None:
            rows = rows.filter(pipeline_id=asked)
        return self.listed(input_sets.VIEW, rows, InputSetDocument)

    @extend_schema(request=InputSetInput, responses={201: InputSetDocument})
    def post(self, request: Request) -> Response:
        given = self.given(InputSetInput)
        pipelines = Pipeline.objects.select_related("scope")
        made = input_sets.create_input_set(
            actor=self.principal,
            pipeline=self.one("core_pipeline_view", pipelines, pk=given["pipeline"]),
            identifier=given["identifier"],
            spec=_spec(given),
        )
        return versioned(InputSetDocument(made).data, made.version, status=201)


class OneInputSet(Route):
    """One input set."""

    @extend_schema(responses=InputSetDocument)
    def get(self, request: Request, pk: int) -> Response:
        found = self._found(pk)
        return versioned(InputSetDocument(found).data, found.version)

    @extend_schema(parameters=[IF_MATCH], request=InputSetChange, responses=InputSetDocument)
    def put(self, request: Request, pk: int) -> Response:
        given = self.given(InputSetChange)
        with transaction.atomic():
            found = self._found(pk)
            check_version(request, found.version)
            changed = input_sets.update_input_set(
                actor=self.principal, input_set=found, spec=_spec(given), version=found.version
            )
        return versioned(InputSetDocument(changed).data, changed.version)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        input_sets.delete_input_set(actor=self.principal, input_set=self._found(pk))
        return Response(status=204)

    def _found(self, pk: int) -> InputSet:
        return self.one(input_sets.VIEW, input_sets.kept_input_sets(), pk=pk)


def _spec(given: dict[str, Any]) -> input_sets.InputSetSpec:
    return input_sets.InputSetSpec(given["name"], given["description"], given["inputs"])
