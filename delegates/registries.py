"""Asking a connector for images and their tags: at once, or through a delegate (R179, R180)."""

from collections.abc import Mapping
from typing import Any, Final

from aws.errors import AwsError
from connectors.downstream import needs_of_connector, refuse_lacking
from connectors.kinds import read_any
from connectors.models import Connector
from delegates.doors import DoorClosed
from delegates.errands import SiteCaller
from delegates.images import IMAGE_PATH, Repositories, SeenTags, seen_in_registry
from delegates.inquiries import Question, ask_or_join, asked_before, keep_answer
from delegates.models import Inquiry
from delegates.site_steps import told_with_step
from rbac.models import User
from web.problems import BadInput

MOST_PATH: Final = 255


def tags_by_connector(*, actor: User, connector: Connector, image: str, region: str) -> SeenTags | Inquiry:
    """The tags of a repository now, or the inquiry while a delegate looks.

    Raises `BadInput` for what is no repository, `DoorClosed` with the reason where the registry refuses.
    """
    refuse_lacking(actor, needs_of_connector(connector))
    if not IMAGE_PATH.match(image) or len(image) > MOST_PATH:
        message = "is the name of a repository in the registry, such as library/nginx"
        raise BadInput("Name the image.", errors=[{"path": "image", "message": message}])
    found = _seen(Question(actor, connector, Inquiry.Kind.TAGS, region, image))
    return found if isinstance(found, Inquiry) else SeenTags.from_json(found)


def repositories_by_connector(*, actor: User, connector: Connector, region: str) -> Repositories | Inquiry:
    """The repositories of a registry, or of ECR in a region, now, or the inquiry while a delegate looks.

    Raises `DoorClosed` with the reason where it refuses or shows no list, and for what is no registry.
    """
    refuse_lacking(actor, needs_of_connector(connector))
    if connector.kind not in (Connector.Kind.AWS, Connector.Kind.DOCKER_REGISTRY):
        raise DoorClosed("Only registries and ECR list repositories: choose a connector to one of them.")
    found = _seen(Question(actor, connector, Inquiry.Kind.REPOSITORIES, region, ""))
    return found if isinstance(found, Inquiry) else Repositories.from_json(found)


def _seen(question: Question) -> Mapping[str, Any] | Inquiry:
    connector = question.connector
    if not read_any(connector.kind, connector.spec).is_remote:
        return _seen_here(question)
    asked = ask_or_join(
        actor=question.actor,
        connector=connector,
        kind=question.kind,
        region=question.region,
        subject=question.subject,
    )
    if asked.report is None:
        return asked
    if "error" in asked.report:
        raise DoorClosed(asked.report["error"])
    return dict(asked.report)


def _seen_here(question: Question) -> Mapping[str, Any]:
    """What this Slipway sees; who searches on in the same list gets the answer of a moment ago."""
    if (same := asked_before(question)) is not None and same.report is not None:
        return dict(same.report)
    connector, region = question.connector, question.region
    try:
        found = seen_in_registry(question.kind, SiteCaller(connector), question.subject, region)
    except AwsError as error:
        raise DoorClosed(told_with_step(connector, error, region)) from error
    keep_answer(question, found)
    return found
