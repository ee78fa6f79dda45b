"""Addresses of the REST API of pipelines."""

from django.urls import path

from pipelines.api import expressions, input_sets, pipeline_versions, pipelines

urlpatterns = [
    path("input-sets", input_sets.InputSets.as_view(), name="api-input-sets"),
    path("input-sets/<int:pk>", input_sets.OneInputSet.as_view(), name="api-input-set"),
    path("pipelines", pipelines.Pipelines.as_view(), name="api-pipelines"),
    path("pipelines/<int:pk>", pipelines.OnePipeline.as_view(), name="api-pipeline"),
    path("pipelines/checks", pipeline_versions.PipelineChecks.as_view(), name="api-pipeline-checks"),
    path("pipelines/<int:pk>/diff", pipeline_versions.PipelineDiff.as_view(), name="api-pipeline-diff"),
    path(
        "pipelines/<int:pk>/versions",
        pipeline_versions.PipelineVersions.as_view(),
        name="api-pipeline-versions",
    ),
    path(
        "pipelines/<int:pk>/versions/<int:number>",
        pipeline_versions.OnePipelineVersion.as_view(),
        name="api-pipeline-version",
    ),
    path(
        "pipelines/<int:pk>/versions/<int:number>/restore",
        pipeline_versions.RestorePipelineVersion.as_view(),
        name="api-restore-pipeline-version",
    ),
    path(
        "pipelines/<int:pk>/expressions",
        expressions.PipelineExpressions.as_view(),
        name="api-pipeline-expressions",
    ),
    path("pipeline-schema", pipelines.PipelineSchema.as_view(), name="api-pipeline-schema"),
]
