"""URLs of the REST API of pipelines, input sets and triggers."""

from django.urls import path

from pipelines.api import expressions, imports, input_sets, pipelines, trigger_firings, triggers

urlpatterns = [
    path("imports", imports.ImportRoute.as_view(), name="api-imports"),
    path("imports/preview", imports.ImportPreviewRoute.as_view(), name="api-import-preview"),
    path("input-sets", input_sets.InputSetList.as_view(), name="api-input-sets"),
    path("input-sets/<int:pk>", input_sets.InputSetDetail.as_view(), name="api-input-set"),
    path("triggers", triggers.TriggerList.as_view(), name="api-triggers"),
    path("triggers/<int:pk>", triggers.TriggerDetail.as_view(), name="api-trigger"),
    path("triggers/<int:pk>/secret", triggers.TriggerSecretRotation.as_view(), name="api-trigger-secret"),
    path("triggers/<int:pk>/try", triggers.TriggerTrial.as_view(), name="api-trigger-trial"),
    path("triggers/<int:pk>/firings", trigger_firings.FiringList.as_view(), name="api-trigger-firings"),
    path("trigger-firings/<uuid:pk>", trigger_firings.FiringDetail.as_view(), name="api-trigger-firing"),
    path(
        "trigger-firings/<uuid:pk>/redeliver",
        trigger_firings.FiringRedelivery.as_view(),
        name="api-redeliver-firing",
    ),
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
