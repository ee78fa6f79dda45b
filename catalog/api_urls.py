"""Addresses of the REST API of services, environments and infrastructures."""

from django.urls import path

from catalog.api import environments, merged, overrides, services

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
]
