"""Addresses of the REST API of delegates, and of what is reached through a connector's door."""

from django.urls import path

from delegates.api import doors, specs, tokens

urlpatterns = [
    path("connectors/<int:pk>/test", doors.ConnectorTest.as_view(), name="api-connector-test"),
    path("connectors/<int:pk>/clusters", doors.ConnectorClusters.as_view(), name="api-connector-clusters"),
    path("aws-regions", doors.AwsRegions.as_view(), name="api-aws-regions"),
    path("delegate-tokens", tokens.DelegateTokens.as_view(), name="api-delegate-tokens"),
    path("delegate-tokens/<int:pk>", tokens.OneDelegateToken.as_view(), name="api-delegate-token"),
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
    path("delegates/task-spec/check", specs.TaskSpecCheck.as_view(), name="api-task-spec-check"),
]
