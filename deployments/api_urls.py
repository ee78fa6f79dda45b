"""Addresses of the REST API of services, environments, pipelines and executions."""

from django.urls import path

from deployments.api import (
    approvals,
    environments,
    executions,
    logs,
    merged,
    overrides,
    pipeline_versions,
    pipelines,
    previews,
    services,
)

urlpatterns = [
    path("services", services.Services.as_view(), name="api-services"),
    path("services/<int:pk>", services.OneService.as_view(), name="api-service"),
    path("environments", environments.Environments.as_view(), name="api-environments"),
    path("environments/<int:pk>", environments.OneEnvironment.as_view(), name="api-environment"),
    path(
        "environments/<int:pk>/infrastructures",
        environments.Infrastructures.as_view(),
        name="api-infrastructures",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>",
        environments.OneInfrastructure.as_view(),
        name="api-infrastructure",
    ),
    path("environments/<int:pk>/overrides", overrides.Overrides.as_view(), name="api-overrides"),
    path(
        "environments/<int:pk>/overrides/<int:service>",
        overrides.OneOverride.as_view(),
        name="api-override",
    ),
    path(
        "environments/<int:pk>/overrides/<int:service>/manifests",
        merged.CountingManifests.as_view(),
        name="api-counting-manifests",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>/overrides",
        overrides.Overrides.as_view(),
        name="api-infrastructure-overrides",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>/overrides/<int:service>",
        overrides.OneOverride.as_view(),
        name="api-infrastructure-override",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>/overrides/<int:service>/manifests",
        merged.CountingManifests.as_view(),
        name="api-infrastructure-counting-manifests",
    ),
    path("pipelines", pipelines.Pipelines.as_view(), name="api-pipelines"),
    path("pipelines/<int:pk>", pipelines.OnePipeline.as_view(), name="api-pipeline"),
    path(
        "pipelines/<int:pk>/executions",
        pipelines.PipelineExecutions.as_view(),
        name="api-pipeline-executions",
    ),
    path("pipelines/<int:pk>/preview", previews.PipelinePreview.as_view(), name="api-preview"),
    path("pipelines/checks", pipeline_versions.PipelineChecks.as_view(), name="api-pipeline-checks"),
    path("pipelines/<int:pk>/diff", pipeline_versions.PipelineDiff.as_view(), name="api-pipeline-diff"),
    path(
        "pipelines/<int:pk>/versions",
        pipeline_versions.PipelineVersions.as_view(),
        name="api-pipeline-versions",
    ),
    path(
        "pipelines/<int:pk>/versions/<int:number>",
        pipeline_versions.OnePipelineVersion.as_view(),
        name="api-pipeline-version",
    ),
    path(
        "pipelines/<int:pk>/versions/<int:number>/restore",
        pipeline_versions.RestorePipelineVersion.as_view(),
        name="api-restore-pipeline-version",
    ),
    path("iam-policies", previews.Policies.as_view(), name="api-iam-policies"),
    path("pipeline-schema", pipelines.PipelineSchema.as_view(), name="api-pipeline-schema"),
    path("approvals", approvals.Approvals.as_view(), name="api-approvals"),
    path("approvals/<uuid:pk>", approvals.OneApproval.as_view(), name="api-approval"),
    path("approvals/<uuid:pk>/approve", approvals.Approve.as_view(), name="api-approve"),
    path("approvals/<uuid:pk>/reject", approvals.Reject.as_view(), name="api-reject"),
    path("approvals/<uuid:pk>/check", approvals.CheckApproval.as_view(), name="api-check-approval"),
    path("executions", executions.Executions.as_view(), name="api-executions"),
    path("executions/<uuid:pk>", executions.OneExecution.as_view(), name="api-execution"),
    path("executions/<uuid:pk>/abort", executions.AbortExecution.as_view(), name="api-abort"),
    path("executions/<uuid:pk>/rollback", executions.RollBackExecution.as_view(), name="api-rollback"),
    path("executions/<uuid:pk>/retry", executions.RetryExecution.as_view(), name="api-retry"),
    path("executions/<uuid:pk>/leftovers", executions.Leftovers.as_view(), name="api-leftovers"),
    path("executions/<uuid:pk>/undo-plan", executions.UndoPlan.as_view(), name="api-undo-plan"),
    path("executions/<uuid:pk>/decisions", executions.DecideAboutStep.as_view(), name="api-decide"),
    path("executions/<uuid:pk>/log", logs.ExecutionLog.as_view(), name="api-log"),
    path("executions/<uuid:pk>/log/search", logs.SearchLog.as_view(), name="api-log-search"),
    path("executions/<uuid:pk>/calls", executions.ExecutionCalls.as_view(), name="api-calls"),
]
