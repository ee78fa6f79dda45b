"""Usages of a resource, as pages and refusals name them."""

from dataclasses import dataclass
from typing import Final

_MAX_NAMED: Final = 5


@dataclass(frozen=True)
class ResourceUsage:
    """Something that uses a thing, as a page links to it."""

    title: str
    url: str


@dataclass(frozen=True)
class ResourceUsages:
    """References to a resource: visible ones by name, and the number of the others."""

    visible: tuple[ResourceUsage, ...] = ()
    hidden: int = 0

    def __bool__(self) -> bool:
        return bool(self.visible or self.hidden)

    def __str__(self) -> str:
        named = [use.title for use in self.visible[:_MAX_NAMED]]
        unnamed_count = len(self.visible) - len(named) + self.hidden
        return " and ".join(
            part for part in (", ".join(named), f"{unnamed_count} more" if unnamed_count else "") if part
        )
