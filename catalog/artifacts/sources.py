"""Where an image comes from, a registry or ECR: its tags, the newest of them, the digest of one."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from aws.regions import regions
from catalog.models import Artifact
from connectors.downstream import Need, needs_of_connector
from connectors.models import Connector
from connectors.queries import connectors_for
from delegates.images import IMAGE_PATH, height
from delegates.registries import MOST_PATH
from guards.patterns import fitting, glob_fits, pattern_fault
from rbac.models import Scope

DOCKER_REGISTRY, ECR = "DockerRegistry", "Ecr"
KINDS: Final = {DOCKER_REGISTRY: Connector.Kind.DOCKER_REGISTRY, ECR: Connector.Kind.AWS}
_FIELDS: Final = {
    DOCKER_REGISTRY: ("type", "connector", "imagePath", "tagPattern"),
    ECR: ("type", "connector", "imagePath", "region", "tagPattern"),
}
MOST_PATTERN: Final = 200

Source = Mapping[str, Any]


def source_problem(source: Source) -> str:
    """What is wrong with the source of an image, or nothing; none at all is right."""
    if not source:
        return ""
    kind = source.get("type")
    if kind not in _FIELDS:
        return f"type is one of {', '.join(_FIELDS)}"
    if unknown := [name for name in source if name not in _FIELDS[kind]]:
        return f"there is no {unknown[0]}; there are {', '.join(_FIELDS[kind])}"
    if missing := [name for name in _FIELDS[kind] if name != "tagPattern" and not source.get(name)]:
        return f"{missing[0]} is missing"
    if not IMAGE_PATH.match(str(source["imagePath"])) or len(str(source["imagePath"])) > MOST_PATH:
        return "imagePath is the name of a repository in the registry, such as library/nginx"
    if kind == ECR and not any(source["region"] == one.name for one in regions()):
        return "region is the name of a region of AWS, such as eu-central-1"
    return pattern_problem(str(source.get("tagPattern") or ""))


def connector_of_source(scope: Scope, source: Source) -> Connector | None:
    """The connector that a source of `scope` names: the nearest of its kind."""
    found = connectors_for(scope, KINDS[source["type"]]).filter(identifier=source["connector"])
    return found.select_related("scope", "secret__scope").order_by("-scope__path").first()


def needs_of_source(scope: Scope, source: Source, *, hint: str = "", path: str = "") -> Iterator[Need]:
    """Yield what it takes to ask for tags and digests: access to the connector (R082)."""
    if source and (found := connector_of_source(scope, source)) is not None:
        yield from needs_of_connector(found, hint=hint, path=path)


def settled(artifact: Artifact, tag: str, scope: Scope) -> dict[str, Any]:
    """The image as a run begins with it; where it has a source, its digest is looked up on the way."""
    source = artifact.source
    chosen = tag or ("" if source.get("tagPattern") else artifact.tag)
    if not source:
        return {"image": artifact.image, "tag": chosen}
    connector = connector_of_source(scope, source)
    kept = {**source, "connector_id": connector.pk if connector else None}
    return {"image": artifact.image, "tag": chosen, "source": kept}


def matching(tags: Sequence[str], pattern: str) -> list[str]:
    """The tags that a pattern matches whole, the highest first, numbers counted as numbers."""
    if expression := _expression(pattern):
        found = list(fitting(expression, tags))
    else:
        found = [tag for tag in tags if glob_fits(pattern, tag)]
    return sorted(found, key=height, reverse=True)


def newest(tags: Sequence[str], pattern: str) -> str:
    """The tag that a pattern means: of those that match the highest."""
    return next(iter(matching(tags, pattern)), "")


def pattern_problem(pattern: str) -> str:
    """What is wrong with a pattern of tags, or nothing."""
    if expression := _expression(pattern):
        why = pattern_fault(expression)
        return f"the regular expression of tagPattern {why}" if why else ""
    if len(pattern) > MOST_PATTERN or not re.fullmatch(r"[\w.*-]*", pattern, re.ASCII):
        return (
            f"tagPattern has letters, digits, . _ - and * for anything, {MOST_PATTERN} at most, "
            "or is a regular expression between slashes"
        )
    return ""


def _expression(pattern: str) -> str:
    """The regular expression between slashes, which no tag has; empty for a plain pattern."""
    is_one = len(pattern) > 2 and pattern.startswith("/") and pattern.endswith("/")
    return pattern[1:-1] if is_one else ""
