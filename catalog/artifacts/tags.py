"""The tags to choose from for an image: asked where its source says, for who may use the connector."""

from typing import Final

from catalog.artifacts.sources import Source, connector_of_source, matching, source_problem
from catalog.models import Artifact, Service
from connectors.models import Connector
from delegates.images import SeenTags
from delegates.models import Inquiry
from delegates.registries import repositories_by_connector, tags_by_connector
from rbac.models import Scope, User
from web.problems import BadInput, Conflict

NO_SOURCE: Final = (
    "Nothing says where the tags of this image are: choose in the form of the service where tags and digests "
    "are asked for."
)


def tags_of_service(*, actor: User, service: Service) -> SeenTags | Inquiry:
    """The tags of a service's image now, or the inquiry while a delegate looks.

    Raises `Conflict` where it has no source, and as `tags_by_connector` does.
    """
    artifact = Artifact.objects.filter(service=service).first()
    return tags_of_source(actor=actor, scope=service.scope, source=artifact.source if artifact else {})


def tags_of_source(
    *, actor: User, scope: Scope, source: Source, is_narrowed: bool = False
) -> SeenTags | Inquiry:
    """The same for a source in `scope`, saved or not; narrowed to its pattern if wished.

    Raises `BadInput` for a source that cannot be.
    """
    if not source.get("type"):
        raise Conflict(NO_SOURCE)
    if why := source_problem(source):
        raise BadInput("This cannot be asked yet.", errors=[{"path": "source", "message": why}])
    return ask_for_tags(actor, source, connector_of_source(scope, source), is_narrowed=is_narrowed)


def repositories_of_source(*, actor: User, scope: Scope, source: Source) -> SeenTags | Inquiry:
    """The repositories to choose from where a source in `scope` names a connector, and of ECR a region.

    Raises `BadInput` where it does not, and as `repositories_by_connector` does.
    """
    wanted = {**source, "imagePath": source.get("imagePath") or "any"}
    if why := source_problem(wanted):
        raise BadInput("This cannot be asked yet.", errors=[{"path": "source", "message": why}])
    connector = connector_of_source(scope, source)
    if connector is None:
        raise _missing(source)
    found = repositories_by_connector(
        actor=actor, connector=connector, region=str(source.get("region") or "")
    )
    return found if isinstance(found, Inquiry) else SeenTags(found.as_tags, found.is_cut)


def _missing(source: Source) -> Conflict:
    return Conflict(
        f"The connector {source['connector']} is not there: make it, or name another one in the service."
    )


def ask_for_tags(
    actor: User, source: Source, connector: Connector | None, *, is_narrowed: bool = False
) -> SeenTags | Inquiry:
    if connector is None:
        raise _missing(source)
    image, region = str(source["imagePath"]), str(source.get("region") or "")
    found = tags_by_connector(actor=actor, connector=connector, image=image, region=region)
    pattern = str(source.get("tagPattern") or "")
    return _like(found, pattern) if isinstance(found, SeenTags) and is_narrowed and pattern else found


def _like(found: SeenTags, pattern: str) -> SeenTags:
    """The tags that a pattern matches, in the order in which a run prefers them."""
    by_name = {one.name: one for one in found.tags}
    return SeenTags([by_name[name] for name in matching(found.names, pattern)], found.is_cut)
