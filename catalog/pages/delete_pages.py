"""Base class of the delete pages of resources that pipelines reference."""

from typing import TypeVar

from catalog.models import Environment, Infrastructure, Service
from catalog.usages import find_pipeline_usage
from web.forms.resource_pages import DeletePage
from web.usages import ResourceUsages

CatalogRow = TypeVar("CatalogRow", Service, Environment, Infrastructure)


class DeleteUsedPage(DeletePage[CatalogRow]):
    """Confirmation page for deleting a resource that pipelines may reference."""

    usage_title = "Used by pipelines"
    usage_advice = "These pipelines cannot run until you change them."
    although_used = "Delete anyway. Pipelines that use it can no longer run."

    def get_usages(self) -> ResourceUsages:
        return find_pipeline_usage(self.object, self.request.user).to_links()
