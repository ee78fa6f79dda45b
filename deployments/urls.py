"""Addresses of the pages of this app."""

from django.urls import path

from deployments.views import catalog, executions, pipelines

urlpatterns = [
    path("", executions.overview, name="overview"),
    path("deployments/", executions.executions, name="executions"),
    path("deployments/<uuid:pk>/", executions.execution, name="execution"),
    path("deployments/<uuid:pk>/abort/", executions.abort, name="abort-execution"),
    path("deployments/<uuid:pk>/rollback/", executions.roll_back, name="roll-back-execution"),
    path("deployments/<uuid:pk>/retry/", executions.retry, name="retry-execution"),
    path("pipelines/", pipelines.pipelines, name="pipelines"),
    path("pipelines/<int:pk>/", pipelines.pipeline, name="pipeline"),
    path("pipelines/<int:pk>/run/", pipelines.run_pipeline, name="run-pipeline"),
    path("services/", catalog.services, name="services"),
    path("services/<int:pk>/", catalog.service, name="service"),
    path("environments/", catalog.environments, name="environments"),
]
