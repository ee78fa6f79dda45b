"""URLs of the REST API of pipelines and input sets."""

from django.urls import path

from pipelines.api import expressions, input_sets, pipelines

urlpatterns = [
    path("input-sets", input_sets.InputSetList.as_view(), name="api-input-sets"),
    path("input-sets/<int:pk>", input_sets.InputSetDetail.as_view(), name="api-input-set"),
    path("pipelines", pipelines.PipelineList.as_view(), name="api-pipelines"),
    path("pipelines/<int:pk>", pipelines.PipelineDetail.as_view(), name="api-pipeline"),
    path("pipelines/checks", pipelines.PipelineCheckRoute.as_view(), name="api-pipeline-checks"),
    path("pipelines/<int:pk>/diff", pipelines.PipelineDiff.as_view(), name="api-pipeline-diff"),
    path(
        "pipelines/<int:pk>/versions",
        pipelines.PipelineVersionList.as_view(),
        name="api-pipeline-versions",
    ),
    path(
        "pipelines/<int:pk>/versions/<int:number>",
        pipelines.PipelineVersionDetail.as_view(),
        name="api-pipeline-version",
    ),
    path(
        "pipelines/<int:pk>/versions/<int:number>/restore",
        pipelines.RestorePipelineVersion.as_view(),
        name="api-restore-pipeline-version",
    ),
    path(
        "pipelines/<int:pk>/expressions",
        expressions.PipelineExpressionList.as_view(),
        name="api-pipeline-expressions",
    ),
    path("pipeline-schema", pipelines.PipelineSchema.as_view(), name="api-pipeline-schema"),
]
