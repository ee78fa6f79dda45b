"""Tags and repositories of an image source, fetched through its connector."""

from typing import Final

from catalog.artifacts.image_sources import (
    ImageSource,
    describe_source_problem,
    find_source_connector,
    match_tags,
)
from catalog.models import Artifact, Service
from connectors.models import Connector
from delegates.access.images import ImageTags
from delegates.access.lookup_requests import list_image_tags, list_repositories
from delegates.models import LookupRequest
from rbac.models import Scope, User
from web.http.problems import BadInput, Conflict

NO_SOURCE_MESSAGE: Final = (
    "The service has no registry for tag lookup. Choose one in the form of the service."
)


def list_service_tags(*, actor: User, service: Service) -> ImageTags | LookupRequest:
    """Return the tags of a service's image, or a lookup request while a delegate fetches them.

    Raises `Conflict` if the image has no source, and the errors of `list_image_tags`.
    """
    artifact = Artifact.objects.filter(service=service).first()
    return list_source_tags(actor=actor, scope=service.scope, source=artifact.source if artifact else {})


def list_source_tags(
    *, actor: User, scope: Scope, source: ImageSource, is_narrowed: bool = False
) -> ImageTags | LookupRequest:
    """Return the same for a source in `scope`, saved or not; narrowed to its pattern if wished.

    Raises `BadInput` for a source that cannot be.
    """
    if not source.get("type"):
        raise Conflict(NO_SOURCE_MESSAGE)
    if problem := describe_source_problem(source):
        raise BadInput("Tags cannot be listed yet.", errors=[{"path": "source", "message": problem}])
    return request_tags(actor, source, find_source_connector(scope, source), is_narrowed=is_narrowed)


def list_source_repositories(*, actor: User, scope: Scope, source: ImageSource) -> ImageTags | LookupRequest:
    """Return the repositories of an image source with a connector, and for ECR a region.

    Raises `BadInput` without them, and the errors of `list_repositories`.
    """
    complete = {**source, "imagePath": source.get("imagePath") or "any"}
    if problem := describe_source_problem(complete):
        raise BadInput("Tags cannot be listed yet.", errors=[{"path": "source", "message": problem}])
    connector = find_source_connector(scope, source)
    if connector is None:
        raise _build_missing_connector_error(source)
    result = list_repositories(actor=actor, connector=connector, region=str(source.get("region") or ""))
    return result if isinstance(result, LookupRequest) else ImageTags(result.as_tags, result.is_cut)


def _build_missing_connector_error(source: ImageSource) -> Conflict:
    return Conflict(
        f"The connector {source['connector']} does not exist. Create it, or choose another one in the "
        f"service."
    )


def request_tags(
    actor: User, source: ImageSource, connector: Connector | None, *, is_narrowed: bool = False
) -> ImageTags | LookupRequest:
    if connector is None:
        raise _build_missing_connector_error(source)
    image, region = str(source["imagePath"]), str(source.get("region") or "")
    result = list_image_tags(actor=actor, connector=connector, image=image, region=region)
    pattern = str(source.get("tagPattern") or "")
    if isinstance(result, ImageTags) and is_narrowed and pattern:
        return _filter_tags(result, pattern)
    return result


def _filter_tags(image_tags: ImageTags, pattern: str) -> ImageTags:
    """Return the tags that match a pattern, in order of preference."""
    by_name = {tag.name: tag for tag in image_tags.tags}
    return ImageTags([by_name[name] for name in match_tags(image_tags.names, pattern)], image_tags.is_cut)
