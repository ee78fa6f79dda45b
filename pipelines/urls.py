"""Addresses of the pages of pipelines."""

from django.urls import path

from pipelines.pages import editor, expressions, input_sets, stage_places, visual_editor

urlpatterns = [
    path("pipelines/new/", editor.new_pipeline, name="new-pipeline"),
    path("pipelines/check/", editor.check_pipeline, name="check-pipeline"),
    path("pipelines/expressions/", expressions.expressions_here, name="expressions-here"),
    path("pipelines/<int:pk>/expressions/", expressions.expressions_of_pipeline, name="pipeline-expressions"),
    path("pipelines/graph/", editor.draw_pipeline, name="draw-pipeline"),
    path("pipelines/<int:pk>/input-sets/", input_sets.pipeline_input_sets, name="input-sets"),
    path("pipelines/<int:pk>/input-sets/new/", input_sets.new_input_set, name="new-input-set"),
    path(
        "pipelines/<int:pk>/input-sets/<int:number>/edit/", input_sets.edit_input_set, name="edit-input-set"
    ),
    path(
        "pipelines/<int:pk>/input-sets/<int:number>/delete/",
        input_sets.delete_input_set,
        name="delete-input-set",
    ),
    path("pipelines/visual/", visual_editor.edit_visually, name="edit-pipeline-visually"),
    path("pipelines/visual/clusters/", stage_places.clusters_for_stage, name="clusters-for-stage"),
    path("pipelines/<int:pk>/edit/", editor.edit_pipeline, name="edit-pipeline"),
    path("pipelines/<int:pk>/delete/", editor.delete_pipeline, name="delete-pipeline"),
    path("pipelines/<int:pk>/history/", editor.pipeline_history, name="pipeline-history"),
    path("pipelines/<int:pk>/restore/<int:number>/", editor.restore_pipeline, name="restore-pipeline"),
]
