"""Sources of images in registries and ECR: validation, connector, and tag patterns."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from aws.regions import list_regions
from catalog.models import Artifact
from connectors.models import Connector
from connectors.queries import find_connector
from connectors.required_access import RequiredPermission, get_connector_requirements
from delegates.access.images import IMAGE_PATH, build_tag_sort_key
from delegates.access.lookup_requests import MAX_IMAGE_PATH
from guards.patterns import describe_pattern_problem, filter_matches, is_glob_match
from rbac.models import Scope

DOCKER_REGISTRY, ECR = "DockerRegistry", "Ecr"
SOURCE_CONNECTOR_KINDS: Final = {DOCKER_REGISTRY: Connector.Kind.DOCKER_REGISTRY, ECR: Connector.Kind.AWS}
_SOURCE_FIELDS: Final = {
    DOCKER_REGISTRY: ("type", "connector", "imagePath", "tagPattern"),
    ECR: ("type", "connector", "imagePath", "region", "tagPattern"),
}
MOST_PATTERN_CHARACTERS: Final = 200

ImageSource = Mapping[str, Any]


def describe_source_problem(source: ImageSource) -> str:
    """Describe the problem with an image source; empty if it is valid or absent."""
    if not source:
        return ""
    kind = source.get("type")
    if kind not in _SOURCE_FIELDS:
        return f"type must be one of {', '.join(_SOURCE_FIELDS)}"
    if unknown := [name for name in source if name not in _SOURCE_FIELDS[kind]]:
        return f"unknown key {unknown[0]}; use one of {', '.join(_SOURCE_FIELDS[kind])}"
    if missing := [name for name in _SOURCE_FIELDS[kind] if name != "tagPattern" and not source.get(name)]:
        return f"{missing[0]} is missing"
    if not IMAGE_PATH.match(str(source["imagePath"])) or len(str(source["imagePath"])) > MAX_IMAGE_PATH:
        return "imagePath must be a repository in the registry, such as library/nginx"
    if kind == ECR and not any(source["region"] == region.name for region in list_regions()):
        return "region must be an AWS region, such as eu-central-1"
    return describe_tag_pattern_problem(str(source.get("tagPattern") or ""))


def find_source_connector(scope: Scope, source: ImageSource) -> Connector | None:
    """Return the connector of an image source, seen from `scope`, or None."""
    return find_connector(scope, source["connector"], SOURCE_CONNECTOR_KINDS[source["type"]])


def list_source_needs(
    scope: Scope, source: ImageSource, *, hint: str = "", path: str = ""
) -> Iterator[RequiredPermission]:
    """Yield the permissions needed to look up tags and digests: access to the connector (R082)."""
    if source and (connector := find_source_connector(scope, source)) is not None:
        yield from get_connector_requirements(connector, hint=hint, path=path)


def build_image_row(artifact: Artifact, tag: str, scope: Scope) -> dict[str, Any]:
    """Build the image row of a new run; if it has a source, the digest is resolved later."""
    source = artifact.source
    chosen = tag or ("" if source.get("tagPattern") else artifact.tag)
    if not source:
        return {"image": artifact.image, "tag": chosen}
    connector = find_source_connector(scope, source)
    stored = {**source, "connector_id": connector.pk if connector else None}
    return {"image": artifact.image, "tag": chosen, "source": stored}


def match_tags(tags: Sequence[str], pattern: str) -> list[str]:
    """Return the tags that match a pattern, highest first; numbers compare as numbers."""
    if expression := _get_regular_expression(pattern):
        matches = list(filter_matches(expression, tags))
    else:
        matches = [tag for tag in tags if is_glob_match(pattern, tag)]
    return sorted(matches, key=build_tag_sort_key, reverse=True)


def describe_image(artifact: Mapping[str, Any]) -> str:
    """Return the log line about the image of a run with its digest."""
    return f"The image {artifact['image']}:{artifact['tag']} has the digest {artifact['digest']}"


def get_newest_tag(tags: Sequence[str], pattern: str) -> str:
    """Return the highest tag that matches a pattern."""
    return next(iter(match_tags(tags, pattern)), "")


def describe_tag_pattern_problem(pattern: str) -> str:
    """Describe the problem with a tag pattern; empty if it is valid."""
    if expression := _get_regular_expression(pattern):
        problem = describe_pattern_problem(expression)
        return f"the regular expression of tagPattern {problem}" if problem else ""
    if len(pattern) > MOST_PATTERN_CHARACTERS or not re.fullmatch(r"[\w.*-]*", pattern, re.ASCII):
        return (
            f"tagPattern must have at most {MOST_PATTERN_CHARACTERS} letters, digits, . _ - and * as "
            "wildcard, or be a regular expression between slashes"
        )
    return ""


def _get_regular_expression(pattern: str) -> str:
    """Return the regular expression between slashes; empty for a plain pattern."""
    is_one = len(pattern) > 2 and pattern.startswith("/") and pattern.endswith("/")
    return pattern[1:-1] if is_one else ""
