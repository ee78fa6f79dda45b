"""Routes of pipelines, and the route that runs one."""

from typing import Any

from django.db import transaction
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from deployments import authoring, operations, queries
from deployments.api.execution_shapes import ExecutionSummary
from deployments.input_sets import laid_over
from deployments.models import Execution, Pipeline
from deployments.pipeline_guide import full_schema
from guards.limits import HEADER_KEY_CHARACTERS, INPUT_SETS, SPEC_BYTES
from web.parsers import GuardedJSONParser, GuardedYAMLParser, OldYAMLParser
from web.problems import BadInput, Conflict
from web.rest import IF_MATCH, LISTED, PAGED, Route, check_version, versioned

VIEW = "core_pipeline_view"
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="The same key gives back the run that it made before, instead of a second one.",
)


class PipelineDocument(serializers.Serializer[Any]):
    """A pipeline; its YAML is the truth."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()
    scope = serializers.CharField(source="scope.path")
    org = serializers.CharField(source="scope.org")
    project = serializers.CharField(source="scope.project")
    yaml = serializers.CharField()
    version = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class PipelineChange(serializers.Serializer[Any]):
    """A pipeline as YAML; identifier and name are read from it."""

    yaml = serializers.CharField(trim_whitespace=False, max_length=int(SPEC_BYTES))


class PipelineInput(PipelineChange):
    """A new pipeline as YAML."""

    org = serializers.CharField(required=False, write_only=True)
    project = serializers.CharField(required=False, write_only=True)


class ArtifactChoice(serializers.Serializer[Any]):
    """Which tag to run."""

    tag = serializers.CharField(required=False, allow_blank=True, default="")


class RunInput(serializers.Serializer[Any]):
    """What a run may be told; everything has a default."""

    inputs = serializers.DictField(required=False, default=dict)
    input_sets = serializers.ListField(
        child=serializers.CharField(max_length=128),
        required=False,
        default=list,
        max_length=int(INPUT_SETS),
        help_text="Identifiers of input sets: of each input what the last one says; `inputs` says more.",
    )
    artifact = ArtifactChoice(required=False, default=dict)
    override_freeze = serializers.BooleanField(
        default=False, help_text="Run it in a freeze window, for who may override that."
    )
    forceNewDeployment = serializers.BooleanField(
        required=False,
        allow_null=True,
        default=None,
        help_text="Whether tasks are replaced where nothing differs from what runs. Left out: as the step "
        "says; a rolling deployment replaces them and notes it.",
    )


class RunDocument(serializers.Serializer[Any]):
    """The execution that was started."""

    id = serializers.UUIDField()
    number = serializers.IntegerField()
    status = serializers.CharField()


class PipelineRoute(Route):
    """The base of routes that take a pipeline, as YAML or as JSON that wraps YAML."""

    parser_classes = (GuardedJSONParser, GuardedYAMLParser, OldYAMLParser)

    def pipeline(self, pk: int, *, lock: bool = False) -> Pipeline:
        """Return the pipeline of the address."""
        rows = Pipeline.objects.select_related("scope")
        return self.one(VIEW, rows.select_for_update(of=("self",)) if lock else rows, pk=pk)


class Pipelines(PipelineRoute):
    """Pipelines."""

    @extend_schema(parameters=LISTED, responses=PipelineDocument(many=True))
    def get(self, request: Request) -> Response:
        return self.listed(VIEW, Pipeline.objects.select_related("scope"), PipelineDocument)

    @extend_schema(
        request={"application/json": PipelineInput, "application/yaml": OpenApiTypes.STR},
        responses={201: PipelineDocument},
    )
    def post(self, request: Request) -> Response:
        given, scope = self.given(PipelineInput), self.scope_named()
        made = authoring.save_pipeline(actor=self.principal, scope=scope, yaml=given["yaml"])
        return versioned(PipelineDocument(made).data, made.version, status=201)


class PipelineSchema(Route):
    """The JSON Schema of a pipeline's YAML, for editors."""

    @extend_schema(responses=OpenApiTypes.OBJECT)
    def get(self, request: Request) -> Response:
        return Response(full_schema())


class OnePipeline(PipelineRoute):
    """One pipeline."""

    @extend_schema(responses=PipelineDocument)
    def get(self, request: Request, pk: int) -> Response:
        found = self.pipeline(pk)
        return versioned(PipelineDocument(found).data, found.version)

    @extend_schema(
        parameters=[IF_MATCH],
        request={"application/json": PipelineChange, "application/yaml": OpenApiTypes.STR},
        responses=PipelineDocument,
    )
    def put(self, request: Request, pk: int) -> Response:
        given = self.given(PipelineChange)
        with transaction.atomic():
            found = self.pipeline(pk, lock=True)
            check_version(request, found.version)
            changed = authoring.save_pipeline(
                actor=self.principal, scope=found.scope, yaml=given["yaml"], pipeline=found
            )
        return versioned(PipelineDocument(changed).data, changed.version)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        authoring.delete_pipeline(actor=self.principal, pipeline=self.pipeline(pk))
        return Response(status=204)


class PipelineExecutions(Route):
    """The executions of a pipeline; posting one runs it."""

    order = "created_at"

    @extend_schema(parameters=PAGED, responses=ExecutionSummary(many=True))
    def get(self, request: Request, pk: int) -> Response:
        pipeline = self._pipeline(pk)
        return self.page(
            queries.visible_executions(self.principal).filter(pipeline=pipeline), ExecutionSummary
        )

    @extend_schema(parameters=[IDEMPOTENCY_KEY], request=RunInput, responses={201: RunDocument})
    def post(self, request: Request, pk: int) -> Response:
        given, key = self.given(RunInput), _idempotency_key(request)
        tag = given["artifact"].get("tag", "")
        pipeline = self._pipeline(pk)
        inputs = {**laid_over(pipeline, self.principal, given["input_sets"]), **given["inputs"]}
        made = operations.run_pipeline(
            actor=self.principal,
            pipeline=pipeline,
            artifact_tag=tag,
            inputs=inputs,
            idempotency_key=key,
            override_freeze=given["override_freeze"],
            from_sets=given["input_sets"],
            force_new_deployment=given["forceNewDeployment"],
        )
        _refuse_another_run(made, tag, inputs)
        location = {"Location": f"/api/v1/executions/{made.pk}"}
        return Response(RunDocument(made).data, status=201, headers=location)

    def _pipeline(self, pk: int) -> Pipeline:
        return self.one(VIEW, Pipeline.objects.select_related("scope"), pk=pk)


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("Idempotency-Key", "").strip()
    if len(key) > HEADER_KEY_CHARACTERS or not key.isascii() or not key.isprintable():
        raise BadInput(f"An Idempotency-Key has {HEADER_KEY_CHARACTERS} at most, printable ASCII.")
    return key or None


def _refuse_another_run(made: Execution, tag: str, inputs: dict[str, Any]) -> None:
    hidden = {name: value for name, value in made.hidden_inputs.items() if name in inputs}
    if {**made.inputs, **hidden} != inputs or (tag and made.artifact.get("tag") != tag):
        raise Conflict("This Idempotency-Key was used for a run with other inputs. Use a new one.")
