"""URLs of the pages of pipelines and input sets."""

from django.urls import path

from pipelines.pages import expressions, input_sets, pipelines, stage_infrastructures, visual_editor

urlpatterns = [
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
]
