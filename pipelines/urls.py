"""URLs of the pages of pipelines, input sets and triggers."""

from django.urls import path

from pipelines.pages import (
    expressions,
    hooks,
    imports,
    input_sets,
    pipelines,
    stage_infrastructures,
    trigger_firings,
    triggers,
    visual_editor,
)

urlpatterns = [
    path("import/", imports.import_project, name="import"),
    path("pipelines/new/", pipelines.create_pipeline, name="new-pipeline"),
    path("pipelines/check/", pipelines.check_pipeline, name="check-pipeline"),
    path("pipelines/expressions/", expressions.list_draft_expressions, name="expressions-here"),
    path(
        "pipelines/<int:pk>/expressions/", expressions.list_pipeline_expressions, name="pipeline-expressions"
    ),
    path("pipelines/graph/", pipelines.draw_pipeline, name="draw-pipeline"),
    path("pipelines/<int:pk>/input-sets/", input_sets.list_pipeline_input_sets, name="input-sets"),
    path("pipelines/<int:pk>/input-sets/new/", input_sets.NewInputSet.as_view(), name="new-input-set"),
    path(
        "pipelines/<int:pk>/input-sets/<int:number>/edit/",
        input_sets.EditInputSet.as_view(),
        name="edit-input-set",
    ),
    path(
        "pipelines/<int:pk>/input-sets/<int:number>/delete/",
        input_sets.DeleteInputSet.as_view(),
        name="delete-input-set",
    ),
    path("pipelines/visual/", visual_editor.edit_visually, name="edit-pipeline-visually"),
    path("pipelines/visual/clusters/", stage_infrastructures.list_stage_clusters, name="clusters-for-stage"),
    path("pipelines/<int:pk>/edit/", pipelines.edit_pipeline, name="edit-pipeline"),
    path("pipelines/<int:pk>/delete/", pipelines.DeletePipeline.as_view(), name="delete-pipeline"),
    path("pipelines/<int:pk>/history/", pipelines.show_history, name="pipeline-history"),
    path("pipelines/<int:pk>/restore/<int:number>/", pipelines.restore_pipeline, name="restore-pipeline"),
    path("pipelines/<int:pk>/triggers/", triggers.list_pipeline_triggers, name="triggers"),
    path("pipelines/<int:pk>/triggers/new/", triggers.choose_kind, name="new-trigger"),
    path(
        "pipelines/<int:pk>/triggers/new/<slug:kind>/",
        triggers.NewTrigger.as_view(),
        name="new-trigger-of-kind",
    ),
    path("triggers/<int:pk>/", triggers.show_trigger, name="trigger"),
    path("triggers/<int:pk>/edit/", triggers.EditTrigger.as_view(), name="edit-trigger"),
    path("triggers/<int:pk>/delete/", triggers.DeleteTrigger.as_view(), name="delete-trigger"),
    path("triggers/<int:pk>/enable/", triggers.enable_trigger, name="enable-trigger"),
    path("triggers/<int:pk>/secret/", triggers.RotateTriggerSecret.as_view(), name="rotate-trigger-secret"),
    path("triggers/<int:pk>/try/", triggers.try_trigger, name="try-trigger"),
    path("trigger-firings/<uuid:pk>/", trigger_firings.show_firing, name="trigger-firing"),
    path("trigger-firings/<uuid:pk>/redeliver/", trigger_firings.redeliver_firing, name="redeliver-firing"),
    path("hooks/v1/<uuid:key>/", hooks.receive_hook, name="trigger-hook"),
]
