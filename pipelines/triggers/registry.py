"""Registry of trigger kinds."""

from collections.abc import Mapping
from functools import cache
from typing import TypeVar

from pipelines.triggers.base import TriggerKind
from steps.discovery import import_submodules

Kind = TypeVar("Kind", bound=type[TriggerKind])
_kinds: dict[str, TriggerKind] = {}


def register_kind(kind: Kind) -> Kind:
    """Register a kind of trigger under its identifier."""
    _kinds[kind.identifier] = kind()
    return kind


@cache
def list_kinds() -> Mapping[str, TriggerKind]:
    """Return all kinds by their identifiers, sorted by title."""
    import_submodules("pipelines.triggers.kinds")
    return dict(sorted(_kinds.items(), key=lambda item: item[1].title))


def find_kind(identifier: str) -> TriggerKind | None:
    """Return a kind; None for one that this release does not have."""
    return list_kinds().get(identifier)
