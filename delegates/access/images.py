"""Repositories, tags and digests in registries and ECR (R179, R180)."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

from aws.caller import Caller
from aws.errors import AwsError, Undelivered
from delegates.access.site_calls import FIND_DIGEST, LIST_REPOSITORIES, LIST_TAGS, SITE_SERVICE
from delegates.models import LookupRequest
from guards.limits import REGISTRY_TAGS

FetchPage = Callable[[dict[str, Any]], Mapping[str, Any]]
"""Function that fetches a page of tags, with `after` the following page. Raises `AwsError`."""
CURSOR_PARAM: Final = "after"
IMAGE_PATH: Final = re.compile(r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*\Z")
TAG: Final = re.compile(r"\w[\w.-]{0,127}\Z", re.ASCII)
# A registry that repeats its pages must not cause an endless loop.
MAX_PAGES: Final = 100
# A slow registry leaves digests to the next read.
DIGEST_SECONDS: Final = 15.0
_DIGEST: Final = re.compile(r"[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[0-9A-Fa-f]{32,128}\Z")
_DIGITS: Final = "0123456789"
_TOO_OLD: Final = "The delegate cannot list repositories: upgrade it"


@dataclass(frozen=True)
class ImageTag:
    """Image tag; `pushed_at` (in ISO 8601) and `digest` are those of ECR, and empty for registries."""

    name: str
    pushed_at: str = ""
    digest: str = ""


@dataclass(frozen=True)
class ImageTags:
    """Sorted tags of a repository; `is_cut` if the repository has more than the limit."""

    tags: Sequence[ImageTag]
    is_cut: bool = False

    @property
    def names(self) -> list[str]:
        """Return the tags alone."""
        return [tag.name for tag in self.tags]

    def to_json(self) -> dict[str, Any]:
        return {"tags": [asdict(tag) for tag in self.tags], "is_cut": self.is_cut}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "ImageTags":
        """Parse the output of `to_json`."""
        return cls([ImageTag(**tag) for tag in document["tags"]], bool(document.get("is_cut")))


@dataclass(frozen=True)
class Repositories:
    """Repositories of a registry, or of ECR in a region, by name; `is_cut` above the limit."""

    names: Sequence[str]
    is_cut: bool = False

    @property
    def as_tags(self) -> list[ImageTag]:
        """Return the names as lists of tags are, to be paged like them."""
        return [ImageTag(name) for name in self.names]

    def to_json(self) -> dict[str, Any]:
        return {"repositories": list(self.names), "is_cut": self.is_cut}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Repositories":
        """Parse the output of `to_json`."""
        return cls(list(document["repositories"]), bool(document.get("is_cut")))


@dataclass(frozen=True)
class TagPage:
    """Some of the tags that were searched for; `following` is the number of the next page."""

    tags: Sequence[ImageTag]
    following: int | None
    matching: int


def fetch_tags(caller: Caller, image: str, region: str) -> ImageTags:
    """Return the tags of a repository.

    Raises `AwsError`, and `CallPending` until a delegate has answered.
    """
    return fetch_all_tags(lambda params: caller.call(SITE_SERVICE, LIST_TAGS, params), image, region)


def fetch_repositories(caller: Caller, region: str) -> Repositories:
    """Return the repositories of a registry, of ECR those of a region. Raises as `fetch_tags` does."""
    repositories: dict[str, None] = {}

    def add_names(response: Mapping[str, Any]) -> int:
        if "repositories" not in response:
            # An agent of an earlier version only greets a registry.
            raise Undelivered("NOT_LISTED", _TOO_OLD, SITE_SERVICE, LIST_REPOSITORIES)
        names = (
            str(entry.get("repositoryName") or "") for entry in _list_mappings(response.get("repositories"))
        )
        repositories.update(dict.fromkeys(name for name in names if IMAGE_PATH.match(name)))
        return len(repositories)

    is_cut = _fetch_pages(
        lambda params: caller.call(SITE_SERVICE, LIST_REPOSITORIES, params), {"region": region}, add_names
    )
    return Repositories(sorted(repositories)[: int(REGISTRY_TAGS)], is_cut)


def fetch_digests(caller: Caller, image: str, tags: Sequence[str]) -> dict[str, Any]:
    """Return the digests of tags as {"digests": {tag: digest}, "problem": the last refusal of the registry}.

    A tag without a readable digest is left out. Raises `CallPending` until a delegate has answered.
    """
    digests, problem, end = {}, "", time.monotonic() + DIGEST_SECONDS
    for tag in tags:
        if time.monotonic() > end:
            break
        try:
            answer = caller.call(SITE_SERVICE, FIND_DIGEST, {"repository": image, "tag": tag})
        except AwsError as error:
            problem = error.display_message
            continue
        if digest := parse_digest(answer):
            digests[tag] = digest
    return {"digests": digests, "problem": problem}


def read_registry(
    kind: str, caller: Caller, image: str, region: str, tags: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the response to a lookup of repositories, image tags or digests of `tags` as stored JSON."""
    if kind == LookupRequest.Kind.DIGESTS:
        return fetch_digests(caller, image, tags)
    if kind == LookupRequest.Kind.REPOSITORIES:
        return fetch_repositories(caller, region).to_json()
    return fetch_tags(caller, image, region).to_json()


