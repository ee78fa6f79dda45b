"""The list of tags to choose from when a pipeline is run."""

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from catalog.pages.image_tags import build_tag_response
from deployments import pipeline_tags
from pipelines.models import Pipeline
from rbac.policy import require
from web.forms.pages import PageRequest, get_visible, require_sign_in


@require_sign_in
@require_safe
def tags_of_pipeline(request: PageRequest, pk: int) -> HttpResponse:
    """List tags of the image that a run of a pipeline deploys."""
    found = get_visible(request, "core_pipeline_view", Pipeline.objects.select_related("scope"), pk=pk)
    require(request.user, "core_pipeline_execute", found)
    return build_tag_response(
        request, lambda: pipeline_tags.tags_of_pipeline(actor=request.user, pipeline=found)
    )
