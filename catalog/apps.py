"""The Django app of the catalog."""

from django.apps import AppConfig


class CatalogConfig(AppConfig):
    """Services, environments and infrastructures."""

    name = "catalog"
    verbose_name = "Catalog"

    def ready(self) -> None:
        # Enters what the file store below cannot know: who refers to a file, and what is wrong with one.
        # And what delegates cannot know: which environments a configuration of theirs can be for.
        import catalog.delegate_environments
        import catalog.manifests.file_references  # noqa: F401
