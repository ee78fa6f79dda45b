"""What registries and ECR answer: tags, the highest first, and digests (R179, R180)."""

import re
from collections.abc import Mapping
from typing import Any

from aws.caller import Caller
from delegates.errands import LIST_TAGS, SERVICE


def tags_seen_by(caller: Caller, image: str, region: str) -> list[str]:
    """The tags of a repository. Raises `AwsError`, and `CallPending` where the answer is still to come."""
    return tags_of(caller.call(SERVICE, LIST_TAGS, {"repository": image, "region": region}))


def tags_of(result: Mapping[str, Any]) -> list[str]:
    """The tags of an answer of a registry or of ECR, the highest first."""
    images = result.get("imageDetails")
    if images is None:
        found = [str(tag) for tag in result.get("tags") or ()]
    else:
        found = [str(tag) for image in images for tag in image.get("imageTags") or ()]
    return sorted(dict.fromkeys(found), key=height, reverse=True)


def digest_of(result: Mapping[str, Any]) -> str:
    """The digest in an answer of a registry or of ECR."""
    images = result.get("imageDetails") or [{}]
    return str(result.get("digest") or images[0].get("imageDigest") or "")


def height(tag: str) -> list[tuple[int, int, str]]:
    """What orders tags: pieces of text, and numbers as numbers."""
    pieces = re.findall(r"[0-9]+|[^0-9]+", tag)
    return [(1, int(one), "") if one.isdigit() else (0, 0, one) for one in pieces]
