"""The Django app of pipelines."""

from django.apps import AppConfig


class PipelinesConfig(AppConfig):
    """Pipelines and input sets."""

    name = "pipelines"
    verbose_name = "Pipelines"

    def ready(self) -> None:
        # Enters what connectors and the file store below cannot know: which pipelines use one.
        import pipelines.definition.file_references
        import pipelines.definition.step_connectors
        import pipelines.definition.step_secrets
        import pipelines.store_usage  # noqa: F401

        # And what the catalog cannot know: which pipelines deploy a service, and whether they could.
        from catalog.usage import register_service_check, register_usage_finder
        from pipelines.deployability import refuse_undeployable
        from pipelines.references import find_pipelines_using

        register_usage_finder(find_pipelines_using)
        register_service_check(refuse_undeployable)
