"""Addresses of the pages of services, environments and infrastructures."""

from django.urls import path

from catalog.pages import environments, infrastructures, listeners, merged, overrides, services, tags

urlpatterns = [
    path("pipelines/listeners/", listeners.choose_listeners, name="choose-listeners"),
    path("services/", services.services, name="services"),
    path("services/repositories/", tags.repositories_of_source, name="source-repositories"),
    path("services/tags/", tags.tags_of_source, name="source-tags"),
    path("services/<int:pk>/tags/", tags.tags_of_service, name="service-tags"),
    path("services/new/", services.new_service, name="new-service"),
    path("services/words/", services.manifest_words, name="manifest-words"),
    path("services/check/", services.check_manifest_text, name="check-manifest"),
    path("services/clean-up/", services.clean_up_manifest_text, name="clean-up-manifest"),
    path("services/<int:pk>/edit/", services.edit_service, name="edit-service"),
    path("services/<int:pk>/delete/", services.delete_service, name="delete-service"),
    path("environments/", environments.environments, name="environments"),
    path("environments/new/", environments.new_environment, name="new-environment"),
    path("environments/<int:pk>/", environments.environment, name="environment"),
    path("environments/<int:pk>/edit/", environments.edit_environment, name="edit-environment"),
    path("environments/<int:pk>/delete/", environments.delete_environment, name="delete-environment"),
    path(
        "environments/<int:pk>/services/<int:service>/",
        overrides.override,
        name="service-in-environment",
    ),
    path(
        "environments/<int:pk>/services/<int:service>/check/",
        overrides.check_override,
        name="check-override-in-environment",
    ),
    path(
        "environments/<int:pk>/services/<int:service>/manifests/",
        merged.manifests,
        name="manifests-in-environment",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>/services/<int:service>/",
        overrides.override,
        name="service-in-infrastructure",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>/services/<int:service>/check/",
        overrides.check_override,
        name="check-override-in-infrastructure",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>/services/<int:service>/manifests/",
        merged.manifests,
        name="manifests-in-infrastructure",
    ),
    path("environments/<int:pk>/clusters/", infrastructures.clusters, name="clusters"),
    path(
        "environments/<int:pk>/infrastructures/new/",
        infrastructures.new_infrastructure,
        name="new-infrastructure",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>/edit/",
        infrastructures.edit_infrastructure,
        name="edit-infrastructure",
    ),
    path(
        "environments/<int:pk>/infrastructures/<int:infrastructure>/delete/",
        infrastructures.delete_infrastructure,
        name="delete-infrastructure",
    ),
]
