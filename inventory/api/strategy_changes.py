"""API of strategy changes: the service as it runs, the review of a change, and the change."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from inventory.operations.strategy_changes import (
    ReadStage,
    StrategyChoice,
    change_strategy,
    preview_strategy_change,
    read_stage,
)
from inventory.strategy_changes.proposals import StrategyChange
from inventory.strategy_changes.strategies import MOST_MINUTES, TITLES
from pipelines.models import Pipeline
from web.api.views import BaseApiView


class StrategyRuleDocument(serializers.Serializer[Any]):
    """Listener rule; `key` is its ARN, or that of the listener where it has none (network load balancer)."""

    key = serializers.CharField()
    title = serializers.CharField()


class StrategyGroupDocument(serializers.Serializer[Any]):
    """Target group that the new version can use."""

    arn = serializers.CharField()
    title = serializers.CharField()


class RunningStrategyDocument(serializers.Serializer[Any]):
    """A stage's ECS service as it runs, and the choices for another strategy.

    `running` is a strategy, or the controller that is not ECS; `written` is the strategy of the pipeline.
    """

    stage = serializers.CharField()
    ecs_service = serializers.CharField()
    running = serializers.CharField()
    written = serializers.CharField()
    live_groups = serializers.ListField(child=serializers.CharField())
    strategies = serializers.ListField(child=serializers.CharField())
    rules = StrategyRuleDocument(many=True)
    groups = StrategyGroupDocument(many=True)


class StrategyPreviewInput(serializers.Serializer[Any]):
    """The strategy to change to, and its settings; a strategy uses only some of them.

    `production` and `test` are keys of `rules`, `alternate_group` is an ARN of `groups`. The first stage
    without `stage`.
    """

    strategy = serializers.ChoiceField(choices=list(TITLES))
    stage = serializers.CharField(max_length=128, allow_blank=True, default="")
    production = serializers.CharField(max_length=600, allow_blank=True, default="")
    test = serializers.CharField(max_length=600, allow_blank=True, default="")
    alternate_group = serializers.CharField(max_length=600, allow_blank=True, default="")
    role = serializers.CharField(max_length=600, allow_blank=True, default="")
    percent = serializers.FloatField(min_value=0.1, max_value=100, default=10)
    step_minutes = serializers.IntegerField(min_value=0, max_value=MOST_MINUTES, default=5)
    bake_minutes = serializers.IntegerField(min_value=0, max_value=MOST_MINUTES, default=5)


class StrategyChangeInput(StrategyPreviewInput):
    """The input of a preview, with the `digest` of its answer."""

    digest = serializers.CharField(max_length=64)


class StrategyPreviewDocument(serializers.Serializer[Any]):
    """Review of a change: both texts as unified diffs, what changes in AWS, and what is missing."""

    digest = serializers.CharField()
    definition = serializers.CharField(source="definition_diff.unified")
    pipeline = serializers.CharField(source="pipeline_diff.unified")
    changes = serializers.ListField(child=serializers.CharField())
    losses = serializers.ListField(child=serializers.CharField())
    obstacles = serializers.ListField(child=serializers.CharField())


class StrategyChangeDocument(serializers.Serializer[Any]):
    """The pipeline after the change."""

    pipeline = serializers.IntegerField(source="pk")
    version = serializers.IntegerField()


class PipelineStrategyRoute(BaseApiView):
    """The strategy by which a stage of a pipeline deploys its service."""

    @extend_schema(
        parameters=[OpenApiParameter("stage", str, description="Identifier; the first one without it.")],
        responses=RunningStrategyDocument,
    )
    def get(self, request: Request, pk: int) -> Response:
        pipeline = self._load_pipeline(pk)
        read = read_stage(actor=self.principal, pipeline=pipeline, stage=request.GET.get("stage", ""))
        return Response(_serialize_stage(read))

    @extend_schema(request=StrategyChangeInput, responses=StrategyChangeDocument)
    def post(self, request: Request, pk: int) -> Response:
        body = self.get_validated_body(StrategyChangeInput)
        digest = body.pop("digest")
        pipeline = change_strategy(
            actor=self.principal,
            pipeline=self._load_pipeline(pk),
            choice=StrategyChoice(**body),
            digest=digest,
        )
        return Response(StrategyChangeDocument(pipeline).data)

    def _load_pipeline(self, pk: int) -> Pipeline:
        return self.get_visible("core_pipeline_view", Pipeline.objects.select_related("scope"), pk=pk)


class PreviewPipelineStrategyRoute(BaseApiView):
    """Preview of a change of the strategy; nothing is saved."""

    @extend_schema(request=StrategyPreviewInput, responses=StrategyPreviewDocument)
    def post(self, request: Request, pk: int) -> Response:
        pipeline = self.get_visible("core_pipeline_view", Pipeline.objects.select_related("scope"), pk=pk)
        choice = StrategyChoice(**self.get_validated_body(StrategyPreviewInput))
        change: StrategyChange = preview_strategy_change(
            actor=self.principal, pipeline=pipeline, choice=choice
        )
        return Response(StrategyPreviewDocument(change).data)


def _serialize_stage(read: ReadStage) -> dict[str, Any]:
    reading = read.reading
    return {
        "stage": read.stage.target.spec.identifier,
        "ecs_service": reading.service.get("serviceName", reading.name),
        "running": reading.strategy,
        "written": read.stage.strategy,
        "live_groups": reading.live_groups,
        "strategies": list(TITLES),
        "rules": StrategyRuleDocument(reading.rules, many=True).data,
        "groups": StrategyGroupDocument(reading.groups, many=True).data,
    }
