"""Tags of the image that a run of a pipeline deploys."""

from catalog.artifacts.image_sources import ImageSource
from catalog.artifacts.image_tags import NO_SOURCE_MESSAGE, request_tags
from connectors.models import Connector
from delegates.access.images import ImageTags
from delegates.models import LookupRequest
from deployments.execution.operations import get_default_artifact
from pipelines.models import Pipeline
from rbac.models import User
from web.http.problems import Conflict


def tags_of_pipeline(*, actor: User, pipeline: Pipeline) -> ImageTags | LookupRequest:
    """Return the tags of the image that a run of a pipeline deploys. Raises `PipelineNotRunnable` too."""
    source: ImageSource = get_default_artifact(pipeline).get("source") or {}
    if not source:
        raise Conflict(NO_SOURCE_MESSAGE)
    return request_tags(actor, source, Connector.objects.filter(pk=source["connector_id"]).first())
