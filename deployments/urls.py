"""Addresses of the pages of executions, approvals and freezes."""

from django.urls import path

from deployments.pages import (
    approvals,
    executions,
    expressions,
    freezes,
    leftovers,
    new_images,
    pipeline_tags,
    pipelines,
    previews,
    services,
)

urlpatterns = [
    path("deployments/", executions.executions, name="executions"),
    path("deployments/<uuid:pk>/", executions.execution, name="execution"),
    path("deployments/<uuid:pk>/abort/", executions.abort, name="abort-execution"),
    path("deployments/<uuid:pk>/rollback/", executions.roll_back, name="roll-back-execution"),
    path("deployments/<uuid:pk>/retry/", executions.retry, name="retry-execution"),
    path("deployments/<uuid:pk>/leftovers/", leftovers.leftovers, name="leftovers"),
    path(
        "deployments/<uuid:pk>/expressions/",
        expressions.expressions_of_execution,
        name="execution-expressions",
    ),
    path("deployments/<uuid:pk>/decide/", executions.decide, name="decide-about-step"),
    path("approvals/", approvals.approvals, name="approvals"),
    path("approvals/<uuid:pk>/", approvals.approval, name="approval"),
    path("approvals/<uuid:pk>/decide/", approvals.decide, name="decide-about-approval"),
    path("approvals/<uuid:pk>/check/", approvals.check_again, name="check-approval"),
    path("freezes/", freezes.windows, name="freezes"),
    path("freezes/new/", freezes.new_window, name="new-freeze"),
    path("freezes/<int:pk>/edit/", freezes.edit_window, name="edit-freeze"),
    path("freezes/<int:pk>/delete/", freezes.delete_window, name="delete-freeze"),
    path("pipelines/", pipelines.pipelines, name="pipelines"),
    path("pipelines/<int:pk>/", pipelines.pipeline, name="pipeline"),
    path("pipelines/<int:pk>/tags/", pipeline_tags.tags_of_pipeline, name="pipeline-tags"),
    path("pipelines/<int:pk>/run/", pipelines.run_pipeline, name="run-pipeline"),
    path("pipelines/<int:pk>/run/plan/", pipelines.plan_of_run, name="plan-of-run"),
    path("pipelines/<int:pk>/preview/", previews.preview_pipeline, name="preview-pipeline"),
    path("iam-policies/", previews.policies, name="iam-policies"),
    path("iam-policies/<slug:identifier>.json", previews.policy, name="iam-policy"),
    path("services/<int:pk>/", services.service, name="service"),
    path("services/<int:pk>/deploy/", new_images.deploy_image, name="deploy-image"),
]
