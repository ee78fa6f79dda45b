"""Asking a connector for the tags of an image: at once, or through a delegate (R179, R180)."""

import re
from typing import Final

from aws.errors import AwsError
from connectors.downstream import needs_of_connector, refuse_lacking
from connectors.kinds import read_any
from connectors.models import Connector
from delegates.doors import DoorClosed
from delegates.errands import SiteCaller
from delegates.images import SeenTags, tags_seen_by
from delegates.inquiries import Question, ask_or_join, asked_before, keep_answer
from delegates.models import Inquiry
from delegates.site_steps import told_with_step
from rbac.models import User
from web.problems import BadInput

IMAGE_PATH: Final = re.compile(r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*\Z")
MOST_PATH: Final = 255


def tags_by_connector(*, actor: User, connector: Connector, image: str, region: str) -> SeenTags | Inquiry:
    """The tags of a repository now, or the inquiry while a delegate looks.

    Raises `BadInput` for what is no repository, `DoorClosed` with the reason where the registry refuses.
    """
    refuse_lacking(actor, needs_of_connector(connector))
    if not IMAGE_PATH.match(image) or len(image) > MOST_PATH:
        message = "is the name of a repository in the registry, such as library/nginx"
        raise BadInput("Name the image.", errors=[{"path": "image", "message": message}])
    if not read_any(connector.kind, connector.spec).is_remote:
        return _asked_here(actor, connector, image, region)
    asked = ask_or_join(
        actor=actor, connector=connector, kind=Inquiry.Kind.TAGS, region=region, subject=image
    )
    if asked.report is None:
        return asked
    if "error" in asked.report:
        raise DoorClosed(asked.report["error"])
    return SeenTags.from_json(asked.report)


def _asked_here(actor: User, connector: Connector, image: str, region: str) -> SeenTags:
    """What this Slipway sees; who searches on in the same list gets the answer of a moment ago."""
    question = Question(actor, connector, Inquiry.Kind.TAGS, region, image)
    if (same := asked_before(question)) is not None and same.report is not None:
        return SeenTags.from_json(same.report)
    try:
        found = tags_seen_by(SiteCaller(connector), image, region)
    except AwsError as error:
        raise DoorClosed(told_with_step(connector, error, region)) from error
    keep_answer(question, found.to_json())
    return found
