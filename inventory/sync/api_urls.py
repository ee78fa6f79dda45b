"""Addresses of the REST API of what runs where."""

from django.urls import path

from inventory.sync.api import instances

urlpatterns = [
    path("services/<int:pk>/instances", instances.InstancesOfService.as_view(), name="api-service-instances"),
    path(
        "infrastructures/<int:pk>/sync",
        instances.SyncOfInfrastructure.as_view(),
        name="api-infrastructure-sync",
    ),
]
