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
from delegates.inquiries import ask_or_join
from delegates.models import Inquiry
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
        try:
            return tags_seen_by(SiteCaller(connector), image, region)
        except AwsError as error:
            raise DoorClosed(error.sentence) from error
    asked = ask_or_join(
        actor=actor, connector=connector, kind=Inquiry.Kind.TAGS, region=region, subject=image
    )
    if asked.report is None:
        return asked
    if "error" in asked.report:
        raise DoorClosed(asked.report["error"])
    return SeenTags.from_json(asked.report)
