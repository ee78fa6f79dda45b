"""URLs of the pages of services, environments, infrastructures and overrides."""

from django.urls import path

from catalog.pages import (
    effective_manifests,
    environments,
    image_tags,
    infrastructures,
    listeners,
    overrides,
    services,
)

urlpatterns = [
    path("pipelines/listeners/", listeners.choose_listeners, name="choose-listeners"),
    path("services/repositories/", image_tags.list_source_repositories, name="source-repositories"),
    path("services/tags/", image_tags.list_source_tags, name="source-tags"),
    path("services/<int:pk>/tags/", image_tags.list_service_tags, name="service-tags"),
    path("services/new/", services.NewService.as_view(), name="new-service"),
    path("services/words/", services.show_manifest_guide, name="manifest-words"),
    path("services/check/", services.check_manifest, name="check-manifest"),
    path("services/clean-up/", services.clean_up_manifest, name="clean-up-manifest"),
    path("services/<int:pk>/edit/", services.EditService.as_view(), name="edit-service"),
    path("services/<int:pk>/delete/", services.DeleteService.as_view(), name="delete-service"),
    path("environments/new/", environments.NewEnvironment.as_view(), name="new-environment"),
    path("environments/<int:pk>/edit/", environments.EditEnvironment.as_view(), name="edit-environment"),
    path(
        "environments/<int:pk>/delete/", environments.DeleteEnvironment.as_view(), name="delete-environment"
    ),
    path(
        "environments/<int:pk>/services/<int:service>/",
        overrides.edit_override,
        name="service-in-environment",
    ),
    path(
        "environments/<int:pk>/services/<int:service>/check/",
        overrides.check_override,
        name="check-override-in-environment",
    ),
    path(
        "environments/<int:pk>/services/<int:service>/manifests/",
        effective_manifests.show_manifests,
        name="manifests-in-environment",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>/services/<int:service>/",
        overrides.edit_override,
        name="service-in-infrastructure",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>/services/<int:service>/check/",
        overrides.check_override,
        name="check-override-in-infrastructure",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>/services/<int:service>/manifests/",
        effective_manifests.show_manifests,
        name="manifests-in-infrastructure",
    ),
    path("environments/<int:pk>/clusters/", infrastructures.choose_cluster, name="clusters"),
    path(
        "environments/<int:pk>/infrastructures/new/",
        infrastructures.NewInfrastructure.as_view(),
        name="new-infrastructure",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>/edit/",
        infrastructures.EditInfrastructure.as_view(),
        name="edit-infrastructure",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>/delete/",
        infrastructures.DeleteInfrastructure.as_view(),
        name="delete-infrastructure",
    ),
]
