"""What is wrong with the tags that people give a delegate: each must be one that a selector can name."""

from collections.abc import Iterator, Sequence

from connectors.delegate_tags import tag_problems as selector_problems
from guards.limits import DELEGATE_TAGS


def tag_problems(tags: Sequence[str]) -> Iterator[str]:
    """What is wrong with tags, in sentences."""
    if len(tags) > DELEGATE_TAGS:
        yield f"A delegate may have {DELEGATE_TAGS:d} tags at most."
        return
    for tag in tags:
        yield from selector_problems([tag])
