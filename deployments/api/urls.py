"""URLs of the REST API of executions, approvals, freeze windows and previews."""

from django.urls import path

from deployments.api import (
    approvals,
    attempts,
    delegate_installs,
    delegate_upgrades,
    executions,
    freezes,
    logs,
    previews,
    rehearsals,
    runs,
)

urlpatterns = [
    path(
        "pipelines/<int:pk>/executions",
        runs.PipelineExecutions.as_view(),
        name="api-pipeline-executions",
    ),
    path("pipelines/<int:pk>/preview", previews.PipelinePreview.as_view(), name="api-preview"),
    path("pipelines/<int:pk>/rehearsal", rehearsals.PipelineRehearsal.as_view(), name="api-rehearsal"),
    path(
        "delegates/<int:pk>/deployment-plan",
        delegate_installs.PlanDelegateDeployment.as_view(),
        name="api-delegate-deployment-plan",
    ),
    path(
        "delegates/<int:pk>/deployments",
        delegate_installs.DelegateDeployments.as_view(),
        name="api-delegate-deployments",
    ),
    path(
        "delegates/<int:pk>/removal-plan",
        delegate_installs.PlanDelegateRemoval.as_view(),
        name="api-delegate-removal-plan",
    ),
    path(
        "delegates/<int:pk>/removals",
        delegate_installs.DelegateRemovals.as_view(),
        name="api-delegate-removals",
    ),
    path(
        "delegates/<int:pk>/upgrade-window",
        delegate_upgrades.DelegateUpgradeWindowRoute.as_view(),
        name="api-delegate-upgrade-window",
    ),
    path("iam-policies", previews.Policies.as_view(), name="api-iam-policies"),
    path("approvals", approvals.Approvals.as_view(), name="api-approvals"),
    path("approvals/<uuid:pk>", approvals.ApprovalDetail.as_view(), name="api-approval"),
    path("approvals/<uuid:pk>/approve", approvals.ApproveApproval.as_view(), name="api-approve"),
    path("approvals/<uuid:pk>/reject", approvals.RejectApproval.as_view(), name="api-reject"),
    path("approvals/<uuid:pk>/check", approvals.CheckApproval.as_view(), name="api-check-approval"),
    path("freeze-windows", freezes.FreezeWindows.as_view(), name="api-freeze-windows"),
    path("freeze-windows/<int:pk>", freezes.FreezeWindowDetail.as_view(), name="api-freeze-window"),
    path("executions", executions.Executions.as_view(), name="api-executions"),
    path("executions/<uuid:pk>", executions.ExecutionDetail.as_view(), name="api-execution"),
    path("executions/<uuid:pk>/abort", executions.AbortExecution.as_view(), name="api-abort"),
    path(
        "executions/<uuid:pk>/rollback-rehearsal",
        rehearsals.RollbackRehearsal.as_view(),
        name="api-rollback-rehearsal",
    ),
    path("executions/<uuid:pk>/rollback", executions.RollBackExecution.as_view(), name="api-rollback"),
    path("executions/<uuid:pk>/attempts", attempts.Attempts.as_view(), name="api-attempts"),
    path("executions/<uuid:pk>/delays", executions.ExecutionDelays.as_view(), name="api-execution-delays"),
    path("executions/<uuid:pk>/retry", executions.RetryExecution.as_view(), name="api-retry"),
    path("executions/<uuid:pk>/leftovers", executions.Leftovers.as_view(), name="api-leftovers"),
    path("executions/<uuid:pk>/undo-plan", executions.UndoPlan.as_view(), name="api-undo-plan"),
    path("executions/<uuid:pk>/decisions", executions.DecideAboutStep.as_view(), name="api-decide"),
    path("executions/<uuid:pk>/log", logs.ExecutionLog.as_view(), name="api-log"),
    path("executions/<uuid:pk>/log/search", logs.SearchLog.as_view(), name="api-log-search"),
    path("executions/<uuid:pk>/calls", executions.ExecutionCalls.as_view(), name="api-calls"),
    path(
        "executions/<uuid:pk>/expressions",
        executions.ExecutionExpressions.as_view(),
        name="api-execution-expressions",
    ),
]
