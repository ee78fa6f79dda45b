"""Tags of delegates: how they are written, and what is wrong with a list of them."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from guards.limits import DELEGATE_TAGS, NAME_CHARACTERS
from guards.text import name_fault

# Agents are given their tags in one variable, with commas between them (R130).
_APART: Final = re.compile(r"[\s,]")


def tag_problems(tags: Sequence[str]) -> Iterator[str]:
    """What is wrong with tags, in sentences."""
    if len(tags) > DELEGATE_TAGS:
        yield f"A delegate may have {DELEGATE_TAGS:d} tags at most."
        return
    for tag in tags:
        if fault := name_fault(tag, NAME_CHARACTERS):
            yield f"“{tag[:40]}”: {fault.message.replace('a name', 'a tag')}."
        elif _APART.search(tag):
            yield f"“{tag[:40]}” is not one tag: leave out blanks and commas."


def tags_in(text: str) -> list[str]:
    """The tags in a text with blanks or commas between them, each once."""
    return list(dict.fromkeys(one for one in _APART.split(text) if one))
