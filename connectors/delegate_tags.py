"""Parser and validation of delegate tags."""

import re
from collections.abc import Iterator
from typing import Any

from guards.limits import SELECTORS, TAG_CHARACTERS

TAG_PATTERN = r"^[^\s,<>\"']+$"
_TAG = re.compile(TAG_PATTERN)


def find_tag_problems(tags: Any) -> Iterator[str]:
    """What is wrong with a list of tags; None is an empty one."""
    if tags is None:
        return
    if not isinstance(tags, list | tuple):
        yield "This must be a list of tags."
    elif len(tags) > SELECTORS:
        yield f"Use {SELECTORS:d} tags at most."
    else:
        yield from (_INVALID_TAG_MESSAGE.format(str(tag)[:40]) for tag in tags if not _is_tag(tag))


def parse_tag_list(text: str) -> list[str]:
    """Return the tags in a text that has commas or blanks between them, each once."""
    return list(dict.fromkeys(one for one in re.split(r"[\s,]+", text) if one))


_INVALID_TAG_MESSAGE = (
    f"“{{}}” is not a tag: use 1 to {TAG_CHARACTERS:d} characters without spaces, commas, quotes and < >."
)


def _is_tag(tag: Any) -> bool:
    return isinstance(tag, str) and len(tag) <= TAG_CHARACTERS and bool(_TAG.match(tag)) and tag.isprintable()
