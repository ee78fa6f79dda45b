"""URLs of the pages of executions, approvals, freeze windows and previews."""

from django.urls import path

from deployments.pages import (
    approvals,
    attempts,
    delegate_removals,
    delegates,
    executions,
    freezes,
    pipelines,
    runs,
    services,
    timeline,
)

urlpatterns = [
    path("deployments/", executions.list_executions, name="executions"),
    path("deployments/<uuid:pk>/", executions.show_execution, name="execution"),
    path("deployments/<uuid:pk>/timeline/", timeline.show_timeline, name="execution-timeline"),
    path("deployments/<uuid:pk>/delays/", executions.show_execution_delays, name="execution-delays"),
    path("deployments/<uuid:pk>/abort/", executions.abort_execution, name="abort-execution"),
    path("deployments/<uuid:pk>/rollback/", executions.roll_back_execution, name="roll-back-execution"),
    path("deployments/<uuid:pk>/retry/", attempts.retry_execution, name="retry-execution"),
    path("deployments/<uuid:pk>/leftovers/", executions.show_leftovers, name="leftovers"),
    path(
        "deployments/<uuid:pk>/expressions/",
        executions.list_expressions,
        name="execution-expressions",
    ),
    path("deployments/<uuid:pk>/decide/", executions.decide_step, name="decide-about-step"),
    path("approvals/", approvals.list_approvals, name="approvals"),
    path("approvals/links/<str:token>/", approvals.open_approval_link, name="approval-link"),
    path("approvals/<uuid:pk>/", approvals.show_approval, name="approval"),
    path("approvals/<uuid:pk>/decide/", approvals.decide_approval, name="decide-about-approval"),
    path("approvals/<uuid:pk>/check/", approvals.update_plan, name="check-approval"),
    path("freezes/", freezes.list_windows, name="freezes"),
    path("freezes/new/", freezes.NewFreeze.as_view(), name="new-freeze"),
    path("freezes/<int:pk>/edit/", freezes.EditFreeze.as_view(), name="edit-freeze"),
    path("freezes/<int:pk>/delete/", freezes.DeleteFreeze.as_view(), name="delete-freeze"),
    path("pipelines/", pipelines.pipelines, name="pipelines"),
    path("pipelines/<int:pk>/", pipelines.pipeline, name="pipeline"),
    path("pipelines/<int:pk>/tags/", pipelines.list_pipeline_tags, name="pipeline-tags"),
    path("pipelines/<int:pk>/run/", pipelines.run_pipeline, name="run-pipeline"),
    path("pipelines/<int:pk>/run/plan/", pipelines.plan_of_run, name="plan-of-run"),
    path("pipelines/<int:pk>/preview/", runs.preview_pipeline, name="preview-pipeline"),
    path("iam-policies/", runs.list_policies, name="iam-policies"),
    path("iam-policies/<slug:identifier>.json", runs.download_policy, name="iam-policy"),
    path("delegates/<int:pk>/deploy/", delegates.deploy_delegate_now, name="deploy-delegate"),
    path("delegates/<int:pk>/remove/", delegate_removals.remove_delegate_now, name="remove-delegate"),
    path("services/<int:pk>/", services.service, name="service"),
    path("services/<int:pk>/deploy/", runs.deploy_image, name="deploy-image"),
]