def fetch_all_tags(fetch_page: FetchPage, image: str, region: str = "", **more: Any) -> ImageTags:
    """Return the tags of all pages, up to the limit. Raises the errors of `fetch_page`."""
    tags: dict[str, ImageTag] = {}

    def add_tags(response: Mapping[str, Any]) -> int:
        tags.update({tag.name: tag for tag in _parse_tags(response) if TAG.match(tag.name)})
        return len(tags)

    is_cut = _fetch_pages(fetch_page, {**more, "repository": image, "region": region}, add_tags)
    return ImageTags(_sort_tags(list(tags.values()))[: int(REGISTRY_TAGS)], is_cut)


def _fetch_pages(
    fetch_page: FetchPage, first: Mapping[str, Any], add_page: Callable[[Mapping[str, Any]], int]
) -> bool:
    """Fetch pages until the list ends or the limit is reached, and return whether more exist.

    `add_page` returns the number of entries so far.
    """
    params = dict(first)
    for _ in range(MAX_PAGES):
        response = fetch_page(params)
        count, after = add_page(response), response.get("nextToken")
        if not isinstance(after, str) or not after or after == params.get(CURSOR_PARAM):
            return bool(response.get("is_cut")) or count > REGISTRY_TAGS
        if count >= REGISTRY_TAGS:
            break
        params[CURSOR_PARAM] = after
    return True


def paginate_tags(tags: Sequence[ImageTag], *, search: str, page: int, limit: int) -> TagPage:
    """Return one page of the tags that contain a text, ignoring case; pages count from 1."""
    needle = search.strip().lower()
    matching = [tag for tag in tags if needle in tag.name.lower()]
    begin = (page - 1) * limit
    following = page + 1 if len(matching) > begin + limit else None
    return TagPage(matching[begin : begin + limit], following, len(matching))


def parse_digest(result: Mapping[str, Any]) -> str:
    """Return the digest in a response of a registry or of ECR, or an empty text."""
    images = [*_list_mappings(result.get("imageDetails")), {}]
    digest = str(result.get("digest") or images[0].get("imageDigest") or "")
    return digest if _DIGEST.match(digest) else ""


def build_tag_sort_key(tag: str) -> list[tuple[int, int, str]]:
    """Return a sort key that compares the numbers in tags as numbers."""
    pieces = re.findall(r"[0-9]+|[^0-9]+", tag)
    return [(1, int(piece), "") if piece[0] in _DIGITS else (0, 0, piece) for piece in pieces]


def _parse_tags(answer: Mapping[str, Any]) -> list[ImageTag]:
    if "imageDetails" not in answer:
        return [ImageTag(tag) for tag in _list_texts(answer.get("tags"))]
    return [
        ImageTag(
            tag, _parse_time(image.get("imagePushedAt")), parse_digest({"digest": image.get("imageDigest")})
        )
        for image in _list_mappings(answer["imageDetails"])
        for tag in _list_texts(image.get("imageTags"))
    ]


def _list_mappings(value: object) -> list[Mapping[str, Any]]:
    """Return the mappings in a list; a registry's response may not match the schema."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _list_texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _parse_time(value: object) -> str:
    """Return a datetime as ISO 8601 in UTC, so that texts sort by time; an empty text for any other value."""
    try:
        return datetime.fromisoformat(str(value)).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        return ""


def _sort_tags(tags: list[ImageTag]) -> list[ImageTag]:
    """Return the tags by push time, newest first; tags of one push or of unknown time by version."""
    tags.sort(key=lambda tag: build_tag_sort_key(tag.name), reverse=True)
    tags.sort(key=lambda tag: tag.pushed_at, reverse=True)
    return tags
