"""Addresses of the pages of what runs where."""

from django.urls import path

from inventory.sync.pages import instances

urlpatterns = [
    path("instances/", instances.instances, name="instances"),
    path("infrastructures/<int:pk>/sync/", instances.sync_now, name="sync-infrastructure"),
    path("services/<int:pk>/instances/", instances.instances_of_service, name="service-instances"),
]
