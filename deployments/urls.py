"""Addresses of the pages of this app."""

from django.urls import path

from deployments.views import (
    environments,
    executions,
    infrastructures,
    leftovers,
    listeners,
    merged,
    new_images,
    overrides,
    pipeline_texts,
    pipelines,
    previews,
    services,
)

urlpatterns = [
    path("", executions.overview, name="overview"),
    path("deployments/", executions.executions, name="executions"),
    path("deployments/<uuid:pk>/", executions.execution, name="execution"),
    path("deployments/<uuid:pk>/abort/", executions.abort, name="abort-execution"),
    path("deployments/<uuid:pk>/rollback/", executions.roll_back, name="roll-back-execution"),
    path("deployments/<uuid:pk>/retry/", executions.retry, name="retry-execution"),
    path("deployments/<uuid:pk>/leftovers/", leftovers.leftovers, name="leftovers"),
    path("deployments/<uuid:pk>/decide/", executions.decide, name="decide-about-step"),
    path("pipelines/", pipelines.pipelines, name="pipelines"),
    path("pipelines/<int:pk>/", pipelines.pipeline, name="pipeline"),
    path("pipelines/new/", pipeline_texts.new_pipeline, name="new-pipeline"),
    path("pipelines/check/", pipeline_texts.check_pipeline, name="check-pipeline"),
    path("pipelines/listeners/", listeners.choose_listeners, name="choose-listeners"),
    path("pipelines/graph/", pipeline_texts.draw_pipeline, name="draw-pipeline"),
    path("pipelines/<int:pk>/edit/", pipeline_texts.edit_pipeline, name="edit-pipeline"),
    path("pipelines/<int:pk>/delete/", pipeline_texts.delete_pipeline, name="delete-pipeline"),
    path("pipelines/<int:pk>/history/", pipeline_texts.pipeline_history, name="pipeline-history"),
    path(
        "pipelines/<int:pk>/restore/<int:number>/", pipeline_texts.restore_pipeline, name="restore-pipeline"
    ),
    path("pipelines/<int:pk>/run/", pipelines.run_pipeline, name="run-pipeline"),
    path("pipelines/<int:pk>/preview/", previews.preview_pipeline, name="preview-pipeline"),
    path("iam-policies/", previews.policies, name="iam-policies"),
    path("iam-policies/<slug:identifier>.json", previews.policy, name="iam-policy"),
    path("services/", services.services, name="services"),
    path("services/new/", services.new_service, name="new-service"),
    path("services/words/", services.manifest_words, name="manifest-words"),
    path("services/check/", services.check_manifest_text, name="check-manifest"),
    path("services/<int:pk>/", services.service, name="service"),
    path("services/<int:pk>/deploy/", new_images.deploy_image, name="deploy-image"),
    path("services/<int:pk>/edit/", services.edit_service, name="edit-service"),
    path("services/<int:pk>/delete/", services.delete_service, name="delete-service"),
    path("environments/", environments.environments, name="environments"),
    path("environments/new/", environments.new_environment, name="new-environment"),
    path("environments/<int:pk>/", environments.environment, name="environment"),
    path("environments/<int:pk>/edit/", environments.edit_environment, name="edit-environment"),
    path("environments/<int:pk>/delete/", environments.delete_environment, name="delete-environment"),
    path(
        "environments/<int:pk>/services/<int:service>/",
        overrides.override,
        name="service-in-environment",
    ),
    path(
        "environments/<int:pk>/services/<int:service>/check/",
        overrides.check_override,
        name="check-override-in-environment",
    ),
    path(
        "environments/<int:pk>/services/<int:service>/manifests/",
        merged.manifests,
        name="manifests-in-environment",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>/services/<int:service>/",
        overrides.override,
        name="service-in-infrastructure",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>/services/<int:service>/check/",
        overrides.check_override,
        name="check-override-in-infrastructure",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>/services/<int:service>/manifests/",
        merged.manifests,
        name="manifests-in-infrastructure",
    ),
    path("environments/<int:pk>/clusters/", infrastructures.clusters, name="clusters"),
    path(
        "environments/<int:pk>/infrastructures/new/",
        infrastructures.new_infrastructure,
        name="new-infrastructure",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>/edit/",
        infrastructures.edit_infrastructure,
        name="edit-infrastructure",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>/delete/",
        infrastructures.delete_infrastructure,
        name="delete-infrastructure",
    ),
]
