"""What registries and ECR answer: repositories and tags, page by page, and digests (R179, R180)."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from aws.caller import Caller
from delegates.errands import LIST_REPOSITORIES, LIST_TAGS, SERVICE
from delegates.models import Inquiry
from guards.limits import REGISTRY_TAGS

Ask = Callable[[dict[str, Any]], Mapping[str, Any]]
"""Asks for the tags of a repository, and with `after` for what follows. Raises `AwsError`."""
AFTER: Final = "after"


@dataclass(frozen=True)
class SeenTag:
    """A tag; ECR says when its image was pushed (ISO 8601), registries do not."""

    name: str
    pushed_at: str = ""


@dataclass(frozen=True)
class SeenTags:
    """The tags of a repository in order; `is_cut` where it has more than are ever read."""

    tags: Sequence[SeenTag]
    is_cut: bool = False

    @property
    def names(self) -> list[str]:
        """The tags alone."""
        return [one.name for one in self.tags]

    def to_json(self) -> dict[str, Any]:
        return {"tags": [asdict(one) for one in self.tags], "is_cut": self.is_cut}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "SeenTags":
        """What `to_json` made."""
        return cls([SeenTag(**one) for one in kept["tags"]], bool(kept.get("is_cut")))


@dataclass(frozen=True)
class Repositories:
    """The repositories of ECR in a region by name; `is_cut` where there are more than are ever read."""

    names: Sequence[str]
    is_cut: bool = False

    @property
    def as_tags(self) -> list[SeenTag]:
        """The names as lists of tags are, to be paged like them."""
        return [SeenTag(name) for name in self.names]

    def to_json(self) -> dict[str, Any]:
        return {"repositories": list(self.names), "is_cut": self.is_cut}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "Repositories":
        """What `to_json` made."""
        return cls(list(kept["repositories"]), bool(kept.get("is_cut")))


@dataclass(frozen=True)
class TagPage:
    """Some of the tags that were searched for; `following` is the number of the next page."""

    tags: Sequence[SeenTag]
    following: int | None
    matching: int


def tags_seen_by(caller: Caller, image: str, region: str) -> SeenTags:
    """The tags of a repository. Raises `AwsError`, and `CallPending` where an answer is still to come."""
    return every_tag(lambda asked: caller.call(SERVICE, LIST_TAGS, asked), image, region)


def repositories_seen_by(caller: Caller, region: str) -> Repositories:
    """The repositories of a region. Raises as `tags_seen_by` does."""
    asked, found = {"region": region}, dict[str, None]()
    while True:
        answer = caller.call(SERVICE, LIST_REPOSITORIES, asked)
        listed = answer.get("repositories") or ()
        found |= dict.fromkeys(str(one.get("repositoryName") or "") for one in listed)
        after = answer.get("nextToken")
        is_full = len(found) >= REGISTRY_TAGS
        if is_full or not after or after == asked.get(AFTER):
            names = sorted(name for name in found if name)
            return Repositories(names[: int(REGISTRY_TAGS)], bool(is_full and after))
        asked = {**asked, AFTER: after}


def seen_in_registry(kind: str, caller: Caller, image: str, region: str) -> dict[str, Any]:
    """The answer to an inquiry for repositories or for the tags of an image, as it is kept."""
    if kind == Inquiry.Kind.REPOSITORIES:
        return repositories_seen_by(caller, region).to_json()
    return tags_seen_by(caller, image, region).to_json()


def every_tag(ask: Ask, image: str, region: str = "", **more: Any) -> SeenTags:
    """Follow the pages to the end, or to as many tags as are ever read. Raises what `ask` raises."""
    asked: dict[str, Any] = {**more, "repository": image, "region": region}
    found: dict[str, SeenTag] = {}
    while True:
        answer = ask(asked)
        found |= {one.name: one for one in _read(answer)}
        after = answer.get("nextToken")
        is_full = len(found) >= REGISTRY_TAGS
        if is_full or not after or after == asked.get(AFTER):
            is_cut = bool(answer.get("is_cut") or (is_full and after))
            return SeenTags(_ordered(list(found.values()))[: int(REGISTRY_TAGS)], is_cut)
        asked = {**asked, AFTER: after}


def page_of(tags: Sequence[SeenTag], *, search: str, page: int, limit: int) -> TagPage:
    """One page of the tags that contain a text, whatever its case; pages count from 1."""
    wanted = search.strip().lower()
    matching = [one for one in tags if wanted in one.name.lower()]
    begin = (page - 1) * limit
    following = page + 1 if len(matching) > begin + limit else None
    return TagPage(matching[begin : begin + limit], following, len(matching))


def digest_of(result: Mapping[str, Any]) -> str:
    """The digest in an answer of a registry or of ECR."""
    images = result.get("imageDetails") or [{}]
    return str(result.get("digest") or images[0].get("imageDigest") or "")


def height(tag: str) -> list[tuple[int, int, str]]:
    """What orders tags: pieces of text, and numbers as numbers."""
    pieces = re.findall(r"[0-9]+|[^0-9]+", tag)
    return [(1, int(one), "") if one.isdigit() else (0, 0, one) for one in pieces]


def _read(answer: Mapping[str, Any]) -> list[SeenTag]:
    images = answer.get("imageDetails")
    if images is None:
        return [SeenTag(str(tag)) for tag in answer.get("tags") or ()]
    return [
        SeenTag(str(tag), str(image.get("imagePushedAt") or ""))
        for image in images
        for tag in image.get("imageTags") or ()
    ]


def _ordered(tags: list[SeenTag]) -> list[SeenTag]:
    """The newest first where it is known when they were pushed, else and within one push the highest."""
    tags.sort(key=lambda one: height(one.name), reverse=True)
    tags.sort(key=lambda one: one.pushed_at, reverse=True)
    return tags
