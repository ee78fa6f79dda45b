"""URLs of the REST API of delegates, and of lookups through connectors."""

from django.urls import path

from delegates.api import configurations, connectors, delegates, setups, specs, tasks, tokens

urlpatterns = [
    path("connectors/<int:pk>/test", connectors.ConnectorTestRoute.as_view(), name="api-connector-test"),
    path(
        "connectors/<int:pk>/tests/<uuid:inquiry>",
        connectors.ConnectorTestByDelegate.as_view(),
        name="api-connector-test-by-delegate",
    ),
    path(
        "connectors/<int:pk>/clusters", connectors.ConnectorClusters.as_view(), name="api-connector-clusters"
    ),
    path(
        "connectors/<int:pk>/load-balancers",
        connectors.ConnectorLoadBalancers.as_view(),
        name="api-connector-load-balancers",
    ),
    path(
        "connectors/<int:pk>/listeners",
        connectors.ConnectorListeners.as_view(),
        name="api-connector-listeners",
    ),
    path(
        "connectors/<int:pk>/registries/tags", connectors.ConnectorTags.as_view(), name="api-connector-tags"
    ),
    path(
        "connectors/<int:pk>/registries/repositories",
        connectors.ConnectorRepositories.as_view(),
        name="api-connector-repositories",
    ),
    path("connectors/<int:pk>/rules", connectors.ConnectorRules.as_view(), name="api-connector-rules"),
    path("delegates/<int:pk>/diagnosis", tasks.DelegateDiagnosis.as_view(), name="api-diagnose-delegate"),
    path("delegates/<int:pk>/check", tasks.DelegateCheck.as_view(), name="api-check-delegate"),
    path("delegate-tasks", tasks.DelegateTasks.as_view(), name="api-delegate-tasks"),
    path("delegate-tasks/<uuid:pk>", tasks.DelegateTaskDetail.as_view(), name="api-delegate-task"),
    path("delegate-tasks/<uuid:pk>/abort", tasks.AbortDelegateTask.as_view(), name="api-abort-delegate-task"),
    path(
        "delegate-tasks/<uuid:pk>/decisions",
        tasks.TaskDecisions.as_view(),
        name="api-delegate-task-decisions",
    ),
    path(
        "delegate-tasks/<uuid:pk>/explanation",
        tasks.TaskExplanation.as_view(),
        name="api-delegate-task-explanation",
    ),
    path(
        "delegate-tasks/<uuid:pk>/candidates",
        tasks.TaskCandidates.as_view(),
        name="api-delegate-task-candidates",
    ),
    path("delegate-tasks/<uuid:pk>/log", tasks.DelegateTaskLog.as_view(), name="api-delegate-task-log"),
    path("aws-regions", connectors.AwsRegions.as_view(), name="api-aws-regions"),
    path("delegates", delegates.Delegates.as_view(), name="api-delegates"),
    path("delegates/<int:pk>", delegates.DelegateDetail.as_view(), name="api-delegate"),
    path("delegates/<int:pk>/approve", delegates.DelegateApproval.as_view(), name="api-approve-delegate"),
    path("delegates/<int:pk>/reject", delegates.DelegateRejection.as_view(), name="api-reject-delegate"),
    path("delegates/<int:pk>/disable", delegates.DelegateDisabling.as_view(), name="api-disable-delegate"),
    path("delegates/<int:pk>/enable", delegates.DelegateEnabling.as_view(), name="api-enable-delegate"),
    path("delegates/<int:pk>/restore", delegates.DelegateRestoring.as_view(), name="api-restore-delegate"),
    path("delegates/<int:pk>/drain", delegates.DelegateDraining.as_view(), name="api-drain-delegate"),
    path("delegates/<int:pk>/setup", setups.DelegateSetup.as_view(), name="api-delegate-setup"),
    path("delegates/<int:pk>/tags", delegates.DelegateOwnTags.as_view(), name="api-delegate-tags"),
    path("delegates/<int:pk>/delays", delegates.DelegateDelays.as_view(), name="api-delegate-delays"),
    path("delegates/<int:pk>/logs", delegates.DelegateLogs.as_view(), name="api-delegate-logs"),
    path("delegates/<int:pk>/events", delegates.DelegateEvents.as_view(), name="api-delegate-events"),
    path(
        "delegate-configurations",
        configurations.DelegateConfigurations.as_view(),
        name="api-delegate-configurations",
    ),
    path(
        "delegate-configurations/<int:pk>",
        configurations.DelegateConfigurationDetail.as_view(),
        name="api-delegate-configuration",
    ),
    path(
        "delegate-configurations/<int:pk>/runs",
        configurations.DelegateConfigurationRuns.as_view(),
        name="api-delegate-configuration-runs",
    ),
    path(
        "delegate-configurations/<int:pk>/apply",
        configurations.DelegateConfigurationApplication.as_view(),
        name="api-apply-delegate-configuration",
    ),
    path("delegate-tokens", tokens.DelegateTokens.as_view(), name="api-delegate-tokens"),
    path("delegate-tokens/<int:pk>", tokens.DelegateTokenDetail.as_view(), name="api-delegate-token"),
    path(
        "delegate-tokens/<int:pk>/reveal",
        tokens.DelegateTokenReveal.as_view(),
        name="api-delegate-token-reveal",
    ),
    path(
        "delegate-tokens/<int:pk>/revoke",
        tokens.DelegateTokenRevocation.as_view(),
        name="api-delegate-token-revoke",
    ),
    path("delegates/task-spec", specs.TaskSpec.as_view(), name="api-task-spec"),
    path("delegates/<int:pk>/task-spec", specs.DelegateSpec.as_view(), name="api-delegate-task-spec"),
    path("delegates/task-spec/check", specs.TaskSpecCheck.as_view(), name="api-task-spec-check"),
]
