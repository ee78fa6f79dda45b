"""Addresses of the REST API that reaches through a connector's door."""

from django.urls import path

from delegates import api

urlpatterns = [
    path("connectors/<int:pk>/test", api.ConnectorTest.as_view(), name="api-connector-test"),
    path("connectors/<int:pk>/clusters", api.ConnectorClusters.as_view(), name="api-connector-clusters"),
    path("aws-regions", api.AwsRegions.as_view(), name="api-aws-regions"),
]
