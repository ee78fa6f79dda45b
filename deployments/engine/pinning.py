"""Settles the image of a run: the tag that a pattern means, and the digest that the tag has now."""

from collections.abc import Callable, Mapping
from typing import Any

from aws.errors import NotFound, Undelivered
from catalog.artifacts.sources import newest
from delegates.images import digest_of, every_tag
from delegates.site_steps import step_after
from steps.actions.base import ActionFailed
from steps.actions.work import FIND_DIGEST, LIST_TAGS

Errand = Callable[[str, dict[str, Any]], dict[str, Any]]
"""Does an errand by its name. Raises `AwsError`."""


def is_wanting(artifact: Mapping[str, Any]) -> bool:
    """Whether the image of a run has a source and no digest yet."""
    return bool(artifact.get("source")) and not artifact.get("digest")


def pinned(artifact: Mapping[str, Any], errand: Errand) -> dict[str, Any]:
    """The image with its tag and its digest. Raises `ActionFailed`, and what `errand` raises."""
    source = artifact["source"]
    if source.get("connector_id") is None:
        raise ActionFailed(
            "CONNECTOR_MISSING",
            f"The image {artifact['image']} names the connector {source['connector']}, which is not there. "
            "Make it, or change the service's artifact, and run again.",
        )
    asked = {"connector": source["connector_id"], "repository": source["imagePath"]}
    if source.get("region"):
        asked["region"] = source["region"]
    try:
        tag = artifact["tag"] or _newest(source, asked, errand)
        digest = digest_of(errand(FIND_DIGEST, {**asked, "tag": tag}))
    except (NotFound, Undelivered) as problem:
        image = f"{source['imagePath']}:{artifact['tag'] or source.get('tagPattern')}"
        said = f"{problem.sentence} {step_after(problem.sentence)}".strip()
        raise ActionFailed(
            "IMAGE_NOT_FOUND",
            f"The image {image} was not found by the connector {source['connector']}: {said}",
        ) from problem
    if not digest:
        raise ActionFailed(
            "IMAGE_NOT_FOUND",
            f"The connector {source['connector']} gave no digest for {source['imagePath']}:{tag}: look "
            "whether its URL is that of a registry, and run again.",
        )
    return {**artifact, "tag": tag, "digest": digest}


def _newest(source: Mapping[str, Any], asked: dict[str, Any], errand: Errand) -> str:
    pattern = source.get("tagPattern", "")
    where = {"image": asked["repository"], "region": asked.get("region", "")}
    found = every_tag(lambda now: errand(LIST_TAGS, now), **where, connector=asked["connector"])
    if tag := newest(found.names, pattern):
        return tag
    raise ActionFailed(
        "IMAGE_NOT_FOUND", f"No tag of {source['imagePath']} matches {pattern}: choose a tag, and run again."
    )
