"""Tags of the image that a run of a pipeline deploys."""

from catalog.artifacts.sources import Source
from catalog.artifacts.tags import NO_SOURCE, ask_for_tags
from connectors.models import Connector
from delegates.images import SeenTags
from delegates.models import Inquiry
from deployments.operations import default_artifact
from pipelines.models import Pipeline
from rbac.models import User
from web.problems import Conflict


def tags_of_pipeline(*, actor: User, pipeline: Pipeline) -> SeenTags | Inquiry:
    """The same for the image that a run of a pipeline deploys. Raises `PipelineNotRunnable` besides."""
    source: Source = default_artifact(pipeline).get("source") or {}
    if not source:
        raise Conflict(NO_SOURCE)
    return ask_for_tags(actor, source, Connector.objects.filter(pk=source["connector_id"]).first())
