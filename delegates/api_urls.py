"""Addresses of the REST API that reaches through a connector's door."""

from django.urls import path

from delegates.api import doors

urlpatterns = [
    path("connectors/<int:pk>/test", doors.ConnectorTest.as_view(), name="api-connector-test"),
    path("connectors/<int:pk>/clusters", doors.ConnectorClusters.as_view(), name="api-connector-clusters"),
    path("aws-regions", doors.AwsRegions.as_view(), name="api-aws-regions"),
]
