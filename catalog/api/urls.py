"""URLs of the REST API of services, environments, infrastructures and overrides."""

from django.urls import path

from catalog.api import effective_manifests, environments, overrides, services

urlpatterns = [
    path("services", services.Services.as_view(), name="api-services"),
    path("services/<int:pk>", services.ServiceDetail.as_view(), name="api-service"),
    path("environments", environments.Environments.as_view(), name="api-environments"),
    path("environments/<int:pk>", environments.EnvironmentDetail.as_view(), name="api-environment"),
    path(
        "environments/<int:pk>/infrastructures",
        environments.Infrastructures.as_view(),
        name="api-infrastructures",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>",
        environments.InfrastructureDetail.as_view(),
        name="api-infrastructure",
    ),
    path("environments/<int:pk>/overrides", overrides.Overrides.as_view(), name="api-overrides"),
    path(
        "environments/<int:pk>/overrides/<int:service>",
        overrides.OverrideDetail.as_view(),
        name="api-override",
    ),
    path(
        "environments/<int:pk>/overrides/<int:service>/manifests",
        effective_manifests.EffectiveManifests.as_view(),
        name="api-counting-manifests",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>/overrides",
        overrides.Overrides.as_view(),
        name="api-infrastructure-overrides",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>/overrides/<int:service>",
        overrides.OverrideDetail.as_view(),
        name="api-infrastructure-override",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>/overrides/<int:service>/manifests",
        effective_manifests.EffectiveManifests.as_view(),
        name="api-infrastructure-counting-manifests",
    ),
]
